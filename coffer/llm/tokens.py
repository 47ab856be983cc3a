"""How many tokens a text would cost, roughly and without the model's own tokenizer."""

import re

_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]+"
)
_ASCII_CHARS, _OTHER_CHARS, _WIDE_CHARS = 4.0, 2.0, 1.0  # characters a token covers
_MESSAGE = 4  # what wraps one text


def estimate(*texts: str) -> int:
    """Tokens of these texts together; on the high side for prose, and a token a character for Chinese and its like."""
    return sum(_one(text) for text in texts)


def _one(text: str) -> int:
    if text.isascii():
        return _MESSAGE + round(len(text) / _ASCII_CHARS)
    narrow = _WIDE.sub("", text)
    ascii_chars = len(narrow.encode("ascii", "ignore"))
    wide, other = len(text) - len(narrow), len(narrow) - ascii_chars
    return _MESSAGE + round(ascii_chars / _ASCII_CHARS + other / _OTHER_CHARS + wide / _WIDE_CHARS)
