"""Trying a connection out: one tiny call that says nothing about the person."""

import time
from dataclasses import dataclass

from coffer.connections import Connection
from coffer.errors import EngineError
from coffer.llm import answers, conversation
from coffer.llm.budget import OK, OUTCOMES

_SYSTEM = 'Answer with one JSON object and nothing else: {"ok": true}'
_USER = "Are you there?"


@dataclass(frozen=True)
class Trial:
    """What a connection answered: the model by its own account, whether JSON mode is offered, or why nothing came."""

    ok: bool
    outcome: str
    message: str
    model: str
    ms: int
    json_mode: bool | None
    said: str = ""


def test(connection: Connection) -> Trial:
    """Call the connection once, whatever it is allowed to serve; the call counts like any other."""
    started = time.monotonic()
    try:
        with conversation.begin("test", connection=connection) as talk:
            messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
            with talk.asking(messages, json_mode=True) as reply:
                answers.parse(reply.text, {"ok": bool})
    except EngineError as error:
        ms = _since(started)
        outcome = OUTCOMES.get(type(error), "no_model")
        return Trial(False, outcome, error.message, connection.model, ms, connection.json_mode, error.said)
    ms, answered = _since(started), reply.answered_by or connection.model
    offers = "offers JSON mode" if reply.json_mode else "has no JSON mode, which is fine"
    message = f"{connection.host} answered in {ms} ms as {answered}; it {offers}."
    return Trial(True, OK, message, answered, ms, reply.json_mode)


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
