"""Conversations under way, so that they can be ended from a signal handler or another thread.

Waiting happens on a SimpleQueue, the one lock of Python's that may be touched inside a signal handler.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from coffer.errors import Cancelled

T = TypeVar("T")
_running: set["Running"] = set()
_closed = False


@dataclass(frozen=True)
class _Raised:
    error: Exception


class Running:
    """One conversation; it ends when it is cancelled, whatever it waits for."""

    def __init__(self) -> None:
        self._news: queue.SimpleQueue[tuple[int, object]] = queue.SimpleQueue()
        self._number = 0
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._news.put((0, None))

    def check(self) -> None:
        if self._cancelled or _closed:
            raise Cancelled("Coffer is stopping; the call of the model was given up.")

    def wait_for(self, work: Callable[[], T], seconds: float) -> T:
        """What ``work`` returns or raises in a thread of its own. Raises TimeoutError, or Cancelled at once.

        The thread is left behind then; ``work`` must have a limit of its own.
        """
        self._number = number = self._number + 1

        def run() -> None:
            try:
                self._news.put((number, work()))
            except Exception as error:
                self._news.put((number, _Raised(error)))

        threading.Thread(target=run, name="coffer-model-call", daemon=True).start()
        found = self._next(number, seconds)
        if isinstance(found, _Raised):
            raise found.error
        return cast(T, found)

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises Cancelled at once."""
        try:
            self._next(-1, seconds)
        except TimeoutError:
            return

    def _next(self, wanted: int, seconds: float) -> object:
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            try:
                number, found = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if number == wanted:
                self.check()
                return found


@contextmanager
def registered() -> Iterator[Running]:
    """A conversation that ``cancel`` reaches. Raises Cancelled when this process is stopping."""
    one = Running()
    one.check()
    _running.add(one)
    try:
        yield one
    finally:
        _running.discard(one)


def cancel() -> None:
    """End every conversation under way; safe in a signal handler."""
    for one in list(_running):
        one.cancel()


def shut_down() -> None:
    """End every conversation, and let this process begin no other; safe in a signal handler."""
    global _closed
    _closed = True
    cancel()
