"""A bar for long work, on a terminal only: how far it is, and the item at hand."""

import shutil
from typing import TextIO

from coffer.text import visible_line

_WIDTH = 20
_ERASE = "\r\x1b[2K"


class Bar:
    """Called with what is done, what there is in all, and the title at hand; the same number ends it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, done: int, total: int, title: str) -> None:
        if not self._stream.isatty():
            return
        filled = _WIDTH * done // max(total, 1)
        head = f"[{'#' * filled}{'-' * (_WIDTH - filled)}] {done}/{total}"
        room = shutil.get_terminal_size().columns - len(head) - 2
        self._stream.write(f"{_ERASE}{head} {visible_line(title)[: max(room, 0)]}" if done < total else _ERASE)
        self._stream.flush()
