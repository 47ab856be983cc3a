"""26-character Crockford identifiers: time-ordered for facts, derived from the identity key for projects."""

import hashlib
import os
import re
import time

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26

_WELL_FORMED = re.compile(rf"[0-7][{ALPHABET}]{{25}}")


def new(now_ms: int | None = None) -> str:
    """A fresh id: 48 bits of Unix milliseconds, then 80 random bits, so that ids sort by the time they were made."""
    stamp = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return encode(stamp.to_bytes(6, "big") + os.urandom(10))


def project_id(key: str) -> str:
    """The portable id of a project: the first 16 bytes of sha256(key) (FR-004a)."""
    # A path may hold bytes that are no UTF-8; they arrive as surrogate escapes and are hashed as those bytes.
    return encode(hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()[:16])


def encode(raw: bytes) -> str:
    """16 bytes as 26 Crockford characters, most significant first (the first one never exceeds 7)."""
    if len(raw) != 16:
        raise ValueError("a ULID has 16 bytes")
    number = int.from_bytes(raw, "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def is_ulid(text: str) -> bool:
    """Whether the text is an id in the form that we write (upper case, no look-alike letters)."""
    return _WELL_FORMED.fullmatch(text) is not None
