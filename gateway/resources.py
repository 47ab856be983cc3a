"""The one resource: the index of memory for where its reader stands, as a session is told it."""

from agents.services import context
from coffer import scrub
from gateway.caller import Caller
from gateway.tools import Answer, Tool
from memory.services import digest, stores

MIME_TYPE = "text/markdown"


def _index(caller: Caller) -> Answer:
    """Titles of what is remembered, without the rules (FR-055)."""
    place = stores.locate(caller.cwd)
    found = digest.index(place, context.budget())
    return Answer({"text": scrub.redact(found.text).text}, found.items, place.project.store if place.project else "")


# Its name is its address: stable, and the same for every project.
INDEX = Tool(
    "coffer://memory/index",
    "Index of memory",
    "What is remembered for this project and in general: titles, the newest journal entries, whether a handoff waits.",
    {},
    _index,
    read_only=True,
    idempotent=True,
)
