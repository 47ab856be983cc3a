"""Characters that a reader cannot see or that reorder a line, made visible: text from agents is not to be trusted.

Joiners and left-to-right marks stay: scripts need them, and where a name stands in a line it is isolated instead.
"""

import re

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
