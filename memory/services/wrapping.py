"""What memory says to an agent unasked stands in a fence, and nothing that was remembered can leave it.

Whoever can write a note can try to speak through it: with a tag that seems to end the fence or to begin a message of
the program, with a heading, a line of its own, or characters that nobody sees. Such signs are spelled out, so that a
reader still knows what was written; the words themselves stay.
"""

import re
import textwrap

from coffer.text import visible, visible_line
from memory.files.markdown import shorten

OPEN, CLOSE = "<coffer-memory>", "</coffer-memory>"
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # what some readers take for the end of a line
_HIDDEN = "[\\s\u200c-\u200f]*"
# Any closing tag, comment or instruction, and what opens like a part of a conversation; `Vec<u8>` and `<branch>` stay.
_TAG = re.compile(
    f"[<\uff1c\ufe64]({_HIDDEN}(?:[/\uff0f!?|]|(?:coffer|system|user|assistant|human|developer|tool|function|hook|context|"
    "additional|instruction|reminder|memory|session|command|local-command|important|antml)))",
    re.IGNORECASE,
)
_FENCE = re.compile("`{3,}|~{3,}")
_LEAD = re.compile(r"^(\s*(?:[-*+>]\s+)*)(#{1,6}(?=\s|$))")


def one_line(text: str, most: int) -> str:
    """The text in one line of at most ``most`` characters, cut between words."""
    return shorten(_harmless(visible_line(_BREAKS.sub(" ", text))), most)


def item(text: str) -> str:
    """A whole text as one item of a list; its further lines are indented below the first, blank ones left out."""
    first, _, rest = visible(_BREAKS.sub("\n", text).strip()).partition("\n")
    further = [line.rstrip() for line in textwrap.dedent(rest).split("\n") if line.strip()]
    return "\n".join([f"- {_harmless(first.strip())}", *(f"  {_harmless(line)}" for line in further)])


def cut(text: str, most: int) -> str:
    """The text in at most ``most`` UTF-8 bytes, cut between words where it has any, and then ending in …"""
    data = text.encode()
    if len(data) <= most:
        return text
    head = data[: max(most - len("…".encode()), 0)].decode(errors="ignore")
    words = head.rpartition(" ")[0]
    return (words if len(words) > len(head) // 2 else head).rstrip() + "…"


def _harmless(line: str) -> str:
    line = _LEAD.sub(r"\1\\\2", line)
    return _TAG.sub(r"&lt;\1", _FENCE.sub(lambda match: "'" * len(match[0]), line))
