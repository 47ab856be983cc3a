"""Settings: the environment wins over ``COFFER_HOME/config.env``, which wins over the default.

``SETTINGS`` is the one table; docs/configuration.md is generated from it and ``coffer status`` names each source.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from coffer.errors import ConfigInvalid


@dataclass(frozen=True)
class Setting:
    name: str
    default: str
    help: str


SETTINGS = (
    Setting("COFFER_HOME", "~/.coffer", "Folder that holds everything. Only the environment can set it."),
    Setting("COFFER_PORT", "8765", "Port of the daemon on 127.0.0.1; taken or 0 means any free one."),
    Setting("COFFER_AUTOSTART", "1", "Whether shim and hook start a daemon when none runs."),
    Setting("COFFER_MAX_FACT_CHARS", "8192", "Longest text of one fact, in characters; a store may set its own."),
    Setting("COFFER_PREFERRED_EDITOR", "default", "Id of the editor that files open in; decides over the preference."),
    Setting(
        "COFFER_LLM_BASE_URL",
        "",
        "Address of an OpenAI-compatible endpoint; with COFFER_LLM_MODEL it is the engine, ahead of saved connections.",
    ),
    Setting("COFFER_LLM_MODEL", "", "Model to ask there."),
    Setting("COFFER_LLM_API_KEY", "", "Its key, where one is needed; COFFER_LLM_API_KEY_FILE may name a file with it."),
    Setting(
        "COFFER_LLM_ALLOW",
        "organize,distill",
        "What may be sent there: organize (notes and topics), distill (agents' sessions), both, or none.",
    ),
    Setting("COFFER_LLM_TIMEOUT", "120", "Seconds that one call of a model may take."),
    Setting("COFFER_LLM_RETRIES", "2", "How often a call is repeated after 429, 5xx or a lost connection."),
    Setting("COFFER_LLM_DAY_CALLS", "300", "Calls of a model in one UTC day, at most; 0 makes none."),
    Setting("COFFER_LLM_DAY_TOKENS", "2000000", "Tokens sent and received in one UTC day, at most."),
    Setting(
        "COFFER_RETRIEVAL",
        "keyword",
        "How stores are searched that do not say so themselves: keyword, or hybrid, which adds the nearest vectors.",
    ),
    Setting(
        "COFFER_EMBEDDING_BASE_URL",
        "",
        "Address of an OpenAI-compatible endpoint that makes the vectors; without it the local model does, if there.",
    ),
    Setting("COFFER_EMBEDDING_MODEL", "", "Embedding model to ask there; with the address it is the connection."),
    Setting(
        "COFFER_EMBEDDING_API_KEY",
        "",
        "Its key, where one is needed; COFFER_EMBEDDING_API_KEY_FILE may name a file with it.",
    ),
    Setting("COFFER_ORGANIZE", "1", "Whether stores are organized by themselves, once a model is connected."),
    Setting("COFFER_ORGANIZE_IDLE", "300", "Seconds without a write after which that happens."),
    Setting("COFFER_REORG_STEPS", "24", "How often a model is asked for its next step in one reorganization, at most."),
    Setting("COFFER_DISTILL", "1", "Whether sessions are distilled by themselves, once a model is connected."),
    Setting("COFFER_DISTILL_SETTLED", "900", "Seconds without activity after which a session counts as settled."),
    Setting("COFFER_DISTILL_DAYS", "7", "How many days back settled sessions are looked for."),
    Setting("COFFER_DISTILL_PER_PASS", "20", "Sessions that one pass distills at most; the others follow hourly."),
    Setting(
        "COFFER_RULES_REVIEW",
        "global",
        "Which rules of the engine's making no session is told until a person keeps them: all, global or none.",
    ),
    Setting("COFFER_BUNDLE_BYTES", "9900", "Most UTF-8 bytes that a session starts with, 3000 to 10000."),
    Setting("COFFER_LOG_LEVEL", "INFO", "Least level written to logs/: DEBUG, INFO, WARNING or ERROR."),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def home() -> Path:
    """COFFER_HOME as an absolute path; a relative one is refused, since every process has another cwd."""
    return _home(os.environ.get("COFFER_HOME") or _BY_NAME["COFFER_HOME"].default, os.environ.get("HOME"))


@lru_cache(maxsize=64)
def _home(given: str, person: str | None) -> Path:
    try:
        path = Path(given).expanduser()
    except RuntimeError:
        raise ConfigInvalid(
            f"COFFER_HOME is {given!r}, and there is no such home folder.", name="COFFER_HOME"
        ) from None
    if not path.is_absolute() and f"{given}/".startswith("~/"):
        raise ConfigInvalid(f"HOME is {person!r}, a relative path; give an absolute one.", name="HOME")
    if not path.is_absolute():
        raise ConfigInvalid(f"COFFER_HOME is {given!r}, a relative path; give an absolute one.", name="COFFER_HOME")
    return path


def text(name: str) -> str:
    """The setting as written, from its strongest source."""
    return _find(name)[0]


def secret(name: str) -> str:
    """Like ``text``; ``NAME_FILE`` may name a file that holds the value."""
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return text(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigInvalid(f"{name}_FILE cannot be read ({error.strerror}).", name=name) from error


def flag(name: str) -> bool:
    """The setting as a boolean: 1/0, true/false, yes/no, on/off."""
    value = text(name).strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ConfigInvalid(f"{name} is {value!r}; use 1 or 0.", name=name)


def number(name: str, *, least: int = 0, most: int = 2**31) -> int:
    """The setting as a whole number within bounds."""
    value = text(name).strip()
    try:
        result = int(value)
    except ValueError:
        raise ConfigInvalid(f"{name} is {value!r}; it must be a whole number.", name=name) from None
    if not least <= result <= most:
        raise ConfigInvalid(f"{name} is {result}; it must be between {least} and {most}.", name=name)
    return result


def choice(name: str, allowed: tuple[str, ...]) -> str:
    """The setting as one of some upper-case words."""
    value = text(name).strip().upper()
    if value not in allowed:
        raise ConfigInvalid(f"{name} is {value!r}; use one of {', '.join(allowed)}.", name=name)
    return value


def source(name: str) -> str:
    """Where the value comes from: environment, config.env or default."""
    return _find(name)[1]


def variable(name: str) -> tuple[str, str]:
    """What any variable holds, a setting of ours or not, and its source as in ``source``; two blanks when unset."""
    if name in os.environ:
        return os.environ[name], "environment"
    values = _config_file()
    return (values[name], "config.env") if name in values else ("", "")


def _find(name: str) -> tuple[str, str]:
    if name in os.environ:
        return os.environ[name], "environment"
    if name != "COFFER_HOME":
        values = _config_file()
        if name in values:
            return values[name], "config.env"
    return _BY_NAME[name].default, "default"


def _config_file() -> dict[str, str]:
    path = home() / "config.env"
    try:
        stat = path.stat()
    except OSError:
        return {}
    return _parsed(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _parsed(path: Path, _mtime: int, _size: int) -> dict[str, str]:
    values: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path} is not valid UTF-8; save it anew as such.") from error
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read ({error.strerror}).") from error
    for count, raw in enumerate(lines, 1):
        line = raw.strip().removeprefix("export ")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ConfigInvalid(f"{path}, line {count}: expected NAME=value.")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        values[name.strip()] = value
    return values
