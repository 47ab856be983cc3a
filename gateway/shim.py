"""``coffer-mcp-shim``: an MCP server on stdin and stdout that passes every message to the daemon's ``/mcp``.

It adds what only it knows: where the agent stands, its name and its session. Requests run side by side, so that a
slow one holds up no other. A call that may have been carried out is never sent twice. Standard library only, and
imported lightly: an agent waits for this process at every start.
"""

import base64
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPResponse
from urllib.parse import quote

from agents import link
from gateway import stdio

LINE_LIMIT = 4 * 1024 * 1024  # the daemon takes 8 MB of a body; no memory item comes near either
START_SECONDS = 20.0
ANSWER_SECONDS = 60.0
_THREADS = 32
_IDLE_CONNECTIONS = 8
_REFUSED_SECONDS = 1.0
_IDLE_SECONDS = 60.0  # less than the daemon keeps one: a request must not meet its closing
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603
_VERSION_KEY, _CLIENT_KEY = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_READS = frozenset({"coffer__recall", "coffer__list_memory", "coffer__resume"})
_USAGE = "usage: coffer-mcp-shim [--agent NAME]\nPasses MCP messages between stdin/stdout and Coffer's daemon.\n"


def main() -> int:
    """Serve until stdin or stdout closes; 0, or 2 for arguments that make no sense."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    match sys.argv[1:]:
        case []:
            agent = ""
        case ["--agent", agent]:
            pass
        case [option] if option.startswith("--agent="):
            agent = option.removeprefix("--agent=")
        case arguments:
            sys.stderr.write(_USAGE)
            return 0 if arguments in (["-h"], ["--help"]) else 2
    relay = Relay(agent, stdio.write_line)
    for line in stdio.lines():
        relay.take(line)
    while not relay.drained(0.5):
        stdio.leave_if_nobody_reads()
    return 0


class Message:
    """One JSON-RPC message from the client, and what of it the way to the daemon needs."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.sent = False
        self.cancelled = False
        self.connection: link.Connection | None = None
        self.body: dict[str, object] = json.loads(line.decode("utf-8"))
        if not isinstance(self.body, dict):
            raise TypeError("not one object")
        self.method = str(self.body.get("method", ""))
        self.is_request = "id" in self.body and bool(self.method)
        self.id = self.body.get("id")
        params = self.body.get("params")
        self.params: dict[str, object] = params if isinstance(params, dict) else {}
        meta = self.params.get("_meta")
        self.meta: dict[str, object] = meta if isinstance(meta, dict) else {}

    @property
    def may_be_repeated(self) -> bool:
        """Whether sending it twice changes nothing."""
        return self.method != "tools/call" or self.params.get("name") in _READS

    @property
    def is_stream(self) -> bool:
        """Whether its answer never ends by itself."""
        return self.method == "subscriptions/listen"

    @property
    def client_name(self) -> str:
        """What the client calls itself, in either protocol era."""
        info = self.params.get("clientInfo") or self.meta.get(_CLIENT_KEY)
        return str(info.get("name", "")) if isinstance(info, dict) else ""


