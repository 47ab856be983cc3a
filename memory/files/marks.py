"""What a comment mark in a lane file may carry: foreign words, quoted so that they can neither end nor forge it."""

import re
from urllib.parse import unquote

_UNSAFE = re.compile(r"[\s%;<>\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def quoted(text: str, also: str = "") -> str:
    """The text without a character that means something in a mark; ``unquoted`` gives it back."""
    return "".join(_escape(char) if _UNSAFE.match(char) or char in also else char for char in text)


def unquoted(text: str) -> str:
    return unquote(text)


def _escape(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
