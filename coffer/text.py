"""Text for readers: a span of time in words, and characters made visible that nobody sees or that reorder a line.

Text from agents is not to be trusted. Joiners and left-to-right marks stay: scripts need them, and where a name stands
in a line it is isolated instead.
"""

import re
from datetime import timedelta

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The text with ``[U+202E]`` in place of such a character; line ends and tabs stay."""
    return _UNSEEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def visible_line(text: str) -> str:
    """The same in one line."""
    if text.isprintable():
        return " ".join(text.split())
    return visible(re.sub(r"[ \t\r\n]+", " ", text))


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends as sentences do already."""
    return text if text.endswith((".", "!", "?", "…", "。", "！", "？")) else f"{text}."


def span(age: timedelta) -> str:
    """``3 hours``: the largest unit that fits; less than a minute, and what is not over yet, is said to be that."""
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return "less than a minute"
