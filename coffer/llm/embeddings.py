"""Texts to vectors, by an OpenAI-compatible endpoint or by the local model: one port for both.

Texts leave scrubbed, calls are counted, and only vectors that can be compared come back: of unit length, finite, none
of zeros.
"""

import base64
import binascii
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coffer import connections, scrub
from coffer.connections import Connection
from coffer.errors import BadAnswer, NoModel
from coffer.llm import budget, chat, clients, local, replies, running, tokens
from coffer.llm.chat import Message
from coffer.llm.replies import Response

Vector = bytes  # 32-bit floats of this machine's order, of unit length
PROVIDERS = ("endpoint", "local")
_NO_MODEL = (
    "No embedding model is there; set COFFER_EMBEDDING_BASE_URL and COFFER_EMBEDDING_MODEL, "
    "or install coffer[semantic]."
)
_MISSING = {
    "endpoint": "No embedding endpoint is set; COFFER_EMBEDDING_BASE_URL and COFFER_EMBEDDING_MODEL set it.",
    "local": "The local embedding model is not installed; install coffer[semantic].",
}
_BATCH = 64
_WHOLE = 8  # vectors are as long as a multiple of this, filled up with zeros: their signs are kept as bits, too
_TEXTS_AT_FAULT = (400, 413, 422)  # an endpoint that takes fewer texts, or shorter ones, says so with these
_takes_floats: dict[tuple[str, str], bool] = {}
_largest_batch: dict[tuple[str, str], int] = {}


@dataclass(frozen=True)
class Embedder:
    """Makes vectors; those of two embedders compare only when their ``model`` is the same."""

    model: str
    connection: Connection | None  # None for the local model

    @property
    def local(self) -> bool:
        return self.connection is None

    @property
    def at_hand(self) -> bool:
        """Whether it can answer a query without being loaded by a process that is about to end."""
        return self.connection is not None or local.at_hand()

    @property
    def ready(self) -> bool:
        """Whether what takes long but once is done: the first call has no time for it when somebody waits."""
        if self.connection is None:
            return local.loaded()
        return clients.prepared(self.connection, connections.key_of(self.connection))

    def prepare(self) -> None:
        """Do that. Raises NoModel, ImportError."""
        if self.connection is None:
            local.load()
        else:
            clients.prepare(self.connection, connections.key_of(self.connection))

    def embed(self, texts: Sequence[str], *, store: str = "", seconds: float | None = None) -> list[Vector | None]:
        """A vector for each text, None for one that gets no usable vector.

        With ``seconds`` somebody waits for it: one try, no longer than that. Raises NoModel, BudgetSpent, Refused,
        Unavailable, BadAnswer or Cancelled.
        """
        whole = list(map(_whole, texts))
        if self.connection is None:
            return [_unit(found) for found in local.vectors(whole)]
        return _asked(self.connection, [scrub.redact(text).text for text in whole], store, seconds)


def embedder(provider: str | None = None) -> Embedder:
    """The embedder of that name; of no name the endpoint that is set, else the local model.

    Raises NoModel that says what is missing, also for settings that are not valid.
    """
    connection = connections.embedding() if provider != "local" else None
    if connection is not None:
        connections.key_of(connection)
        return Embedder(f"{connection.base_url} {connection.model}", connection)
    name = local.name() if provider != "endpoint" else None
    if name is None:
        half_set = connections.embedding_half_set() if provider != "local" else None
        raise NoModel(half_set or _MISSING.get(provider or "", _NO_MODEL))
    return Embedder(name, None)


