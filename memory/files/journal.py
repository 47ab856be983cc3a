"""A journal day as text: an H1 with the day, then entries, each led by its comment line. Pure."""

import re

from memory.files import markdown

_MARK = re.compile(r"^(?=<!-- \d{4}-\d\d-\d\dT[^\n]*-->[ \t]*$)", re.MULTILINE)


def entries(body: str) -> tuple[str, list[str]]:
    """What stands before the first entry, and the entries with their marks."""
    head, *rest = _MARK.split(body)
    return head, rest


def join(first: bytes, second: bytes) -> bytes:
    """Both versions of one day: every entry once, in the order of their stamps."""
    head, ours = entries(markdown.decode(first)[0])
    other_head, theirs = entries(markdown.decode(second)[0])
    known = {entry.strip() for entry in ours}
    joined = [entry.strip() for entry in ours] + [entry.strip() for entry in theirs if entry.strip() not in known]
    joined.sort(key=_stamp)  # stable: entries of one moment keep their order
    lines = [line for line in other_head.strip().splitlines() if line not in head.splitlines()]
    parts = [head.strip(), *lines, *joined]
    return ("\n\n".join(part for part in parts if part) + "\n").encode()


def _stamp(entry: str) -> str:
    return entry[5:].split(" ", 1)[0]
