"""One question to an OpenAI-compatible endpoint: what is sent, time limits, retries, JSON mode.

The client is the openai package's, but what leaves is ours to decide: no header that it did not need, no redirect
followed, no proxy asked for an address on this machine, no value taken from OPENAI_* variables.
"""

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coffer import connections, env, later
from coffer.connections import Connection
from coffer.llm import clients, replies
from coffer.llm.budget import Call
from coffer.llm.replies import Reply, Response
from coffer.llm.running import Running

Message = dict[str, Any]
_CONNECT_SECONDS = 10.0
_LONGEST_PAUSE = 30.0  # a longer Retry-After is for the next pass to wait
_FIRST_PAUSE, _PAUSE_FACTOR = 0.5, 4.0
_LARGEST = 8 * 1024 * 1024  # of an answer's body
_NOT_OFFERED = (400, 415, 422, 501)  # what endpoints answer to a response_format they do not know


def ask(
    connection: Connection,
    key: str,
    messages: Sequence[Message],
    *,
    call: Call,
    running: Running,
    json_mode: bool = False,
    tools: Sequence[Mapping[str, Any]] = (),
) -> Reply:
    """Send one conversation and read the answer. Raises BadAnswer, Refused, Unavailable, BudgetSpent or Cancelled."""
    request: dict[str, Any] = {"model": connection.model, "messages": list(messages)}
    if tools:
        request["tools"] = list(tools)
    if json_mode:
        request["response_format"] = {"type": "json_object"}
    response = send(connection, key, request, call=call, running=running)
    if json_mode and response.status in _NOT_OFFERED and not response.too_long:
        del request["response_format"]
        call.again()
        response = send(connection, key, request, call=call, running=running)
    if not response.ok:
        raise replies.failure(connection, key, response)
    offered = "response_format" in request
    if json_mode and connection.json_mode is not offered:
        later.write(lambda: connections.remember_json_mode(connection, offered))
    return replies.read(response, json_mode=offered)


def send(
    connection: Connection,
    key: str,
    request: Mapping[str, Any],
    *,
    call: Call,
    running: Running,
    seconds: float | None = None,
) -> Response:
    """One request with its retries, to chat completions, or to embeddings when it has an ``input``.

    With ``seconds`` somebody waits: one try, no longer than that.
    """
    limit = seconds or float(env.number("COFFER_LLM_TIMEOUT", least=1, most=3600))
    retries, pause = 0 if seconds else env.number("COFFER_LLM_RETRIES", most=10), _FIRST_PAUSE
    while True:
        try:
            response = running.wait_for(lambda: _send(connection, key, request, limit), limit)
        except TimeoutError:
            response = Response(late=True)
        if response.late and seconds:
            return replace(response, waited=seconds)
        wait = response.retry_after
        if not response.passing or not retries or (wait or 0.0) > _LONGEST_PAUSE:
            return response
        running.pause(pause if wait is None else wait)
        call.again()
        retries, pause = retries - 1, pause * _PAUSE_FACTOR


def _send(connection: Connection, key: str, request: Mapping[str, Any], limit: float) -> Response:
    """One request, in a thread of its own."""
    import httpx2  # noqa: PLC0415 - comes with openai
    import openai  # noqa: PLC0415 - half a second that only a call of a model should pay

    deadline = time.monotonic() + limit
    try:
        with (
            clients.of(connection, key, keep="input" in request) as client,
            (client.embeddings if "input" in request else client.chat.completions).with_streaming_response.create(
                **request, timeout=httpx2.Timeout(limit, connect=min(limit, _CONNECT_SECONDS))
            ) as answer,
        ):
            return Response(answer.status_code, answer.headers, _read(answer.iter_bytes(), deadline))
    except openai.APIStatusError as error:
        return Response(error.status_code, error.response.headers, error.response.content[:_LARGEST])
    except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
        connecting = isinstance(error.__cause__, httpx2.ConnectTimeout)
        return Response(why=f"no connection within {_CONNECT_SECONDS:.0f} s") if connecting else Response(late=True)
    except (openai.OpenAIError, httpx2.HTTPError, OSError) as error:
        return Response(why=_why(error))


def _read(chunks: Iterator[bytes], deadline: float) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > _LARGEST:
            return b""  # no model writes that much; read as an answer without JSON
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)


def _why(error: BaseException) -> str:
    """The reason of a lost connection in the system's words, which hold no content."""
    kind, cause = type(error).__name__, error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        kind, cause = type(cause).__name__, cause.__cause__ or cause.__context__
    return kind
