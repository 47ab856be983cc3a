"""Who may talk to the daemon.

Threats answered here: another user or program without the token; another program on our port (the daemon proves
itself before a client sends the token); another website (Host and Origin must be ours, against DNS rebinding).
"""

import hashlib
import hmac
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from coffer import fs, paths

_SHORTEST = 32  # characters of a secret; ours have 43
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


def token() -> str:
    """The daemon's token: read from its 0600 file, made at first use."""
    return _secret_file(paths.token())


def secret_key() -> str:
    """Django's secret key: read from its 0600 file, made at first use."""
    return _secret_file(paths.secret_key())


def token_matches(given: str | None) -> bool:
    """Compare in constant time; a missing token never matches."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token().encode())


def proof(nonce: str, port: int) -> str:
    """What shows a client that whoever answers on ``port`` can read the token file."""
    return hmac.new(token().encode(), f"{nonce}:{port}".encode(), hashlib.sha256).hexdigest()


def host_allowed(host: str | None) -> bool:
    """Whether a Host header names this machine's loopback, with or without a port."""
    if not host:
        return False
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name, port = host, ""
    return name.lower() in LOOPBACK_NAMES and (not colon or port.isdecimal())


def origin_allowed(origin: str | None, port: int) -> bool:
    """Whether a request without an Origin, or from our own pages, may pass."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        return parts.scheme == "http" and host_allowed(parts.netloc) and parts.port == port
    except ValueError:
        return False


def _secret_file(path: Path) -> str:
    """The secret of a file; one that is missing is made, one that a full disk or a crash cut off is made anew."""
    found = _secret(path)
    if not found:
        fs.ensure_dir(path.parent)
        with fs.locked("secrets.lock"):
            found = _secret(path)  # another process made it first: theirs counts
            if not found:
                found = secrets.token_urlsafe(32)
                path.unlink(missing_ok=True)
                fs.create(path, found.encode() + b"\n")
    return found


def _secret(path: Path) -> str:
    try:
        found = fs.read(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    return found if len(found) >= _SHORTEST and found.isascii() else ""
