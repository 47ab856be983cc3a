"""Secrets out of a text and back into it; pure, and linear in time on any text.

``mask`` puts a numbered placeholder such as ``[secret-1:github-token]`` in place of each secret, the same one wherever
the same secret stands, and ``restore`` puts the secrets back: ``restore(mask(x)) == x`` for any text. What only looks
like a placeholder is masked like a secret, so that none can be mistaken for ours.

Patterns stay linear by rules: what may repeat without limit repeats possessively, never twice in a row over the same
characters, and begins where a token begins.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coffer.scrub import beside, commands, private_keys, tokens
from coffer.scrub.spans import Span, merged

# Also what a model makes of a placeholder by half remembering it; brackets inside would let one span another.
_PLACEHOLDER = re.compile(r"\[\s{0,3}secret[-_ ]\d[^\[\]\n]{0,60}\]", re.IGNORECASE)
_LITERAL = "text"  # the kind of what looks like a placeholder
_TOKEN = re.compile(r"[^\s\"'`<>(){}\[\],;=:&?#|\\]{8,}")
_POINTS = ".!?"
_DETECTORS = (*tokens.TABLE, *beside.TABLE, *commands.TABLE)
_HINTS = frozenset(hint for detector in _DETECTORS for hint in detector.hints)


@dataclass(frozen=True)
class Finding:
    """A secret by its kind and the line it begins on, from 1."""

    kind: str
    line: int


@dataclass(frozen=True)
class Mask:
    """Which placeholder stands for which secret; holds the secrets, so it is never shown."""

    originals: Mapping[str, str] = field(default_factory=dict, repr=False)
    placeholders: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Masked:
    """A text without secrets, the mask that restores it, and what was found."""

    text: str
    mask: Mask
    found: list[Finding]


@dataclass(frozen=True)
class Restored:
    """A text with its secrets, and the placeholders in it that the mask does not know."""

    text: str
    invented: list[str]


@dataclass(frozen=True)
class Redacted:
    """A text without secrets, for good, and what was found."""

    text: str
    found: list[Finding]


def mask(text: str, known: Mask | None = None) -> Masked:
    """The text with placeholders for its secrets; ``known`` from earlier texts of the conversation is carried on."""
    originals, placeholders = (dict(known.originals), dict(known.placeholders)) if known else ({}, {})
    alike = _alike(text)
    secrets = _apart(_secrets(text), alike)
    kinds = {original: placeholder.partition(":")[2][:-1] for original, placeholder in placeholders.items()}
    kinds = {text[span.start : span.end]: span.kind for span in secrets} | kinds
    spans = merged([*secrets, *alike, *_repeated(text, kinds)])
    for span in spans:
        original = text[span.start : span.end]
        if original not in placeholders:
            placeholder = f"[secret-{len(originals) + 1}:{span.kind}]"
            originals[placeholder], placeholders[original] = original, placeholder
    masked = _replaced(text, spans, lambda span: placeholders[text[span.start : span.end]])
    return Masked(masked, Mask(originals, placeholders), _findings(text, secrets))


def restore(text: str, mask: Mask) -> Restored:
    """The text with the secrets in place again; placeholders that nobody made stay, and are told."""
    invented: list[str] = []

    def original(match: re.Match[str]) -> str:
        if match[0] not in mask.originals:
            invented.append(match[0])
        return mask.originals.get(match[0], match[0])

    return Restored(_PLACEHOLDER.sub(original, text), invented)


def redact(text: str, *, keep: Sequence[str] = ()) -> Redacted:
    """The text with ``[github-token removed]`` and the like for its secrets.

    What stands in one of the texts ``keep`` is no news and stays, and so does what looks like a placeholder.
    """
    spans = [
        span
        for span in _apart(_secrets(text), _alike(text), touching=True)
        if not any(text[span.start : span.end] in kept for kept in keep)
    ]
    return Redacted(_replaced(text, spans, lambda span: f"[{span.kind} removed]"), _findings(text, spans))


def _secrets(text: str) -> list[Span]:
    folded = text.lower()
    hints = {hint for hint in _HINTS if hint in folded}  # most detectors share theirs, and most texts hold none
    fitting = [detector for detector in _DETECTORS if not hints.isdisjoint(detector.hints)]
    return merged([*private_keys.find(text), *(span for detector in fitting for span in detector.spans(text))])


def _alike(text: str) -> list[Span]:
    return [Span(match.start(), match.end(), _LITERAL) for match in _PLACEHOLDER.finditer(text)]


def _apart(spans: Iterable[Span], alike: Sequence[Span], *, touching: bool = False) -> list[Span]:
    """The spans that do not lie inside one that looks like a placeholder, or do not even overlap one."""
    starts, found = [one.start for one in alike], []
    for span in spans:
        at = bisect_right(starts, span.start) - 1
        inside = at >= 0 and span.end <= alike[at].end
        overlaps = (at >= 0 and span.start < alike[at].end) or (at + 1 < len(alike) and alike[at + 1].start < span.end)
        if not (overlaps if touching else inside):
            found.append(span)
    return found


def _repeated(text: str, kinds: Mapping[str, str]) -> Iterator[Span]:
    """Known secrets where they stand once more and nothing beside them tells; plain words are left alone."""
    for match in _TOKEN.finditer(text) if kinds else ():
        for token in (match[0], match[0].rstrip(_POINTS)):
            if token in kinds and not token.isalpha():
                yield Span(match.start(), match.start() + len(token), kinds[token])
                break


def _replaced(text: str, spans: Iterable[Span], by: Callable[[Span], str]) -> str:
    pieces, at = [], 0
    for span in spans:
        pieces += [text[at : span.start], by(span)]
        at = span.end
    return "".join([*pieces, text[at:]])


def _findings(text: str, spans: Iterable[Span]) -> list[Finding]:
    found, line, at = [], 1, 0
    for span in spans:
        line, at = line + text.count("\n", at, span.start), span.start
        found.append(Finding(span.kind, line))
    return found
