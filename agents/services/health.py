"""How it is with each agent: whether memory reaches it, whether its sessions are captured, and what to do if not.

A warning is only what a person would want to know on every page: a hook that its agent does not run, a configuration
that cannot be read, a failed delivery, a session that began without memory, a capture that stopped. An agent that is
not connected, or was not used yet, is said to be so and is no warning.

Capture has stopped when three sessions began since the last sign of a capture, each more than a day ago: a session may
stay open for long, or be killed, but hardly three of them. Signs are the end of a session as its hook reports it, and a
sweep that found it. Of kinds without an event for the end, such as OpenCode, this says nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from django.utils import timezone

from agents.kinds import Kind
from agents.models import Agent, Delivery
from agents.services import context, deliveries, hook_log, hooks, registration
from agents.services.hooks import HookStatus
from agents.services.places import kind_of
from coffer import env, later
from coffer.errors import CofferError, ConfigInvalid
from coffer.registry import Finding
from coffer.templatetags.coffer import counted, size
from coffer.text import sentence, span

START, CAPTURES = "SessionStart", ("SessionEnd", "Sweep")
UNCAPTURED, SETTLED = 3, timedelta(days=1)


@dataclass(frozen=True)
class Trouble:
    """What is not well, and what to do about it."""

    message: str
    step: str = ""


@dataclass(frozen=True)
class Health:
    """One agent as it is now; ``hook`` is None when its files could not be looked at."""

    agent: Agent
    kind: Kind
    hook: HookStatus | None
    reached: Delivery | None
    captured: Delivery | None
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The kind's name, and the agent's own when there are two of it."""
        own = self.agent.name != self.kind.type
        return f"{self.kind.title} ({self.agent.name})" if own else self.kind.title

    @cached_property
    def line(self) -> str:
        """Whether memory reaches it, in a sentence."""
        if self.reached is not None:
            amount = f"{size(self.reached.bytes)}, {counted(self.reached.items, 'item')}"
            gone = "" if self.hook is None or self.hook.installed else "; its hook is not installed now"
            return f"memory last reached it {span(timezone.now() - self.reached.at)} ago ({amount}){gone}"
        if not self.kind.events:
            return "memory reaches it through its tools only: Coffer knows no hooks of it"
        if self.hook is None or not self.hook.installed:
            return "not connected"
        return "connected, and no session has begun since"


def of(agent: Agent) -> Health:
    """How it is with one agent, as its files and the ledger say; starts no program."""
    kind = kind_of(agent.type)
    newest = deliveries.last(agent.name, START)
    reached = deliveries.last(agent.name, START, outcome="delivered")
    ends = [row for event in CAPTURES if (row := deliveries.last(agent.name, event)) is not None]
    captured = max(ends, key=lambda row: row.at, default=None)
    try:
        hook, troubles = hooks.status(agent), []
    except (CofferError, OSError) as error:
        hook, troubles = None, [Trouble(f"its configuration cannot be looked at: {error}")]
    if hook is not None:
        troubles = [*map(Trouble, hook.problems), *_of_hook(agent, kind, hook, newest, captured)]
    return Health(agent, kind, hook, reached, captured, [*troubles, *_of_deliveries(agent, kind, newest)])


def everyone() -> list[Health]:
    return [of(agent) for agent in registration.listing()]


def findings() -> Iterator[Finding]:
    """For status, doctor and the pages: a line for each agent, and one for each trouble."""
    try:
        env.number(context.BYTES_SETTING, least=context.LEAST_BYTES, most=context.MOST_BYTES)
    except ConfigInvalid as error:
        yield Finding("warning", "session context", f"{error.message} Until then it is {context.BYTES}.")
    if later.dropped():
        yield Finding("warning", "ledgers", f"{later.dropped()} rows were dropped while the database was locked.")
    for health in everyone():
        step = f" `coffer connect {health.agent.name}` does it." if health.line == "not connected" else ""
        yield Finding("ok", health.title, f"{health.line}.{step}")
        for trouble in health.troubles:
            yield Finding("warning", health.title, f"{trouble.message} {trouble.step}".strip())


def _of_hook(
    agent: Agent, kind: Kind, hook: HookStatus, newest: Delivery | None, captured: Delivery | None
) -> Iterator[Trouble]:
    if not hook.installed:
        return
    yield from _of_log(agent, newest)
    if hook.trusted is False:
        yield Trouble(
            f"Its hook is not trusted yet, and {kind.title} skips it without a word.",
            f"Start {kind.title}, type /hooks and trust Coffer's entries.",
        )
    count = _uncaptured(agent.name, captured) if "SessionEnd" in kind.events else 0
    if count >= UNCAPTURED:
        since = f"since {captured.at.date().isoformat()}" if captured is not None else "so far"
        yield Trouble(
            f"Capture has stopped: {count} sessions began, and the end of none was reported {since}.",
            "`coffer doctor` looks for the reason.",
        )


def _of_log(agent: Agent, newest: Delivery | None) -> Iterator[Trouble]:
    """A session that began without memory since the last one that did not; a failed delivery is told elsewhere."""
    failure = hook_log.last_failure(agent.name, START)
    if failure is not None and (newest is None or newest.at < failure.at):
        yield Trouble(
            f"A session began without memory {span(timezone.now() - failure.at)} ago: {sentence(failure.why)}",
            "`coffer up` starts the daemon and keeps it running, so that no session has to wait for its start.",
        )


def _of_deliveries(agent: Agent, kind: Kind, newest: Delivery | None) -> Iterator[Trouble]:
    if newest is not None and newest.outcome == "failed":
        yield Trouble("The last session got nothing: its context failed.", "logs/daemon.log names the place.")
    if newest is not None and START not in kind.events:
        yield Trouble(f"A hook fires for it, but {kind.title} takes nothing from a hook as far as Coffer knows.")
    if agent.prompt_context and not kind.prompts:
        yield Trouble(
            f"Prompt context is switched on, but {kind.title} takes none.", "Switch it off, or it only costs time."
        )


def _uncaptured(agent: str, captured: Delivery | None) -> int:
    """How many sessions began after the last capture, those of the last day left out: they may still be open."""
    begun = Delivery.objects.filter(agent=agent, event=START, at__lt=timezone.now() - SETTLED)
    if captured is not None:
        begun = begun.filter(at__gt=captured.at)
    return begun.values("session").distinct().count()
