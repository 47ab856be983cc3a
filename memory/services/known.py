"""Whether a store says something already, so that it is not written down once more."""

from memory import retrieval
from memory.files import acceptance
from memory.models import Store
from memory.services import stores as store_service

_LOOKED_AT = 12  # passages: the journal has one of each day, and the best one may be of another
_QUERY_CHARS = 1_000


def says(store: Store, text: str) -> bool:
    """Whether one passage of the journal, of a topic or of a fact holds all that a text says."""
    if not store_service.folder(store).is_dir():
        return False
    behind = {store.name: store_service.refresh(store).behind}
    hits = retrieval.search([store], text[:_QUERY_CHARS], _LOOKED_AT, behind)
    return any(holds(hit.text, text) for hit in hits)


def holds(passage: str, text: str) -> bool:
    """Whether a passage holds all that a text says: every name, number and quote, and every other word that matters.

    One word may make all the difference, and a thing said twice is less harm than one not said.
    """
    return not acceptance.missing_terms(text, "", passage, kept=10)
