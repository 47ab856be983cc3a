"""A journal day as text: an H1 with the day, then entries, each led by its comment line. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from memory.files import markdown, marks

_MARK = re.compile(r"^(?=<!-- \d{4}-\d\d-\d\dT[^\n]*-->[ \t]*$)", re.MULTILINE)
_LEAD = re.compile(r"<!-- (\S+)(?:[ \t]+([^\s:]*)(?::(\S*))?)?[^\n]*-->[ \t]*(?:\n|\Z)")
_FIRST_HEADING = re.compile(r"\s*# [^\n]*\n?")


@dataclass(frozen=True)
class Said:
    """One entry: when, by which agent in which session, and its text; without a mark only the text is known."""

    stamp: datetime | None
    agent: str
    session: str
    text: str


def entries(body: str) -> tuple[str, list[str]]:
    """What stands before the first entry, and the entries with their marks."""
    head, *rest = _MARK.split(body)
    return head, rest


def read(body: str) -> list[Said]:
    """The entries of a day in the order of the file; what a person wrote above them counts as one without a mark."""
    head, marked = entries(body)
    own = _FIRST_HEADING.sub("", head, count=1).strip()
    return [*([Said(None, "", "", own)] if own else []), *(_said(entry) for entry in marked)]


def added(body: str, period: str, said: Said) -> str:
    """The day with one more entry, in the order of the stamps."""
    head, marked = entries(body)
    head = head.strip("\n").rstrip() or ("" if marked else f"# {period}")
    at = len(marked)
    while said.stamp is not None and at > 0 and (_said(marked[at - 1]).stamp or said.stamp) > said.stamp:
        at -= 1
    texts = [entry.strip("\n").rstrip() for entry in marked]
    return "\n\n".join([part for part in (head, *texts[:at], _entry(said), *texts[at:]) if part])


def join(first: bytes, second: bytes) -> bytes:
    """Both versions of one day: every entry once, in the order of their stamps (FR-057)."""
    head, ours = entries(markdown.decode(first)[0])
    other_head, theirs = entries(markdown.decode(second)[0])
    known = {_said(entry) for entry in ours}
    joined = [*ours, *(entry for entry in theirs if _said(entry) not in known)]
    lines = [line for line in other_head.strip().splitlines() if line not in head.splitlines()]
    if len(joined) == len(ours) and not lines:
        return first
    joined.sort(key=_moment)  # stable: entries of one moment keep their order
    parts = [head.strip(), *lines, *(entry.strip() for entry in joined)]
    return ("\n\n".join(part for part in parts if part) + "\n").encode()


def part(joined: bytes, second: bytes, first: bytes) -> bytes:
    """The day without what ``join`` took from ``second`` into ``first``; what came later, or was changed, stays."""
    head, found = entries(markdown.decode(joined)[0])
    own_head, own = entries(markdown.decode(first)[0])
    other_head, theirs = entries(markdown.decode(second)[0])
    brought = {_said(entry) for entry in theirs} - {_said(entry) for entry in own}
    left = [entry for entry in found if _said(entry) not in brought]
    new_lines = set(other_head.strip().splitlines()) - set(own_head.splitlines())
    lines = [line for line in head.strip().splitlines() if line not in new_lines]
    if {_said(entry) for entry in left} == {_said(entry) for entry in own} and _words(lines) == _words([own_head]):
        return first
    if left and not lines:
        lines = head.strip().splitlines()[:1]  # the day's own heading serves what was written since
    parts = ["\n".join(lines).strip(), *(entry.strip() for entry in left)]
    return ("\n\n".join(part for part in parts if part) + "\n").encode()


def _entry(said: Said) -> str:
    """The text behind its mark; a line of it that looks like a mark is moved by a space, so that it leads nothing."""
    assert said.stamp is not None  # noqa: S101 - who writes an entry knows when
    source = marks.quoted(said.agent, also=":") + (f":{marks.quoted(said.session)}" if said.session else "")
    return f"<!-- {markdown.stamp(said.stamp)} {source} -->\n{_MARK.sub(' ', said.text)}"


def _said(entry: str) -> Said:
    lead = _LEAD.match(entry)
    if lead is None:
        return Said(None, "", "", entry.strip("\n").rstrip())
    agent, session = marks.unquoted(lead[2] or ""), marks.unquoted(lead[3] or "")
    return Said(markdown.timestamp(lead[1]), agent, session, entry[lead.end() :].strip("\n").rstrip())


def _moment(entry: str) -> datetime:
    """When an entry was made, whatever zone its stamp is written in; one that no clock shows stands last."""
    return _said(entry).stamp or datetime.max.replace(tzinfo=UTC)


def _words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()
