"""What an agent is given without asking: at the start of a session, and beside a prompt.

An agent waits for both, so each has little time; what was given is written down after the answer.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from agents.models import Agent
from agents.services import deliveries, given, registration
from agents.services.places import kind_of
from coffer import env, scrub
from coffer.deadline import within
from coffer.errors import ConfigInvalid
from memory.services import digest, matches, stores, uses
from memory.services.digest import Digest
from memory.services.stores import Place, Project

PROMPT_SECONDS = 0.15
CHECK = "Check"  # the event of a hook that doctor runs, or a connection that is tried
BYTES_SETTING, BYTES, LEAST_BYTES, MOST_BYTES = "COFFER_BUNDLE_BYTES", 9_900, 3_000, 10_000


@dataclass(frozen=True)
class Context:
    """The whole additional context, how many things it carries, and the store of the project it is about.

    ``documents`` are those it shows something of, by store and id.
    """

    text: str = ""
    items: int = 0
    project: str = ""
    documents: tuple[tuple[str, str], ...] = ()

    @property
    def bytes(self) -> int:
        return len(self.text.encode())


def session_context(
    agent: str, *, cwd: str, session: str = "", event: str = "SessionStart", folder: str = ""
) -> Context:
    """What a session begins with; never empty (FR-049, FR-050, FR-055).

    A CHECK is no delivery: it gets the same with its session's id at the end, so that it can see whether all arrived.
    Raises UnsupportedAgentType for a name that is no agent's and no kind's, else only what says that the database is
    damaged.
    """
    began = time.monotonic()
    known = registration.ensure(agent, folder=folder)
    try:
        context = preview(known, stores.locate(cwd))
    except Exception:
        _record(agent, event, session, began, Context(), "failed")
        raise
    if event == CHECK:
        return replace(context, text=f"{context.text}\n{session}")
    given.forget(_key(agent, session, cwd))
    _record(agent, event, session, began, context, "delivered")
    return context


def session_preview(agent: str, *, cwd: str) -> Context:
    """What a session of an agent, known or not, would begin with; nothing is written down. Raises as the above."""
    return preview(registration.known(agent), stores.locate(cwd))


def preview(agent: Agent, place: Place) -> Context:
    """What a session would begin with at this moment; nothing is written down."""
    room = min(budget(), kind_of(agent.type).limit)
    context = _told(place, digest.session(place, room))
    if context.bytes > room:  # what stands for a secret may be longer than it
        context = _told(place, digest.session(place, 2 * room - context.bytes))
    return context


def place_in(name: str) -> Place:
    """Where a session of a store's project begins; of a project whose folder is not on this machine, that it is there.

    Raises StoreNotFound.
    """
    store = stores.get(name)
    if store.name == "global":
        return Place(None, reason="Outside of any project.")
    if store.project_root and Path(store.project_root).is_dir():
        return stores.locate(store.project_root)
    return Place(None, project=Project(store.name, stores.display_name(store), store.project_root))


def prompt_context(agent: str, *, prompt: str, cwd: str, session: str) -> Context:
    """What clearly belongs to a prompt: empty when nothing does, when it took too long, and when it is switched off.

    Raises as ``session_context``.
    """
    began, event = time.monotonic(), "UserPromptSubmit"
    known = registration.ensure(agent)
    if not known.prompt_context:
        return Context()
    key, outcome = _key(agent, session, cwd), ""
    try:
        context = within(PROMPT_SECONDS, lambda: _beside(prompt, stores.locate(cwd), key))
    except TimeoutError:
        context, outcome = Context(), "late"
    except Exception:
        _record(agent, event, session, began, Context(), "failed")
        raise
    given.note(key, context.documents)
    _record(agent, event, session, began, context, outcome or ("delivered" if context.items else "silent"))
    return context


def prompt_preview(agent: str, *, prompt: str, cwd: str, session: str) -> Context:
    """What ``prompt_context`` would give; nothing is written down. Raises as ``session_context``."""
    if not registration.known(agent).prompt_context:
        return Context()
    try:
        return within(PROMPT_SECONDS, lambda: _beside(prompt, stores.locate(cwd), _key(agent, session, cwd)))
    except TimeoutError:
        return Context()


def budget() -> int:
    """The most bytes of a bundle; the default when what is set is no such number, which the health check says."""
    try:
        return env.number(BYTES_SETTING, least=LEAST_BYTES, most=MOST_BYTES)
    except ConfigInvalid:
        return BYTES


def _beside(prompt: str, place: Place, key: str) -> Context:
    return _told(place, matches.matches(place, prompt, given.to(key)))


def _told(place: Place, made: Digest) -> Context:
    """What an agent is told: without the secrets that people left in their own words, since its model is told too."""
    return Context(scrub.redact(made.text).text, made.items, _project(place), tuple(made.documents))


def _record(agent: str, event: str, session: str, began: float, context: Context, outcome: str) -> None:
    uses.count("delivered", context.documents)
    deliveries.record(
        agent,
        event,
        session=session,
        project=context.project,
        bytes=context.bytes,
        items=context.items,
        ms=(time.monotonic() - began) * 1000,
        outcome=outcome,
    )


def _project(place: Place) -> str:
    return place.project.store if place.project is not None else ""


def _key(agent: str, session: str, cwd: str) -> str:
    """One session; of an agent that gives it no id, all that it does in one folder."""
    return f"{agent}\n{session or cwd}"