class Relay:
    """Takes the client's lines and writes the daemon's answers; every answer is one line."""

    def __init__(self, agent: str, write: Callable[[bytes], None]) -> None:
        self._agent = agent
        self._write = write
        self._version = ""
        self._handshake: Message | None = None
        self._greeted = ""  # the daemon that has seen the handshake
        self._negotiated = threading.Event()
        self._negotiated.set()
        self._idle: list[tuple[float, link.Connection]] = []
        self._refusal = 0.0, ""
        self._under_way: dict[str, Message] = {}
        self._lock = threading.Lock()
        self._crew = _Crew(self._carry)

    def take(self, line: bytes) -> None:
        """Handle one line: answer it here when it makes no sense, else pass it on and return at once."""
        try:
            message = Message(line)
        except (ValueError, TypeError, RecursionError):
            self._fail(None, _PARSE_ERROR, "The line is not one JSON-RPC object in UTF-8; it was not passed on.")
            return
        if len(line) > LINE_LIMIT:
            text = f"The message has {len(line)} bytes and at most {LINE_LIMIT} are taken; send less at once."
            self._fail(message.id, _INVALID_REQUEST, text)
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))
        elif message.is_request:
            if message.method == "initialize":
                self._negotiated.clear()
            with self._lock:
                self._under_way[_key(message.id)] = message
            self._crew.do(message)
        elif message.method:
            self._crew.do(message)
        # What is left are answers to requests, and the daemon never asks any.

    def drained(self, seconds: float) -> bool:
        """Wait until every request that has an end is answered; False when the time was not enough."""
        with self._crew.changed:
            return self._crew.changed.wait_for(lambda: not self._crew.busy, seconds)

    def _carry(self, message: Message) -> None:
        try:
            if message.method == "initialize":
                self._initialize(message)
            else:
                self._negotiated.wait(ANSWER_SECONDS)
                self._agent = self._agent or message.client_name
                self._pass_on(message)
        except link.NoDaemon as error:
            self._fail_request(message, str(error))
        except link.FAILURES as error:
            self._fail_request(message, _broken(message, error))
        except Exception as error:
            self._fail_request(message, f"The shim failed ({type(error).__name__}); this is a defect of Coffer.")
        finally:
            with self._lock:
                self._under_way.pop(_key(message.id), None)

    def _initialize(self, message: Message) -> None:
        self._agent = self._agent or message.client_name
        with suppress(UnicodeDecodeError):  # a path that JSON cannot name stays in the header only
            message.params["_meta"] = {**message.meta, "coffer/cwd": _cwd().decode()}
            message.body["params"] = message.params
            message.line = json.dumps(message.body).encode()
        self._version = ""
        self._handshake = message
        try:
            self._pass_on(message)
        finally:
            self._negotiated.set()

    def _pass_on(self, message: Message) -> None:
        """Send a message and write its answer; a second time only where that cannot do a thing twice."""
        for attempt in (1, 2):
            connection = self._connection(fresh=attempt == 2)
            message.connection, message.sent = connection, False
            try:
                if message.method != "initialize":
                    self._greet(connection)
                connection.send("POST", "/mcp", message.line, self._headers(message), ANSWER_SECONDS)
                message.sent = True
                self._answer(message, connection)
                self._keep(connection)
                return
            except link.FAILURES as error:
                connection.close()
                hopeless = isinstance(error, TimeoutError) or message.cancelled
                if attempt == 2 or hopeless or (message.sent and not message.may_be_repeated):
                    raise

    def _greet(self, connection: link.Connection) -> None:
        """Replay the handshake to a daemon that has not seen it: one that was started again, perhaps newer."""
        with self._lock:
            if self._handshake is None or self._greeted == connection.instance:
                return
            self._greeted = connection.instance
        headers = self._headers(self._handshake)
        connection.request("POST", "/mcp", self._handshake.line, headers, ANSWER_SECONDS)

    def _answer(self, message: Message, connection: link.Connection) -> None:
        response = connection.response()
        if response.headers.get_content_type() == "text/event-stream":
            for event in _events(response):
                self._write(event)
            return
        body = response.read()
        if not message.is_request or message.cancelled:
            return
        if message.method == "initialize":
            self._learn(body, connection.instance)
        self._write(_as_answer(message, response.status, body))

    def _learn(self, body: bytes, instance: str) -> None:
        self._greeted = instance
        try:
            self._version = str(json.loads(body)["result"]["protocolVersion"])
        except (ValueError, KeyError, TypeError):
            self._handshake = None  # refused: there is nothing to replay

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "X-Coffer-Cwd": quote(_cwd()),
            "X-Coffer-Agent": _printable(self._agent.replace("-", "_")),
            "X-Coffer-Session": _printable(os.environ.get("CLAUDE_CODE_SESSION_ID", "")),
        }
        modern = message.meta.get(_VERSION_KEY)
        if isinstance(modern, str):
            headers["Mcp-Method"] = _printable(message.method)
            name = message.params.get(_NAMED.get(message.method, ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _encoded(name)
        version = modern if isinstance(modern, str) else self._version
        if version:
            headers["Mcp-Protocol-Version"] = _printable(version)
        return headers

    def _connection(self, *, fresh: bool) -> link.Connection:
        with self._lock:
            while self._idle and not fresh:
                since, connection = self._idle.pop()
                if connection.usable() and time.monotonic() - since < _IDLE_SECONDS:
                    return connection
                connection.close()
        return self._ensure()

    def _ensure(self) -> link.Connection:
        """A new connection; when there was none just now, the same refusal at once: clients try in several ways."""
        with self._lock:
            until, words = self._refusal
        if time.monotonic() < until:
            raise link.NoDaemon(words)
        try:
            return link.ensure(START_SECONDS)
        except link.NoDaemon as error:
            with self._lock:
                self._refusal = time.monotonic() + _REFUSED_SECONDS, str(error)
            raise

    def _keep(self, connection: link.Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_CONNECTIONS and connection.usable():
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _cancel(self, request_id: object) -> None:
        """Stop waiting for a request; nothing is written for it any more."""
        with self._lock:
            message = self._under_way.get(_key(request_id))
        if message is not None and message.method != "initialize":
            message.cancelled = True
            if message.connection is not None:
                message.connection.abort()

    def _fail_request(self, message: Message, text: str) -> None:
        if message.is_request and not message.cancelled:
            self._fail(message.id, _INTERNAL_ERROR, text)

    def _fail(self, request_id: object, code: int, text: str) -> None:
        error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
        self._write(json.dumps(error).encode())


class _Crew:
    """Threads that come when there is work; ``busy`` counts what is under way, endless streams apart."""

    def __init__(self, work: Callable[[Message], None]) -> None:
        self.changed = threading.Condition()
        self.busy = 0
        self._work = work
        self._waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._threads = 0
        self._free = 0

    def do(self, message: Message) -> None:
        with self.changed:
            self.busy += not message.is_stream
            if self._free > 0:
                self._free -= 1
            elif self._threads < _THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, daemon=True).start()
        self._waiting.put(message)

    def _serve(self) -> None:
        while True:
            message = self._waiting.get()
            try:
                self._work(message)
            finally:
                with self.changed:
                    self._free += 1
                    self.busy -= not message.is_stream
                    self.changed.notify_all()


_last_cwd = b""


def _cwd() -> bytes:
    """The working directory; of a removed one its last name, so that an error can say which it was."""
    global _last_cwd
    try:
        _last_cwd = os.getcwdb()
    except OSError:
        _last_cwd = _last_cwd or _removed_cwd()
    return _last_cwd


def _removed_cwd() -> bytes:
    with suppress(OSError):
        return os.readlink(b"/proc/self/cwd").removesuffix(b" (deleted)")
    told = os.environb.get(b"PWD", b"")
    return b"" if os.path.isdir(told) else told  # one that exists is another, left over from who started us


def _key(request_id: object) -> str:
    return json.dumps(request_id)  # 1 and "1" are two ids


def _events(response: HTTPResponse) -> Iterator[bytes]:
    data: list[bytes] = []
    for line in response:
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line.strip() and any(data):
            yield b"".join(data)
            data = []


def _as_answer(message: Message, status: int, body: bytes) -> bytes:
    """The daemon's answer as one line that carries the request's id, whatever refused the request on its way."""
    body = body.strip()
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "jsonrpc" not in found:
        error = found.get("error") if isinstance(found, dict) else None
        text = error.get("message") if isinstance(error, dict) else f"Coffer's daemon answered with status {status}."
        found = {"jsonrpc": "2.0", "id": message.id, "error": {"code": _INTERNAL_ERROR, "message": text}}
    elif found.get("id") is not None and b"\n" not in body:
        return body
    return json.dumps({**found, "id": message.id}).encode()


def _broken(message: Message, error: Exception) -> str:
    if not message.sent:
        return f"Coffer's daemon could not be reached for {message.method}; nothing was done. Try again in a moment."
    how = f"gave no answer within {ANSWER_SECONDS:.0f} s" if isinstance(error, TimeoutError) else "went away"
    if message.may_be_repeated:
        return f"Coffer's daemon {how} while it worked on {message.method}; try again, or ask `coffer status`."
    return (
        f"Coffer's daemon {how} while it worked on {message.params.get('name')}, so that may or may not be done. "
        "Look with coffer__recall, coffer__list_memory or coffer__resume before you send it again."
    )


def _printable(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "_" for char in text).strip()[:255]


def _encoded(name: str) -> str:
    """A name as MCP writes it into a header: itself when that is safe, else in base64."""
    if name == _printable(name) and not name.startswith("=?base64?"):
        return name
    return f"=?base64?{base64.b64encode(name.encode('utf-8', 'replace')).decode()}?="


if __name__ == "__main__":
    sys.exit(main())
