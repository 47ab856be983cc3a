"""COFFER_HOME and every path under it (design: "On disk")."""

from pathlib import Path

from coffer import env


def home() -> Path:
    return env.home()


def memory() -> Path:
    return home() / "memory"


def projects() -> Path:
    return memory() / "projects"


def retired() -> Path:
    return memory() / "retired"


def store(name: str) -> Path:
    """The folder of ``global`` or ``project-<ulid>``; names are checked before they come here."""
    return memory() / "global" if name == "global" else projects() / name.removeprefix("project-")


def database() -> Path:
    return home() / "coffer.sqlite3"


def locks() -> Path:
    return home() / "locks"


def logs() -> Path:
    return home() / "logs"


def launchers() -> Path:
    return home() / "bin"


def backups() -> Path:
    return home() / "backups"


def token() -> Path:
    return home() / "token"


def secret_key() -> Path:
    return home() / "secret_key"


def daemon_file() -> Path:
    return home() / "daemon.json"