def _asked(connection: Connection, texts: Sequence[str], store: str, seconds: float | None) -> list[Vector | None]:
    """Batch by batch; a batch that is refused for its texts is halved until the texts at fault stand alone."""
    place = (connection.base_url, connection.model)
    found: list[Vector | None] = []
    while len(found) < len(texts):
        size = _largest_batch.get(place, _BATCH)
        batch = texts[len(found) : len(found) + size]
        answer = _batch(connection, batch, store, seconds, whole=len(batch) == len(texts))
        if answer is not None:
            found += answer
        elif len(batch) == 1:
            found.append(None)
        else:
            found += _halves(connection, batch, store, seconds)
            if found[-1] is not None and None not in found[-len(batch) :]:
                _largest_batch[place] = max(1, len(batch) // 2)  # it was the number of texts, not one of them
    return found


def _halves(connection: Connection, texts: Sequence[str], store: str, seconds: float | None) -> list[Vector | None]:
    found: list[Vector | None] = []
    middle = (len(texts) + 1) // 2
    for half in (texts[:middle], texts[middle:]):
        answer = _batch(connection, half, store, seconds)
        if answer is None:
            answer = [None] if len(half) == 1 else _halves(connection, half, store, seconds)
        found += answer
    return found


def _batch(
    connection: Connection, texts: Sequence[str], store: str, seconds: float | None, *, whole: bool = False
) -> list[Vector | None] | None:
    """The vectors of one request; None when the endpoint does not take these texts.

    ``whole`` says that these are all the texts there are: then not one usable vector is a failure of the endpoint.
    """
    estimate = tokens.estimate(*texts)
    clients.prepare(connection, connections.key_of(connection))  # what takes long but once is no time of the call
    key, purpose = connections.key_of(connection), "embed" if seconds is None else "embed query"
    with running.registered() as one, budget.call(connection, purpose, store, estimate) as call:
        response = _sent(connection, key, list(texts), call, one, seconds)
        if response.status in _TEXTS_AT_FAULT:
            call.used(0, 0)
            return None
        if not response.ok:
            raise replies.failure(connection, key, response)
        vectors = _read(response, len(texts))
        if whole and not any(vectors):
            raise BadAnswer("no usable vector: only zeros, or what is no number")
        call.used(_counted(response, estimate), 0)
        return vectors


def _sent(
    connection: Connection, key: str, texts: list[str], call: budget.Call, one: running.Running, seconds: float | None
) -> Response:
    """Asked for floats; an endpoint that knows only the other form is asked for that one, from then on."""
    place = (connection.base_url, connection.model)
    request: Message = {"model": connection.model, "input": texts}

    def ask(form: str) -> Response:
        return chat.send(connection, key, {**request, "encoding_format": form}, call=call, running=one, seconds=seconds)

    if _takes_floats.get(place, True):
        response = ask("float")
        if response.status not in _TEXTS_AT_FAULT or place in _takes_floats:
            if response.ok:
                _takes_floats[place] = True
            return response
        call.again()
    response = ask("base64")
    if response.ok:
        _takes_floats[place] = False
    return response


def _read(response: Response, count: int) -> list[Vector | None]:
    """The vectors in the order of the texts. Raises BadAnswer when they are not as many, or not all of one length."""
    data = (response.json or {}).get("data")
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise BadAnswer("the endpoint did not answer as embeddings do; look at its base_url")
    by_index = {one.get("index", place): one.get("embedding") for place, one in enumerate(data)}
    if len(data) != count or set(by_index) != set(range(count)):
        raise BadAnswer(f"it holds {len(data)} vectors for {count} texts")
    found = [_numbers(by_index[place]) for place in range(count)]
    if len({len(numbers) for numbers in found if numbers is not None}) > 1:
        raise BadAnswer("its vectors differ in length")
    return [_unit(numbers) for numbers in found]


def _numbers(given: Any) -> list[float] | None:
    """The numbers of a vector; None for what is none."""
    if isinstance(given, str):
        try:
            given = array("f", base64.b64decode(given, validate=True)).tolist()
        except (binascii.Error, ValueError):
            return None
    if not isinstance(given, list) or not given or not all(type(one) in (int, float) for one in given):
        return None
    return given


def _unit(given: list[float] | None) -> Vector | None:
    """A vector of unit length; None for what holds no number, or points nowhere."""
    if given is None:
        return None
    length = math.hypot(*given) if all(abs(one) < 1e30 for one in given) else math.nan
    if not math.isfinite(length) or length < 1e-9:
        return None
    missing = -len(given) % _WHOLE
    return array("f", [*(one / length for one in given), *[0.0] * missing]).tobytes()


def _counted(response: Response, estimate: int) -> int:
    usage = (response.json or {}).get("usage")
    told = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return told if type(told) is int and 0 <= told < 2**31 else estimate


def _whole(text: str) -> str:
    """Without halves of surrogate pairs, and never empty: endpoints refuse both."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip() or "."
