"""Rules: what an agent always or never does, one markdown bullet each; delivered at session start, never recalled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coffer import env
from coffer.errors import MemoryNotFound, Rejected
from memory.files import lanes, markdown
from memory.files import rules as bullets
from memory.files.rules import Bullet
from memory.models import Store
from memory.services import pages, trail
from memory.services import stores as store_service
from memory.services.pages import LanePage

MAX_CHARS = 300
FILE = f"{lanes.RULES}/rules.md"


@dataclass(frozen=True)
class Rule:
    """One rule; ``new`` until a person keeps it, when the engine made it from ``origin``."""

    id: str
    text: str
    path: Path
    origin: str
    new: bool


def text(store: Store) -> str | None:
    """Every rules file as it is written, ``rules.md`` first; None when there is nothing (FR-036)."""
    return "\n\n".join(page.text for page in _pages(store) if page.text.strip()) or None


def listing(store: Store) -> list[Rule]:
    """One rule per bullet, in the order of ``text``."""
    return [_rule(page, bullet) for page in _pages(store) for bullet in _bullets(page)]


def delivered(store: Store) -> list[Rule]:
    """The rules that sessions are told: those of the engine's making that wait for a person's word are held back.

    ``COFFER_RULES_REVIEW`` says which wait: those of the global store, of all stores, or none.
    """
    review = env.choice("COFFER_RULES_REVIEW", ("ALL", "GLOBAL", "NONE"))
    held_back = review == "ALL" or (review == "GLOBAL" and store_service.scope_of(store) == "global")
    return [rule for rule in listing(store) if not (rule.new and held_back)]


def append(store: Store, text: str, *, origin: str = "", new: bool = False, actor: str = "agent") -> bool:
    """Add a rule to ``rules.md``; False when the store has an equal one. Raises Rejected (FR-036)."""
    words = _checked(text)
    key = bullets.normalised(words)
    store_service.provision(store.name)
    elsewhere = any(bullets.normalised(rule.text) == key for rule in listing(store))

    def edit(page: markdown.Page | None) -> str | None:
        body = page.body if page is not None else ""
        if elsewhere or any(bullets.normalised(one.text) == key for one in bullets.bullets(FILE, body)):
            return None
        return bullets.added(body, bullets.line(words, origin, new))

    written = pages.change(store, FILE, edit, "rule added", begin=True)
    if written:
        trail.record("rule_added", store=store.name, ref=origin, actor=actor, characters=len(words))
    return written


def keep(store: Store, rule_id: str, *, actor: str = "user") -> Rule:
    """Say that a rule is no longer new; its id stays. Raises MemoryNotFound."""
    rule = _change(store, rule_id, bullets.kept, "rule kept")
    trail.record("rule_kept", store=store.name, ref=rule_id, actor=actor)
    return Rule(rule.id, rule.text, rule.path, rule.origin, False)


def remove(store: Store, rule_id: str, *, actor: str = "user") -> Rule:
    """Take a rule out of its file; the file before goes to superseded/. Raises MemoryNotFound, Conflict."""
    rule = _change(store, rule_id, bullets.without, "rule removed")
    trail.record("rule_removed", store=store.name, ref=rule_id, actor=actor, characters=len(rule.text))
    return rule


def _change(store: Store, rule_id: str, make: Callable[[str, Bullet], str], why: str) -> Rule:
    """Change the file of one rule, found again by its id in what is there at that moment."""
    rule, relative = _find(store, rule_id)

    def edit(page: markdown.Page | None) -> str | None:
        body = page.body if page is not None else ""
        bullet = next((one for one in bullets.bullets(relative, body) if one.id == rule_id), None)
        return make(body, bullet) if bullet is not None else None

    if not pages.change(store, relative, edit, why, said=bullets.without_mark):
        raise _missing(store, rule_id)
    return rule


def _find(store: Store, rule_id: str) -> tuple[Rule, str]:
    for page in _pages(store):
        for bullet in _bullets(page):
            if bullet.id == rule_id:
                return _rule(page, bullet), page.relative
    raise _missing(store, rule_id)


def _pages(store: Store) -> list[LanePage]:
    return sorted(pages.of_lane(store, lanes.RULES), key=lambda page: (page.relative != FILE, page.relative))


def _bullets(page: LanePage) -> Sequence[Bullet]:
    return bullets.bullets(page.relative, page.page.body)


def _rule(page: LanePage, bullet: Bullet) -> Rule:
    return Rule(bullet.id, bullet.text, page.path, bullet.origin, bullet.new)


def _checked(text: str) -> str:
    words = bullets.one_line(markdown.clean(text))
    if not words:
        raise Rejected("The rule is empty; nothing was added.", reason="empty", characters=0)
    if len(words) > MAX_CHARS:
        message = f"The rule has {len(words)} characters, {MAX_CHARS} are allowed; say what to do, not why."
        raise Rejected(message, reason="too_long", characters=len(words))
    return words


def _missing(store: Store, rule_id: str) -> MemoryNotFound:
    return MemoryNotFound(f"{store.name} holds no rule {rule_id[:80]!r}.", store=store.name)
