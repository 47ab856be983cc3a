"""The shim's side of the pipes to its client: whole lines in, whole lines out, and out of here when nobody reads.

Standard library only, as the shim itself.
"""

import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress

_writing = threading.Lock()


def lines() -> Iterator[bytes]:
    """Whole lines of stdin, of any length, until it closes."""
    rest = bytearray()
    while chunk := _read():
        rest += chunk
        if b"\n" in chunk:
            *whole, rest = rest.split(b"\n")
            yield from (bytes(line) for line in whole if line.strip())
    if rest.strip():
        yield bytes(rest)


def write_line(line: bytes) -> None:
    """Write one line as a whole, whichever thread it comes from; the process ends when nobody reads it."""
    left = memoryview(line + b"\n")
    with _writing:
        while left:
            try:
                left = left[os.write(1, left) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError:
                os._exit(0)  # nobody reads us any more


def leave_if_nobody_reads() -> None:
    """End the process when the other end of stdout is closed."""
    watch = select.poll()
    watch.register(1, 0)
    if watch.poll(0):
        os._exit(0)


def _read() -> bytes:
    """What stdin has next; meanwhile stdout is watched, since some clients close only that."""
    watch = select.poll()
    watch.register(0, select.POLLIN)
    watch.register(1, 0)
    while 0 not in dict(watch.poll()):
        leave_if_nobody_reads()
    with suppress(OSError):
        return os.read(0, 1 << 18)
    return b""
