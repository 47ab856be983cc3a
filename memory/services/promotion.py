"""Promotion: what recurs in the journal may become a topic or a rule, when code finds the entries it rests on (FR-047).

The journal is only read. An entry is named by its marker, which stands beside it wherever a model is shown it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from coffer.errors import Invalid
from memory.files import acceptance, lanes, markdown
from memory.files import rules as bullets
from memory.models import Store
from memory.services import archive, journal
from memory.services.journal import Entry
from memory.services.rules import MAX_CHARS

ENTRIES, DAYS = 3, 2  # a pattern is at least so many entries, on so many days
RECENT = 500  # entries that are looked at
_SHARED = 2  # words that an entry must have in common with what rests on it


@dataclass(frozen=True)
class Evidence:
    """The entries that something rests on."""

    markers: tuple[str, ...]
    texts: tuple[str, ...]
    days: tuple[str, ...]

    @property
    def origin(self) -> str:
        """The days, by the ids that recall gives them."""
        return ",".join(f"{lanes.JOURNAL}/{day}" for day in self.days)


def entries(store: Store) -> dict[str, Entry]:
    """The newest entries of the journal by their markers, newest first; what is there twice counts once."""
    found = journal.recent(store, RECENT)
    times = Counter(map(_lead, found))
    return {_marker(entry, alone=times[_lead(entry)] == 1): entry for entry in found}


def evidence(store: Store, markers: Sequence[str], text: str) -> Evidence:
    """The entries that a text rests on. Raises Invalid when they are not there, too few, or about something else."""
    known = entries(store)
    wanted = dict.fromkeys(" ".join(marker.removeprefix("<!--").removesuffix("-->").split()) for marker in markers)
    if unknown := [marker for marker in wanted if marker not in known]:
        raise Invalid(f"{len(unknown)} of the entries are not in the journal; copy markers as read_journal shows them.")
    found = {marker: known[marker] for marker in wanted if acceptance.in_common(text, known[marker].text) >= _SHARED}
    days = sorted({entry.period for entry in found.values()})
    if len(found) < ENTRIES or len(days) < DAYS:
        raise Invalid(
            f"This rests on {len(found)} entries of {len(days)} days that speak of it; {ENTRIES} entries of {DAYS} "
            "days are needed. Leave it in the journal."
        )
    return Evidence(tuple(found), tuple(entry.text for entry in found.values()), tuple(days))


def rule(text: str, found: Evidence) -> str:
    """The rule as one line that says no more than its entries do. Raises Invalid."""
    lines = [line for line in markdown.clean(text).splitlines() if line.strip()]
    words = bullets.one_line(lines[0]) if len(lines) == 1 else ""
    if not words:
        raise Invalid("A rule is one sentence on one line.")
    if len(words) > MAX_CHARS:
        raise Invalid(f"The rule has {len(words)} characters; {MAX_CHARS} are allowed.")
    said = "\n".join(found.texts)
    strange = acceptance.missing_terms(words, "", said)
    reason = acceptance.unfounded([words], said)
    if strange or reason:
        raise Invalid(reason or f"{len(strange)} of its words stand in none of the entries; use their own words.")
    return words


def _lead(entry: Entry) -> str:
    if entry.stamp is None:
        return entry.period
    source = f"{entry.agent}:{entry.session}" if entry.session else entry.agent
    return " ".join(f"{markdown.stamp(entry.stamp)} {source}".split())


def _marker(entry: Entry, *, alone: bool) -> str:
    """What an entry is led by in its file; of several with the same lead the text tells which is meant."""
    return _lead(entry) if alone else f"{_lead(entry)} #{archive.sha256(entry.text.encode())[:6]}"
