"""A model on loopback that keeps every request: whatever reaches a session of a real agent stands in one of them.

It speaks as much of the Anthropic, OpenAI Responses and OpenAI Chat protocols as the agents need for one turn. A prompt
with ``REMEMBER: some text`` is answered by one call of the tool coffer__remember, where the agent has it.
"""

import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = tuple[str, Any]  # its name, "" for none, and its data
WISH = "REMEMBER: "
REPLY = "A reply of the mock model."
USAGE = {"input_tokens": 100, "output_tokens": 10}


class MockModel:
    """``url`` is where it listens; ``requests`` are the bodies it was sent, oldest first, ``asked_at`` when."""

    def __init__(self) -> None:
        model = self
        self.requests: list[dict[str, Any]] = []
        self.asked_at: list[float] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.answer({})

            def do_GET(self) -> None:
                self.answer({"object": "list", "data": [{"id": "mock-model", "object": "model"}], "models": []})

            def do_POST(self) -> None:
                body = json.loads(self.body() or b"{}")
                path = self.path.partition("?")[0]
                makers = {"/messages": anthropic, "/responses": responses, "/chat/completions": chat}
                make = next((make for end, make in makers.items() if path.endswith(end)), None)
                if make is None:
                    self.answer({"input_tokens": 42})
                    return
                model.requests.append(body)
                model.asked_at.append(time.monotonic())
                whole, events = make(body)
                if body.get("stream"):
                    self.stream(events)
                else:
                    self.answer(whole)

            def body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                data = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data

            def answer(self, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def stream(self, events: list[Event]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for name, data in events:
                    head = f"event: {name}\n" if name else ""
                    text = data if isinstance(data, str) else json.dumps(data)
                    self.wfile.write(f"{head}data: {text}\n\n".encode())
                self.close_connection = True

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # an agent that leaves in the middle of an answer

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def forget(self) -> None:
        self.requests.clear()
        self.asked_at.clear()

    def text(self) -> str:
        """All that was sent so far, as readable text."""
        return json.dumps(self.requests, ensure_ascii=False)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def anthropic(body: dict[str, Any]) -> tuple[Any, list[Event]]:
    """A message, and the events that stream it."""
    block = _wished(body) or {"type": "text", "text": REPLY}
    call = block["type"] == "tool_use"
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    message = {"id": _id("msg"), "type": "message", "role": "assistant", "model": body.get("model"), "usage": USAGE}
    begun = {**block, "input": {}} if call else {"type": "text", "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if call
        else {"type": "text_delta", "text": REPLY}
    )
    steps: list[Any] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": USAGE},
        {"type": "message_stop"},
    ]
    return {**message, **end, "content": [block]}, [(step["type"], step) for step in steps]


def responses(body: dict[str, Any]) -> tuple[Any, list[Event]]:
    """A response with one message, and the events that stream it."""
    content = [{"type": "output_text", "text": REPLY, "annotations": []}]
    item = {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": content}
    usage = {**USAGE, "total_tokens": 110, "input_tokens_details": {"cached_tokens": 0}}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    whole = {"id": _id("resp"), "object": "response", "status": "completed", "model": body.get("model")}
    steps: list[Any] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**whole, "output": [item], "usage": usage}},
    ]
    return steps[-1]["response"], [(step["type"], step) for step in steps]


def chat(body: dict[str, Any]) -> tuple[Any, list[Event]]:
    """A chat completion, and the chunks that stream it."""
    message = {"role": "assistant", "content": REPLY}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    whole = {"id": _id("chatcmpl"), "created": 1, "model": body.get("model")}
    chunk = {**whole, "object": "chat.completion.chunk"}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    answer = {**whole, "object": "chat.completion", "choices": choices, "usage": usage}
    return answer, [*(("", one) for one in chunks), ("", "[DONE]")]


def _wished(body: dict[str, Any]) -> dict[str, Any] | None:
    """The call that the prompt asks for, unless it was made."""
    tool = next((one["name"] for one in body.get("tools", []) if one.get("name", "").endswith("remember")), None)
    said = [one["content"] for one in body.get("messages", []) if one["role"] == "user"]
    texts = [block for one in said for block in (one if isinstance(one, list) else [{"type": "text", "text": one}])]
    if tool is None or any(block["type"] == "tool_result" for block in texts):
        return None
    for block in texts:
        _, found, wish = block.get("text", "").partition(WISH)
        if found:
            return {"type": "tool_use", "id": _id("toolu"), "name": tool, "input": {"text": wish.splitlines()[0]}}
    return None


def _id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:20]}"
