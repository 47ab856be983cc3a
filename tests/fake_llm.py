"""A real HTTP server that behaves like an OpenAI-compatible chat endpoint, and misbehaves on request.

In a test, with the fixture (which has set COFFER_LLM_BASE_URL, _MODEL and _API_KEY, so the engine is configured):

    def test_a_note_becomes_a_topic(fake_llm: FakeLlm) -> None:
        fake_llm.answer({"topic_slug": "ports", …})          # the next answer: a JSON object
        fake_llm.answer("<think>hm</think>```json {…} ```")  # the one after it: this very text
        fake_llm.answer(fail(503), fail(429, retry_after=0), Reply(content="late", seconds=0.2))
        fake_llm.answer(tools(("read", {"id": "a"}), ("list", {})))  # for run_tools
        fake_llm.always({"markdown": ""})                    # whenever nothing else is left to answer
        fake_llm.always(lambda request: {"echo": request.user})  # or computed from the request
        …
        assert "[secret-1:" in fake_llm.requests[0].user   # .system .user .messages .tools .body .headers

or anywhere, also for a child process:

    with FakeLlm() as llm:
        machine.coffer("organize", **llm.environment)

Replies beside plain content: ``fail(status)``, ``tools(…)``, ``hung()`` (never answers), ``closes()`` (hangs up without
an answer), ``raw(b"…")`` (any body), ``Reply(…)`` for the rest. Switches of the server: ``json_mode=False`` refuses
``response_format`` with 400, ``usage=False`` leaves the token counts out, ``streams=True`` streams though not asked to.
An answer that nobody scripted is a 400 whose message says so. ``waiting`` counts requests that have not been answered.

Embeddings are answered by ``llm.embeds``, a function from the request to its vectors or to a Reply; ``meant`` unless a
test sets another. ``embedding_environment`` are the settings that make this server the one that makes the vectors.
"""

import json
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

