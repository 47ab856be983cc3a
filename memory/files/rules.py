"""A rules file as text: one markdown bullet per rule, some with a mark that tells where it came from. Pure."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from memory.files import marks

_BULLET = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}([-*])(?:[ \t]*\1){2,}[ \t]*")  # a line across the page
_MARK = re.compile(r"<!--[ \t]*(?:from[ \t]+([^\s;>]+))?[ \t]*;?[ \t]*(new)?[ \t]*-->")
_COMMENT_SIGNS = re.compile(r"<!--|-->|--!>")


@dataclass(frozen=True)
class Bullet:
    """One rule: the lines ``start`` to ``stop`` of its file, its text without the mark, and what the mark says."""

    id: str
    text: str
    origin: str
    new: bool
    start: int
    stop: int


def bullets(relative: str, body: str) -> list[Bullet]:
    """The rules of a file in order; nested bullets belong to theirs, and the same rule twice gets two ids."""
    lines = body.split("\n")
    found: list[Bullet] = []
    seen: dict[str, int] = {}
    for start, stop in _extents(lines):
        text, origin, new = _read("\n".join(lines[start:stop]))
        key = normalised(text)
        seen[key] = seen.get(key, 0) + 1
        found.append(Bullet(_identity(relative, key, seen[key]), text, origin, new, start, stop))
    return found


def line(text: str, origin: str, new: bool) -> str:
    """A new bullet; the text is one line and can hold no comment of its own."""
    parts = [f"from {marks.quoted(origin)}"] if origin else []
    parts += ["new"] if new else []
    return f"- {text} <!-- {'; '.join(parts)} -->" if parts else f"- {text}"


def one_line(text: str) -> str:
    """What will stand behind the bullet: no list mark, no line end, no comment sign."""
    words = " ".join(_COMMENT_SIGNS.sub(" ", text).split())
    while match := _BULLET.match(words):
        words = words[match.end() :]
    return "" if words in ("-", "*", "+") else words


def added(body: str, new_line: str) -> str:
    """The body with one more bullet at its end; a blank line between it and a paragraph."""
    lines = body.rstrip().split("\n") if body.strip() else []
    apart = bool(lines) and not _ends_in_bullet(body)
    return "\n".join([*lines, *([""] if apart else []), new_line])


def join(body: str, more: str, known: set[str]) -> str:
    """The body with what ``more`` has beyond it: rules that equal none of ``known``, and the lines around them."""
    new = beyond(body, more, known)
    if not new:
        return body
    gap = "\n" if _BULLET.match(new) and _ends_in_bullet(body) else "\n\n"
    return f"{body.rstrip()}{gap}{new}" if body.strip() else new


def beyond(body: str, more: str, known: set[str]) -> str:
    """The part of ``more`` that ``body`` lacks."""
    lines = more.split("\n")
    here = {line.strip() for line in body.split("\n")}
    kept: list[str] = []
    at = 0
    for start, stop in [*_extents(lines), (len(lines), len(lines))]:
        kept += [line for line in lines[at:start] if not line.strip() or line.strip() not in here]
        at = stop
        if normalised(_read("\n".join(lines[start:stop]))[0]) not in known:
            kept += lines[start:stop]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def part(joined: str, second: str, first: str) -> str:
    """The body without what ``join`` took from ``second`` into ``first``; what came later, or was changed, stays."""
    known = {normalised(bullet.text) for bullet in bullets("", first)}
    gone = {normalised(bullet.text) for bullet in bullets("", second)} - known
    lines = joined.split("\n")
    said = {line.strip() for line in second.split("\n")} - {line.strip() for line in first.split("\n")}
    kept: list[str] = []
    at = 0
    for start, stop in [*_extents(lines), (len(lines), len(lines))]:
        kept += [line for line in lines[at:start] if line.strip() not in said]
        at = stop
        if normalised(_read("\n".join(lines[start:stop]))[0]) not in gone:
            kept += lines[start:stop]
    left = "\n".join(kept)
    return first if left.split() == first.split() else left.strip("\n")


def without(body: str, bullet: Bullet) -> str:
    lines = body.split("\n")
    return "\n".join([*lines[: bullet.start], *lines[bullet.stop :]])


def kept(body: str, bullet: Bullet) -> str:
    """The body with the bullet's mark saying no longer that it is new."""
    lines = body.split("\n")
    block = "\n".join(lines[bullet.start : bullet.stop])
    mark = f" <!-- from {marks.quoted(bullet.origin)} -->" if bullet.origin else ""
    lines[bullet.start : bullet.stop] = [_split(block)[0] + mark]
    return "\n".join(lines)


def normalised(text: str) -> str:
    """What two spellings of one rule have in common: white space, list marks and case do not count."""
    words = " ".join(_BULLET.sub("", unicodedata.normalize("NFC", text)).split())
    return words.casefold()


def without_mark(text: str) -> str:
    return _split(text)[0]


def _extents(lines: list[str]) -> Iterator[tuple[int, int]]:
    """From where to where each bullet reaches; what stands in a fence of its own is none."""
    at = 0
    while at < len(lines):
        if (after := _fence_end(lines, at)) is not None:
            at = after
        elif _BULLET.match(lines[at]) and not _RULE.fullmatch(lines[at]):
            stop = _stop(lines, at)
            yield at, stop
            at = stop
        else:
            at += 1


def _stop(lines: list[str], start: int) -> int:
    """Behind the last line of the bullet: indented lines, and those that run on without a blank one."""
    stop = at = start + 1
    while at < len(lines):
        text = lines[at]
        if not text.strip():
            at += 1
            continue
        indented = text.startswith(("  ", "\t"))
        runs_on = at == stop and not (_BULLET.match(text) or _HEADING.match(text) or _FENCE.match(text))
        if not (indented or runs_on):
            break
        at += 1
        stop = at
    return stop


def _ends_in_bullet(body: str) -> bool:
    lines = body.rstrip().split("\n")
    return any(stop == len(lines) for _, stop in _extents(lines))


def _fence_end(lines: list[str], at: int) -> int | None:
    """Behind the fence that opens here; None when none does, or it is never closed."""
    match = _FENCE.match(lines[at])
    if match is None:
        return None
    closing = re.compile(rf" {{0,3}}{re.escape(match[1][0])}{{{len(match[1])},}}[ \t]*$")
    return next((end + 1 for end in range(at + 1, len(lines)) if closing.match(lines[end])), None)


def _read(block: str) -> tuple[str, str, bool]:
    text, mark = _split(block)
    text = _BULLET.sub("", text, count=1).strip()
    origin = marks.unquoted(mark[1] or "") if mark else ""
    return text, origin, bool(mark and mark[2])


def _split(block: str) -> tuple[str, re.Match[str] | None]:
    """The words of a bullet, and its mark when it ends in one."""
    block = block.rstrip()
    mark = _MARK.fullmatch(block, block.rfind("<!--")) if block.endswith("-->") and "<!--" in block else None
    return (block[: mark.start()].rstrip() if mark else block), mark


def _identity(relative: str, key: str, occurrence: int) -> str:
    said = f"{relative}\n{key}" if occurrence == 1 else f"{relative}\n{key}\n{occurrence}"
    return sha256(said.encode("utf-8", "replace")).hexdigest()[:10]
