"""What an endpoint's response means: an answer, or an error that has a name.

What an endpoint says in an error may repeat the key or what was sent, so only its status and well-known codes reach a
message.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

from coffer import env, scrub
from coffer.connections import Connection
from coffer.errors import BadAnswer, EngineError, Refused, Unavailable

_SAID = 160  # characters of an endpoint's own words
_TOO_LONG = ("context_length", "context length", "context window", "too long", "too many tokens", "maximum context")
_PAYMENT, _TOO_LARGE, _TOO_MANY, _BROKEN = 402, 413, 429, 500


@dataclass(frozen=True)
class ToolCall:
    """A tool the model wants called; ``arguments`` is the text it wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """What a model answered; ``tokens_in`` and ``tokens_out`` are None where the endpoint did not count."""

    text: str
    calls: tuple[ToolCall, ...]
    answered_by: str
    tokens_in: int | None
    tokens_out: int | None
    json_mode: bool


@dataclass(frozen=True)
class Response:
    """What came over the wire; without a status ``why`` says what happened instead, or it is ``late``."""

    http_status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    why: str = ""
    late: bool = False
    waited: float = 0.0  # seconds, when it is late and somebody did not want to wait longer

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """The body as an object; one that was streamed without being asked for is put together."""
        text = self.body.decode("utf-8", "replace").lstrip("\ufeff \r\n")
        return _from_stream(text) if text.startswith(("data:", "event:", ":")) else _loads(text)

    @property
    def error(self) -> Any:
        return (self.json or {}).get("error")

    @property
    def status(self) -> int:
        """The HTTP status, or the one that stands in the body of a supposed success."""
        if self.http_status // 100 == 2 and self.error and "choices" not in (self.json or {}):
            code = self.error.get("code") if isinstance(self.error, dict) else None
            return code if isinstance(code, int) and 400 <= code < 600 else 502
        return self.http_status

    @property
    def ok(self) -> bool:
        return self.status // 100 == 2

    @property
    def passing(self) -> bool:
        """Whether the same request may well succeed in a moment."""
        lost = not self.status and not self.late
        return lost or self.status >= _BROKEN or (self.status == _TOO_MANY and not self.quota_spent)

    @property
    def quota_spent(self) -> bool:
        return self.status == _PAYMENT or (self.status == _TOO_MANY and "insufficient_quota" in self._codes)

    @property
    def too_long(self) -> bool:
        words = f"{self._codes} {self.words}".lower()
        return self.status == _TOO_LARGE or (self.status in (400, 422) and any(word in words for word in _TOO_LONG))

    @property
    def filtered(self) -> bool:
        return self.status == 400 and "content_filter" in self._codes

    @property
    def retry_after(self) -> float | None:
        """Seconds the endpoint asks for, given as a number or as a moment."""
        given = {name.lower(): value for name, value in self.headers.items()}.get("retry-after", "")
        try:
            return max(0.0, float(given))
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None

    @property
    def words(self) -> str:
        """The endpoint's own words about an error; they may hold anything."""
        error = self.error or self.json or {}
        return str((error.get("message") or error.get("detail") or "") if isinstance(error, dict) else error)

    @property
    def _codes(self) -> str:
        return f"{self.error.get('code')} {self.error.get('type')}" if isinstance(self.error, dict) else ""


def read(response: Response, *, json_mode: bool) -> Reply:
    """The answer in a successful response.

    Raises BadAnswer when there is none, or only a part of one; Unavailable when no such endpoint answered at all.
    """
    if response.json is None:
        raise Unavailable("The endpoint did not answer as chat completions do; look at its base_url.")
    choices = response.json.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise BadAnswer("the endpoint gave no choices")
    if choice.get("finish_reason") == "length":
        raise BadAnswer("it was cut off at a limit on its length")
    if choice.get("finish_reason") == "content_filter" or message.get("refusal"):
        raise BadAnswer("the model declined to answer")
    usage = response.json.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        _text(message.get("content")),
        tuple(_tool_calls(message.get("tool_calls"))),
        str(response.json.get("model") or "")[:200],
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        json_mode,
    )


def failure(connection: Connection, key: str, response: Response) -> EngineError:
    """The error for a response without an answer; ``said`` on it has the endpoint's own words, cut and scrubbed."""
    error = _failure(connection, key, response)
    error.said = _said(response.words, key)
    return error


def _failure(connection: Connection, key: str, response: Response) -> EngineError:
    host, status = connection.host, response.status
    if response.late:
        limit = (
            f"{response.waited:g} s" if response.waited else f"{env.text('COFFER_LLM_TIMEOUT')} s (COFFER_LLM_TIMEOUT)"
        )
        return Unavailable(f"{host} did not answer within {limit}.")
    if not status:
        return Unavailable(f"{host} cannot be reached ({response.why}); check that it runs, and its base_url.")
    if response.quota_spent:
        return Refused(f"{host} says that the account's quota is used up ({status}).")
    if response.passing:
        wait = response.retry_after
        asks = f", and asks to be left alone for {wait:.0f} s" if wait else ""
        return Unavailable(f"{host} is too busy or broken ({status}){asks}; try again later.")
    if response.too_long:
        return BadAnswer("the text is too long for the model")
    if response.filtered:
        return BadAnswer("the endpoint's content filter stopped it")
    return Refused(_refusal(connection, key, status))


def _refusal(connection: Connection, key: str, status: int) -> str:
    host = connection.host
    if status in (401, 403):
        what = f"the key from {connection.key}" if key else "a request without a key"
        return f"{host} does not accept {what} ({status}); check {connection.settled_by}."
    if status == 404:
        return f"{host} has no model {connection.model} at this address ({status}); check model and base_url."
    if 300 <= status < 400:
        return f"{host} redirects elsewhere ({status}), which is not followed; give the final base_url."
    return f"{host} does not take the request ({status}); `coffer engine test` shows what it says."


def _said(words: str, key: str) -> str:
    words = words[:20_000].replace(key, "[key]") if key else words[:20_000]
    line = next((line.strip() for line in scrub.redact(words).text.splitlines() if line.strip()), "")
    return line if len(line) <= _SAID else f"{line[: _SAID - 1]}…"


def _loads(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _from_stream(text: str) -> dict[str, Any]:
    """One completion from server-sent events; without their end it counts as cut off."""
    completion: dict[str, Any] = {}
    pieces, finish = [], None
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            finish = finish or "stop"
            break
        event = _loads(data) if line.startswith("data:") else None
        for name in ("model", "usage", "error"):
            if event and event.get(name):
                completion[name] = event[name]
        choices = event.get("choices") if event else None
        for choice in choices if isinstance(choices, list) else ():
            delta = choice.get("delta") if isinstance(choice, dict) else None
            pieces.append(_text(delta.get("content")) if isinstance(delta, dict) else "")
            finish = (choice.get("finish_reason") if isinstance(choice, dict) else None) or finish
    if "error" in completion and not any(pieces):
        return completion
    return {**completion, "choices": [{"message": {"content": "".join(pieces)}, "finish_reason": finish or "length"}]}


def _text(content: Any) -> str:
    """A message's content, which some endpoints give in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _tool_calls(given: Any) -> Iterator[ToolCall]:
    for number, one in enumerate(given if isinstance(given, list) else ()):
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict):
            continue
        arguments = function.get("arguments")
        yield ToolCall(
            str(one.get("id") or f"call_{number}"),
            str(function.get("name") or ""),
            arguments if isinstance(arguments, str) else json.dumps(arguments or {}),
        )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None
