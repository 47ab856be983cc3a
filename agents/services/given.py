"""Which facts a session was given beside its prompts, so that none is given twice.

Kept in memory, for the sessions last heard of: after a restart of the daemon a fact may come once more.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable

Document = tuple[str, str]  # store and id
SESSIONS, DOCUMENTS = 500, 300  # at most: sessions, and documents of one
_given: OrderedDict[str, dict[Document, None]] = OrderedDict()
_lock = threading.Lock()


def to(session: str) -> frozenset[Document]:
    """What a session has."""
    with _lock:
        return frozenset(_given.get(session, ()))


def note(session: str, documents: Iterable[Document]) -> None:
    with _lock:
        known = _given.setdefault(session, {})
        _given.move_to_end(session)
        known.update(dict.fromkeys(documents))
        while len(known) > DOCUMENTS:
            del known[next(iter(known))]
        while len(_given) > SESSIONS:
            _given.popitem(last=False)


def forget(session: str) -> None:
    """A session that starts, or starts again after its context was compacted, has nothing any more."""
    with _lock:
        _given.pop(session, None)