_SAME_MEANING = {"reboot": "restart", "automobile": "car", "车": "car"}
MODEL, KEY = "test-model", "test-key-not-a-real-one"


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", []))

    @property
    def system(self) -> str:
        return self._said("system")

    @property
    def user(self) -> str:
        return self._said("user")

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model may call."""
        return [one["function"]["name"] for one in self.body.get("tools", [])]

    @property
    def tool_results(self) -> list[str]:
        return [str(one["content"]) for one in self.messages if one["role"] == "tool"]

    @property
    def json_mode(self) -> bool:
        return "response_format" in self.body

    @property
    def texts(self) -> list[str]:
        """What is to be embedded."""
        return list(self.body.get("input", []))

    def _said(self, role: str) -> str:
        return "\n".join(str(one["content"]) for one in self.messages if one["role"] == role)


@dataclass(frozen=True)
class Reply:
    """One answer; a dict as content is sent as the text of that JSON object."""

    content: str | Mapping[str, Any] | None = None
    calls: tuple[tuple[str, Any], ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    seconds: float = 0.0
    after: threading.Event | None = None
    hang_up: bool = False
    finish: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)  # more of the message, for example reasoning_content


Content = str | Mapping[str, Any] | Reply
Script = Content | Callable[[Request], Content]


def fail(status: int, *, message: str = "made to fail", retry_after: str | float | None = None) -> Reply:
    """An error as endpoints word it."""
    body = json.dumps({"error": {"message": message, "type": "test", "code": None}}).encode()
    return Reply(status=status, body=body, headers={} if retry_after is None else {"Retry-After": str(retry_after)})


def tools(*calls: tuple[str, Any], content: str | None = None) -> Reply:
    """The model calls these tools; arguments that are a string are sent as they are, valid JSON or not."""
    return Reply(content=content, calls=calls)


def hung() -> Reply:
    """No answer until the server closes."""
    return Reply(after=threading.Event())


def closes() -> Reply:
    """The connection ends without an answer."""
    return Reply(hang_up=True)


def raw(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Reply:
    return Reply(status=status, body=body, headers={"Content-Type": content_type})


def meant(request: Request) -> list[list[float]]:
    """A vector for each text: texts that share words, or words of the same meaning, are near each other."""
    return [meaning_of(text) for text in request.texts]


def meaning_of(text: str, dimension: int = 64, model: str = "") -> list[float]:
    """Words thrown into a vector by their hash; ``model`` makes it that of another model."""
    vector = [0.01] * dimension
    for word in re.findall(r"[a-z0-9]+|[^\x00-\x7f]", text.lower()):
        digest = sha256(f"{model} {_SAME_MEANING.get(word, word)}".encode()).digest()
        for place in range(4):
            vector[digest[place] % dimension] += 1 if digest[place + 8] % 2 else -1
    return vector


class FakeLlm:
    """The server; see the module for how to use it."""

    def __init__(self, *, json_mode: bool = True, usage: bool = True, streams: bool = False) -> None:
        self.json_mode = json_mode
        self.usage = usage
        self.streams = streams
        self.embeds: Callable[[Request], list[Any] | Reply] = meant
        self.requests: list[Request] = []
        self.waiting = 0
        self._queue: deque[Script] = deque()
        self._always: Script | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._open: list[socket.socket] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """The settings that make this server the engine."""
        return {"COFFER_LLM_BASE_URL": self.base_url, "COFFER_LLM_MODEL": MODEL, "COFFER_LLM_API_KEY": KEY}

    @property
    def embedding_environment(self) -> dict[str, str]:
        """The settings that make this server the one that makes vectors."""
        return {
            "COFFER_EMBEDDING_BASE_URL": self.base_url,
            "COFFER_EMBEDDING_MODEL": MODEL,
            "COFFER_EMBEDDING_API_KEY": KEY,
        }

    def answer(self, *scripts: Script) -> None:
        """Add to the answers, given one a request, in order."""
        with self._lock:
            self._queue.extend(scripts)

    def always(self, script: Script) -> None:
        """What is answered whenever nothing else is left."""
        with self._lock:
            self._always = script

    @property
    def left(self) -> int:
        """How many answers nobody has asked for."""
        return len(self._queue)

    def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        self._closing.set()
        self._server.shutdown()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reply_to(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            if request.path.endswith("/embeddings"):
                return _embeddings(self.embeds(request))
            if request.json_mode and not self.json_mode:
                return fail(400, message="response_format is not supported by this model")
            script = self._queue.popleft() if self._queue else self._always
        found = script(request) if callable(script) else script
        if found is None:
            return fail(400, message="the test scripted no further answer")
        return found if isinstance(found, Reply) else Reply(content=found)

    def pause(self, reply: Reply) -> bool:
        """Wait as the reply says; False when the server closed meanwhile."""
        with self._lock:
            self.waiting += 1
        try:
            if reply.after is not None:
                while not reply.after.wait(0.02) and not self._closing.is_set():
                    pass
            if reply.seconds:
                self._closing.wait(reply.seconds)
        finally:
            with self._lock:
                self.waiting -= 1
        return not self._closing.is_set()

    def opened(self, connection: socket.socket) -> None:
        self._open.append(connection)

    def body(self, request: Request, reply: Reply) -> tuple[bytes, str]:
        """The bytes of a reply, and what kind they are."""
        if reply.body is not None:
            return reply.body, "application/json"
        message = _message(reply)
        finish = reply.finish or ("tool_calls" if reply.calls else "stop")
        if self.streams:
            return _streamed(message, finish), "text/event-stream"
        done: dict[str, Any] = {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 1,
            "model": request.body.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        if self.usage:
            words_in = sum(len(str(one.get("content") or "").split()) for one in request.messages)
            words_out = len(str(message["content"] or "").split())
            done["usage"] = {
                "prompt_tokens": words_in,
                "completion_tokens": words_out,
                "total_tokens": words_in + words_out,
            }
        return json.dumps(done, ensure_ascii=False).encode(), "application/json"


def _embeddings(found: list[Any] | Reply) -> Reply:
    if isinstance(found, Reply):
        return found
    data = [{"object": "embedding", "index": place, "embedding": one} for place, one in enumerate(found)]
    return Reply(body=json.dumps({"object": "list", "data": data, "model": MODEL}).encode())


def _message(reply: Reply) -> dict[str, Any]:
    content = reply.content
    if isinstance(content, Mapping):
        content = json.dumps(content, ensure_ascii=False)
    message: dict[str, Any] = {"role": "assistant", "content": content, **reply.fields}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for number, (name, given) in enumerate(reply.calls)
        ]
    return message


def _streamed(message: dict[str, Any], finish: str) -> bytes:
    text = str(message["content"] or "")
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)] or [""]
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass  # a client that went away is part of some tests


def _handler(llm: FakeLlm) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            llm.opened(self.connection)

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            line = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, json.loads(line))
            reply = llm.reply_to(request)
            if not llm.pause(reply) or reply.hang_up:
                self.close_connection = True
                return
            body, kind = llm.body(request, reply)
            self.send_response(reply.status)
            for name, value in {"Content-Type": kind, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@pytest.fixture
def fake_llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLlm]:
    """The server, configured as the engine by the environment."""
    with FakeLlm() as llm:
        for name, value in llm.environment.items():
            monkeypatch.setenv(name, value)
        yield llm
