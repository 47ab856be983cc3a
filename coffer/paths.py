"""COFFER_HOME and every path under it (design: "On disk")."""

from functools import lru_cache
from pathlib import Path

from coffer import env


def home() -> Path:
    return env.home()


def memory() -> Path:
    return _below(home(), "memory")


def projects() -> Path:
    return _below(home(), "memory", "projects")


def retired() -> Path:
    return _below(home(), "memory", "retired")


def store(name: str) -> Path:
    """The folder of ``global`` or ``project-<ulid>``; names are checked before they come here."""
    if name == "global":
        return _below(home(), "memory", "global")
    return _below(home(), "memory", "projects", name.removeprefix("project-"))


def database() -> Path:
    return _below(home(), "coffer.sqlite3")


def vectors() -> Path:
    return _below(home(), "vectors.sqlite3")


def locks() -> Path:
    return _below(home(), "locks")


def logs() -> Path:
    return _below(home(), "logs")


def launchers() -> Path:
    return _below(home(), "bin")


def backups() -> Path:
    return _below(home(), "backups")


def token() -> Path:
    return _below(home(), "token")


def secret_key() -> Path:
    return _below(home(), "secret_key")


def daemon_file() -> Path:
    return _below(home(), "daemon.json")


@lru_cache(maxsize=1024)
def _below(home: Path, *parts: str) -> Path:
    """Joined once: these are asked for many times in every call."""
    return home.joinpath(*parts)
