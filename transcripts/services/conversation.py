"""What of a conversation goes to a model: what was said, without secrets and without what Coffer itself told the agent.

It is cut into windows of about one size, so that the end of a long session counts as much as its start.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from coffer import llm, scrub
from transcripts.readers import Turn
from transcripts.readers.values import without_spans
from transcripts.services import ledger
from transcripts.services.ledger import Progress

WINDOW_TOKENS = 6_000
_HEAD, _TAIL = 4_000, 2_000  # characters that are sent of a turn that is longer: most of it was pasted
_OWN, _OPENING = "coffer-memory", "Remembered notes from Coffer"  # the fence around what agents are told, and its start
_SPEAKERS = {"user": "User", "assistant": "Agent"}
_ALIKE = "text"  # the kind of what only looks like a placeholder


@dataclass(frozen=True)
class Heard:
    """One turn that is still to be distilled, and how far the session is done with it."""

    turn: Turn
    progress: Progress


@dataclass(frozen=True)
class Window:
    """A piece of the conversation as a model is shown it, and how far the session is done when it is."""

    text: str
    tokens: int
    turns: tuple[Turn, ...]
    at: datetime | None  # of its last turn, where the agent records times
    progress: Progress
    masked: Counter[str] = field(default_factory=Counter)  # secrets that were taken out, by kind
    cut: int = 0  # turns of which only beginning and end are there


class Secrets:
    """The secrets of one conversation: once told, they are known wherever they stand again."""

    def __init__(self) -> None:
        self._mask = scrub.Mask()

    def learn(self, text: str) -> None:
        """Take the secrets of a text into account."""
        self._mask = scrub.mask(text, self._mask).mask

    def without(self, text: str) -> tuple[str, Counter[str]]:
        """The text with ``[password removed]`` and the like for good, and how many of each kind."""
        masked = scrub.mask(text, self._mask)
        removed: Counter[str] = Counter()
        words = {}
        for placeholder, original in masked.mask.originals.items():
            kind = placeholder.partition(":")[2][:-1]
            if kind == _ALIKE:
                words[placeholder] = original
            elif count := masked.text.count(placeholder):
                words[placeholder] = f"[{kind} removed]"
                removed[kind] += count
        return scrub.restore(masked.text, scrub.Mask(words)).text, removed


def unheard(turns: Callable[[], Iterable[Turn]], done: Progress | None, secrets: Secrets) -> Generator[Heard]:
    """The turns that are not done yet; the secrets of the others are learnt on the way.

    ``turns`` begins the conversation anew, which happens when it is not the one that is done so far: it was taken back,
    or compacted. What a fork or a resumed copy repeats at its start is done when it was distilled anywhere.
    """
    heard = _numbered(turns())
    if done is not None and done.cursor and not _passed(heard, done, secrets):
        heard = _numbered(turns())
    opening = True
    for one in heard:
        opening = opening and (_before(one.turn, done) or ledger.seen(one.turn))
        if opening:
            secrets.learn(one.turn.text)
        else:
            yield one


def windows(heard: Sequence[Heard], secrets: Secrets) -> list[Window]:
    """The turns in windows of about equal size, in order; none when nothing was said."""
    texts = [_said(one.turn.text) for one in heard]
    secrets.learn("\n\n".join(texts))
    pieces = [_piece(one, text, secrets) for one, text in zip(heard, texts, strict=True)]
    total = sum(piece.tokens for piece in pieces)
    share = total / max(1, -(-total // WINDOW_TOKENS))
    found: list[list[Window]] = []
    room = 0.0
    for piece in pieces:
        if not found or room < piece.tokens / 2:
            found.append([])
            room += share
        found[-1].append(piece)
        room -= piece.tokens
    return [_joined(taken) for taken in found]


def tokens(turn: Turn) -> int:
    """About how much of a window a turn takes."""
    return llm.estimate(_cut(_said(turn.text)))


def _numbered(turns: Iterable[Turn]) -> Iterator[Heard]:
    progress = Progress()
    for turn in turns:
        chained = hashlib.blake2b(f"{progress.digest}{turn.digest}".encode(), digest_size=16).hexdigest()
        progress = Progress(progress.cursor + 1, chained)
        yield Heard(turn, progress)


def _passed(heard: Iterator[Heard], done: Progress, secrets: Secrets) -> bool:
    """Pass over the turns that are done; False when the conversation is another one by now."""
    for one in heard:
        secrets.learn(one.turn.text)
        if one.progress.cursor == done.cursor:
            return one.progress.digest == done.digest
    return False


def _before(turn: Turn, done: Progress | None) -> bool:
    """Whether a turn is older than the last entry of a session of which nothing else is known."""
    if done is None or done.through is None:
        return False
    return turn.at is None or turn.at.astimezone(UTC).replace(microsecond=0) <= done.through


def _said(text: str) -> str:
    """What was said without what memory had told the agent, also where that is cut off."""
    text = without_spans(text, (_OWN,))
    before, fence, told = text.partition(f"<{_OWN}>")
    return (before if fence and told.lstrip().startswith(_OPENING) else text).strip()


def _piece(heard: Heard, text: str, secrets: Secrets) -> Window:
    """One turn as a window of its own."""
    text, removed = secrets.without(text)
    shown = _cut(text)
    line = f"{_SPEAKERS[heard.turn.role]}: {shown}" if shown else ""
    cost, cut = llm.estimate(line) if line else 0, int(len(shown) < len(text))
    return Window(line, cost, (heard.turn,), heard.turn.at, heard.progress, removed, cut)


def _cut(text: str) -> str:
    if len(text) <= _HEAD + _TAIL:
        return text
    left_out = len(text) - _HEAD - _TAIL
    return f"{text[:_HEAD]}\n[… {left_out} characters left out …]\n{text[-_TAIL:]}"


def _joined(pieces: Sequence[Window]) -> Window:
    times = [piece.at for piece in pieces if piece.at is not None]
    return Window(
        "\n\n".join(piece.text for piece in pieces if piece.text),
        sum(piece.tokens for piece in pieces),
        tuple(turn for piece in pieces for turn in piece.turns),
        max(times, default=None),
        pieces[-1].progress,
        sum((piece.masked for piece in pieces), Counter()),
        sum(piece.cut for piece in pieces),
    )
