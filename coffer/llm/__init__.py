"""The only door to a model.

Nothing passes it unscrubbed, uncounted or without permission, and nothing that comes back is more than data: a JSON
object, or calls of plain functions that the caller chose. The libraries behind it load with the first call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coffer import connections
from coffer.errors import (
    BadAnswer,
    BudgetSpent,
    Cancelled,
    ConfigInvalid,
    EngineError,
    NoModel,
    Refused,
    Unavailable,
)
from coffer.llm import answers, conversation
from coffer.llm.budget import Remaining, remaining
from coffer.llm.budget import page as calls
from coffer.llm.embeddings import PROVIDERS, Embedder, Vector, embedder
from coffer.llm.health import health
from coffer.llm.local import keep as keep_local_model
from coffer.llm.loop import LoopReport, Tool, run_tools
from coffer.llm.running import cancel, shut_down
from coffer.llm.tokens import estimate
from coffer.llm.trial import Trial, test

__all__ = [
    "PROVIDERS",
    "Answer",
    "BadAnswer",
    "BudgetSpent",
    "Cancelled",
    "Embedder",
    "EngineError",
    "LoopReport",
    "NoModel",
    "Refused",
    "Remaining",
    "Tool",
    "Trial",
    "Unavailable",
    "Vector",
    "calls",
    "cancel",
    "complete_json",
    "embedder",
    "estimate",
    "health",
    "keep_local_model",
    "model",
    "remaining",
    "run_tools",
    "shut_down",
    "test",
]

_FORM = "Answer with one JSON object and nothing else, with the keys {}."  # JSON mode wants to see the word


@dataclass(frozen=True)
class Answer:
    """A JSON object with the secrets of the question in place again, the model, and what it cost in tokens."""

    data: dict[str, Any]
    model: str
    tokens_in: int
    tokens_out: int


def model(purpose: str = "organize") -> str | None:
    """The model that would answer now for this purpose; None when none may, or its key is missing."""
    try:
        found = connections.choose(purpose)
        connections.key_of(found)
    except (NoModel, ConfigInvalid):
        return None
    return found.model


def complete_json(purpose: str, *, system: str, user: str, required: Mapping[str, type], store: str = "") -> Answer:
    """Ask for one JSON object that has the required keys, each with a value of its type.

    ``system`` is the program's own text, the same each time. ``purpose`` is a word such as organize, reorg, merge or
    distill: what begins with distill needs the permission to distill, all else that to organize. Raises NoModel,
    BudgetSpent, Refused (stop the pass), Unavailable (try later), BadAnswer (skip the item) or Cancelled (Coffer is
    stopping).
    """
    with conversation.begin(purpose, store=store) as talk:
        (theirs,) = talk.out(user)
        ours = talk.own(f"{system}\n\n{_FORM.format(', '.join(required))}")
        messages = [{"role": "system", "content": ours}, {"role": "user", "content": theirs}]
        with talk.asking(messages, json_mode=talk.connection.json_mode is not False) as reply:
            data = talk.back(answers.parse(reply.text, required))
        return Answer(data, talk.connection.model, reply.tokens_in or 0, reply.tokens_out or 0)
