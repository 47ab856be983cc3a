"""A remote URL becomes an identity, or nothing.

The threat answered here: tools clone with a token inside the URL, and whoever records the URL leaks it. So a URL that
cannot be taken apart with certainty has no identity at all, and nothing of it goes into a message.
"""

import re
from urllib.parse import unquote

_LONGEST = 2000
_DEFAULT_PORTS = {
    "ssh": 22, "git+ssh": 22, "ssh+git": 22, "git": 9418, "http": 80, "https": 443, "ftp": 21, "ftps": 990,
}  # fmt: skip

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")  # `ext::…`, `codecommit::…`: an address only that helper understands
_SCP = re.compile(r"(?:([^/\[\]]*)@)?(\[[^/\[\]@]+\]|[^/:@\[\]]+):(.*)", re.DOTALL)
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d*))?")
_NAME = re.compile(r"\w(?:[\w.-]{0,251}\w)?\.?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def normalise_remote(url: str) -> str | None:
    """`host[:port]/path` in lower case, one for all ways to write a repository; None when in doubt (FR-004a)."""
    url = url.strip(" ")
    if not url or len(url) > _LONGEST or "\\" in url or _CONTROL.search(url) or _HELPER.match(url):
        return None
    scheme = _SCHEME.match(url)
    if scheme:
        return _from_url(scheme[1].lower(), url[scheme.end() :])
    return _from_scp(url)


def _from_url(scheme: str, rest: str) -> str | None:
    end = next((at for at, char in enumerate(rest) if char in "/?#"), len(rest))
    authority, tail = rest[:end], rest[end:]
    # An @ after the first slash may be the end of a password that holds a slash: what looks like a path could be it.
    if scheme == "file" or "@" in tail:
        return None
    match = _HOST_PORT.fullmatch(authority.rpartition("@")[2])
    host = _host(match[1]) if match else None
    if match is None or host is None:
        return None
    port = int(match[2] or 0)
    if port > 65535:
        return None
    if port and port != _DEFAULT_PORTS.get(scheme):
        host = f"{host}:{port}"
    return _joined(host, _decoded(_bare_path(tail)))


def _from_scp(url: str) -> str | None:
    match = _SCP.fullmatch(url)
    if match is None or "@" in match[3] or ":" in (match[1] or ""):
        return None
    host = _host(match[2])
    # One letter before the colon is a Windows drive, not a machine.
    return None if host is None or len(host) == 1 else _joined(host, _bare_path(match[3]))


def _host(text: str) -> str | None:
    if text.startswith("["):
        return text.lower() if re.fullmatch(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]", text) else None
    if not _NAME.fullmatch(text) or ".." in text:
        return None
    return text.lower().rstrip(".")


def _bare_path(tail: str) -> str:
    return re.split(r"[?#]", tail, maxsplit=1)[0]


def _decoded(path: str) -> str | None:
    # Git decodes the path of a URL (not of the scp form), so both spellings of `~` or of a space are one repository.
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        return None


def _joined(host: str, path: str | None) -> str | None:
    # `..` would name another repository, a colon or an @ may be the rest of a password: neither is certain.
    if path is None or _CONTROL.search(path) or "@" in path or ":" in path:
        return None
    parts = [part for part in path.lower().split("/") if part not in ("", ".")]
    if parts and parts[-1].endswith(".git"):
        parts[-1] = parts[-1].removesuffix(".git")
    parts = [part for part in parts if part]
    return None if not parts or ".." in parts else "/".join([host, *parts])
