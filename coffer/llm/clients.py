"""The openai package's client for a connection, sending no more than it must.

Clients for embeddings are kept: the vector of a query has no time for another handshake.
"""

import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from coffer.connections import Connection

if TYPE_CHECKING:
    import openai

_HEADERS = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"} | {
    "x-stainless-raw-response"  # how the client remembers what it was asked for
}
_AZURE = (".azure.com", ".azure.us", ".azure.cn")
_MOST_KEPT = 4
_kept: "dict[tuple[Connection, str], openai.OpenAI]" = {}
_lock = threading.Lock()


@contextmanager
def of(connection: Connection, key: str, *, keep: bool) -> "Iterator[openai.OpenAI]":
    """A client; one that is kept serves every thread, and stays open."""
    if not keep:
        with _made(connection, key) as client:
            yield client
        return
    with _lock:
        if (connection, key) not in _kept:
            while len(_kept) >= _MOST_KEPT:
                _kept.pop(next(iter(_kept))).close()
            _kept[(connection, key)] = _made(connection, key)
        client = _kept[(connection, key)]
    yield client


def prepare(connection: Connection, key: str) -> None:
    """Have the client that is kept ready for the next call."""
    with of(connection, key, keep=True):
        pass


def prepared(connection: Connection, key: str) -> bool:
    """Whether it is ready."""
    return (connection, key) in _kept


def _made(connection: Connection, key: str) -> "openai.OpenAI":
    import httpx2  # noqa: PLC0415 - comes with openai
    import openai  # noqa: PLC0415 - half a second that only a call of a model should pay

    return openai.OpenAI(
        api_key=key or "none",
        base_url=connection.base_url.partition("?")[0],
        default_query=dict(parse_qsl(urlsplit(connection.base_url).query)),
        max_retries=0,
        http_client=httpx2.Client(
            follow_redirects=False,
            trust_env=not connection.local,
            verify=_trusted(not connection.local, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            event_hooks={"request": [lambda sent: _own_headers(sent.headers, connection, key)]},
        ),
    )


@lru_cache(maxsize=8)
def _trusted(trust_env: bool, *_: str | None) -> ssl.SSLContext:
    """The certificates that are trusted: reading them takes fifty times as long as all the rest of a client."""
    import httpx2  # noqa: PLC0415 - comes with openai

    return httpx2.create_ssl_context(trust_env=trust_env)


def _own_headers(headers: Any, connection: Connection, key: str) -> None:
    """Leave only what the request needs, and the key where endpoints look for it."""
    for name in list(headers):
        if name.lower() not in _HEADERS:
            del headers[name]
    headers["User-Agent"] = "coffer"
    if key:
        headers["Authorization"] = f"Bearer {key}"
        if connection.host.endswith(_AZURE) or "api-version=" in connection.base_url:
            headers["api-key"] = key
