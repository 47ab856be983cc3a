"""The lanes that are no rows: rules, journal days, scenes and the archive of one store, as items to read and act on."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from coffer.errors import MemoryNotFound
from coffer.text import visible, visible_line
from memory.files import markdown
from memory.models import Store
from memory.services import handoff, journal, rules, superseded
from memory.services.rules import Rule


@dataclass(frozen=True)
class LaneVerb:
    """Something done to one item; ``asks`` is what follows from it, where a person is asked first."""

    name: str
    button: str
    done: str
    run: Callable[[Store, str], object]
    asks: str = ""


@dataclass(frozen=True)
class Item:
    """One line of a lane's page: what names it, what it is called, what more there is to say, what can be done."""

    key: str
    title: str
    verbs: tuple[LaneVerb, ...]
    about: str = ""
    when: datetime | None = None

    @property
    def query(self) -> str:
        return urlencode({"key": self.key})


@dataclass(frozen=True)
class Lane:
    """One lane; ``read`` gives the text of an item where the list does not show it whole."""

    name: str
    title: str
    empty: str
    items: Callable[[Store], list[Item]]
    read: Callable[[Store, str], str] | None = None
    of_projects: bool = False


_TO_ARCHIVE = "It moves to superseded/; the page Superseded brings it back."
_KEEP = LaneVerb("keep", "Keep", "The rule is kept.", rules.keep)
_REMOVE_RULE = LaneVerb(
    "remove", "Remove", "The rule was removed.", rules.remove, "The file as it is now goes to superseded/ first."
)
_REMOVE_DAY = LaneVerb(
    "remove", "Remove", "The day was removed; Superseded brings it back.", journal.remove, _TO_ARCHIVE
)
_REMOVE_SCENE = LaneVerb(
    "remove", "Remove", "The scene was removed; Superseded brings it back.", handoff.remove, _TO_ARCHIVE
)
_RESTORE = LaneVerb("restore", "Restore", "It is back in its place.", superseded.restore)


def _rules(store: Store) -> list[Item]:
    return [_rule(rule) for rule in rules.listing(store)]


def _rule(rule: Rule) -> Item:
    about = [f"made by the organizer from {visible_line(rule.origin)}"] if rule.origin else []
    about += ["new: keep it or remove it"] if rule.new else []
    verbs = (_KEEP, _REMOVE_RULE) if rule.new else (_REMOVE_RULE,)
    return Item(rule.id, visible(rule.text), verbs, "; ".join(about))


def _days(store: Store) -> list[Item]:
    return [Item(day.period, day.period, (_REMOVE_DAY,), f"{len(day.text)} characters") for day in journal.days(store)]


def _scenes(store: Store) -> list[Item]:
    return [
        Item(scene.slug, visible_line(scene.branch), (_REMOVE_SCENE,), when=markdown.timestamp(scene.updated_at))
        for scene in handoff.scenes(store)
    ]


def _archived(store: Store) -> list[Item]:
    return [
        Item(
            line.file,
            visible_line(line.path or line.file),
            (_RESTORE,),
            visible_line(line.why),
            markdown.timestamp(line.when),
        )
        for line in superseded.listing(store)
    ]


def _day_text(store: Store, period: str) -> str:
    return _one([day.text for day in journal.days(store) if day.period == period])


def _scene_text(store: Store, slug: str) -> str:
    return _one([scene.text for scene in handoff.scenes(store) if scene.slug == slug])


def _one(texts: list[str]) -> str:
    if not texts:
        raise MemoryNotFound("That is no longer there; the page Superseded has what was removed.")
    return texts[0]


LANES = {
    lane.name: lane
    for lane in (
        Lane(
            "rules",
            "Rules",
            "There are no rules yet. Add the first above: agents are told it at the start of every session.",
            _rules,
        ),
        Lane("journal", "Journal", "There are no journal days yet.", _days, _day_text, of_projects=True),
        Lane(
            "handoff",
            "Handoff",
            "No branch has a handoff yet. An agent leaves one when it stops in the middle of something.",
            _scenes,
            _scene_text,
            of_projects=True,
        ),
        Lane("superseded", "Superseded", "Nothing was replaced or deleted yet.", _archived, superseded.read),
    )
}
