"""Keys by reference: where a connection says its key is, and the key that is there."""

from coffer import env, paths
from coffer.connections.connection import Connection
from coffer.errors import NoModel

_OURS = ("COFFER_LLM_API_KEY", "COFFER_EMBEDDING_API_KEY")  # a file may hold them instead


def key_of(connection: Connection) -> str:
    """The key itself, empty where none is wanted. Raises NoModel that says where it was looked for."""
    kind, _, name = connection.key.partition(":")
    if not kind:
        return ""
    found, looked = _from_variable(name) if kind == "env" else _from_keyring(name)
    if not found:
        raise NoModel(f"The key that {connection.settled_by} asks for is missing: {looked}.")
    if not (found.isascii() and found.isprintable()) or " " in found:
        raise NoModel(f"The key of {connection.settled_by} ({name}) holds characters that no key can have.")
    return found


def _from_variable(name: str) -> tuple[str, str]:
    found = env.secret(name) if name in _OURS else env.variable(name)[0]
    config = paths.home() / "config.env"
    return found.strip(), (
        f"{name} is set neither in {config} nor in the environment of this process; a line {name}=… in that file "
        "serves every process"
    )


def _from_keyring(name: str) -> tuple[str, str]:
    service, _, user = name.partition("/")
    try:
        import keyring  # noqa: PLC0415 - optional, and slow to load
    except ImportError:
        return "", "the package keyring is not installed beside Coffer"
    try:
        found = keyring.get_password(service, user)
    except Exception as error:  # its backends raise whatever they like
        return "", f"the system keyring could not be asked ({type(error).__name__})"
    return (found or "").strip(), f"the system keyring has none for service {service}, user {user}"
