"""A stand-in for the daemon that proves itself, notes what it is sent, and misbehaves on request."""

import fcntl
import hashlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-for-tests-only"
AGENTS = "/api/v1/agents/"


@dataclass
class Seen:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    line: bytes
    body: Any


@dataclass
class Reply:
    """What to answer; ``after`` is waited for first, ``hang_up`` closes the connection instead."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    after: threading.Event | None = None
    hang_up: bool = False


Script = Callable[[Any], Reply | None]
CONTEXT = "what this project remembers"


@dataclass
class FakeDaemon:
    """Answers ``/mcp`` by ``script``, or with an echo of the params where that gives None; hooks by ``context``."""

    home: Path
    honest: bool = True
    script: Script = lambda body: None
    context: Callable[["Seen"], Reply] = lambda seen: Reply(json.dumps({"additional_context": CONTEXT}).encode())
    seen: list[Seen] = field(default_factory=list)
    open: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                daemon.open.append(self.connection)

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                if self.path.startswith(AGENTS):
                    self.reply(daemon.context(daemon.note(self, b"")))
                    return
                nonce = parse_qs(urlsplit(self.path).query).get("nonce", [""])[0]
                message = f"{nonce}:{self.server.server_address[1]}".encode()
                proof = hmac.new(TOKEN.encode(), message, hashlib.sha256).hexdigest()
                daemon.note(self, b"")
                self.answer(Reply(json.dumps({"status": "ok", "proof": proof if daemon.honest else "0" * 64}).encode()))

            def do_POST(self) -> None:
                seen = daemon.note(self, self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.startswith(AGENTS):
                    self.reply(daemon.context(seen))
                else:
                    self.reply(daemon.script(seen.body) or echo(seen.body))

            def reply(self, reply: Reply) -> None:
                if reply.after is not None:
                    reply.after.wait(30)
                if reply.hang_up:
                    self.close_connection = True
                    return
                self.answer(reply)

            def answer(self, reply: Reply) -> None:
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # a client that went away is part of some tests

        locks = self.home / "locks"
        locks.mkdir(exist_ok=True)
        self._lock = os.open(locks / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        (self.home / "token").write_text(TOKEN, encoding="utf-8")
        about = {"pid": 1, "port": self.port, "url": "", "version": "0", "started_at": f"{time.time_ns()}"}
        (self.home / "daemon.json").write_text(json.dumps(about), encoding="utf-8")

    def note(self, handler: BaseHTTPRequestHandler, line: bytes) -> Seen:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        seen = Seen(handler.path, headers, line, json.loads(line) if line else None)
        self.seen.append(seen)
        return seen

    def calls(self, method: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.body is not None and seen.body.get("method") == method]

    def asked(self) -> list[Seen]:
        """What hooks asked."""
        return [seen for seen in self.seen if seen.path.startswith(AGENTS)]

    def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        self._server.shutdown()
        for connection in self.open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        os.close(self._lock)


def echo(body: Any) -> Reply:
    """The params come back as the result; a notification is only accepted."""
    if "id" not in body:
        return Reply(status=202)
    result = body.get("params", {})
    if body["method"] == "initialize":
        result = {"protocolVersion": body["params"]["protocolVersion"], "capabilities": {}, "serverInfo": {}}
    return Reply(json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}, ensure_ascii=False).encode())
