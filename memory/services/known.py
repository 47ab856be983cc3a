"""Whether a store says something already, so that it is not written down once more."""

import re

from memory import retrieval
from memory.files import acceptance
from memory.models import Store
from memory.services import stores as store_service

_LOOKED_AT = 12  # passages: the journal has one of each day, and the best one may be of another
_QUERY_CHARS = 1_000
_ENOUGH = 10  # words that matter, from which one among them may be another
_NAME = re.compile(r"(?<=[^\s.!?:]\s)[A-Z]\w+")  # a capital inside a sentence


def says(store: Store, text: str) -> bool:
    """Whether one passage of the journal, of a topic or of a fact holds all that a text says."""
    if not store_service.folder(store).is_dir():
        return False
    behind = {store.name: store_service.refresh(store).behind}
    hits = retrieval.search([store], text[:_QUERY_CHARS], _LOOKED_AT, behind)
    return any(holds(hit.text, text) for hit in hits)


def holds(passage: str, text: str) -> bool:
    """Whether a passage holds all that a text says, though it may say it in other words.

    Every name, number and quote stands in it, and every other word that matters, or eight in ten of a longer text when
    both deny something or neither does. Of a short text one word may make all the difference, and a thing said twice
    is less harm than one not said.
    """
    if not acceptance.missing_terms(text, "", passage, kept=10):
        return True
    return (
        acceptance.in_common(text, text) >= _ENOUGH
        and not acceptance.missing_terms(text, "", passage, kept=8)
        and "not" not in acceptance.missing_terms(passage, "", text)
        and all(name in passage for name in _NAME.findall(text))
    )
