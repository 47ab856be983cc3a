"""What the fields of a connection may be, and what is made of what people paste into them."""

import ipaddress
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from coffer import scrub
from coffer.errors import Invalid

ENVIRONMENT = "environment"  # the name of the connection that needs no row
_MAX_NAME, _MAX_URL, _MAX_MODEL = 60, 500, 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KEYRING = re.compile(r"[^/\s]{1,90}/[^\s]{1,90}")


def check(field: str, value: Any) -> Any:
    """A field of a connection as it will be saved. Raises Invalid."""
    return _CHECKS[field](value)


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def name(given: str) -> str:
    name = given.strip()
    if not name or len(name) > _MAX_NAME or not name.isprintable() or name == ENVIRONMENT:
        raise Invalid(f"A connection's name is 1 to {_MAX_NAME} printable characters, and not {ENVIRONMENT!r}.")
    return name


def model(given: str) -> str:
    model = given.strip()
    if not model or len(model) > _MAX_MODEL or not model.isprintable():
        raise Invalid(f"A model's name is 1 to {_MAX_MODEL} printable characters, as the endpoint spells it.")
    return model


def address(given: str) -> str:
    """An endpoint's address without what people paste along with it."""
    try:
        parts = urlsplit(given.strip())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise Invalid("The base_url is no address; it looks like https://host/v1.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or len(given) > _MAX_URL or not given.isascii():
        raise Invalid("The base_url must be an http or https address such as https://host/v1.")
    if parts.username or parts.password:
        raise Invalid("The base_url holds a password; give the key by reference, as env:NAME.")
    query = dict(parse_qsl(parts.query))
    if parts.fragment or set(query) - {"api-version"}:
        raise Invalid("The base_url may carry no parameter but api-version.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return SplitResult(
        parts.scheme, f"{host}{port}", path, f"api-version={query['api-version']}" if query else "", ""
    ).geturl()


def reference(given: str) -> str:
    """``env:NAME``, ``keyring:service/user`` or nothing; what looks like a key itself is not even quoted."""
    kind, _, name = given.strip().partition(":")
    if not given.strip() or given.strip() == "none":
        return ""
    shape = {"env": _VARIABLE, "keyring": _KEYRING}.get(kind)
    if shape is None or not shape.fullmatch(name) or scrub.redact(name).found:
        raise Invalid(
            "A key is given by reference, never itself: env:NAME for a variable in config.env or the environment, "
            "keyring:service/user for the system keyring, or none."
        )
    return f"{kind}:{name}"


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": name,
    "base_url": address,
    "model": model,
    "key": reference,
    "is_default": bool,
    "allow_organize": bool,
    "allow_distill": bool,
}
