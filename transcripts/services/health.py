"""What sessions have to say about their own health: for status, doctor and the pages' banner."""

from collections.abc import Iterator

from coffer import llm
from coffer.errors import ConfigInvalid
from coffer.registry import Finding
from transcripts.models import Distilled, KnownSource, Sweep
from transcripts.services import ledger, sweep
from transcripts.services.distilling import PURPOSE


def findings() -> Iterator[Finding]:
    """Whether sessions are distilled by themselves, what the last pass said, and what needs a person."""
    try:
        on = sweep.settings().on
    except ConfigInvalid as error:
        yield Finding("warning", "sessions", f"No session is distilled: {error.message}")
        return
    last = Sweep.objects.first()
    if not on:
        yield Finding("ok", "sessions", "not distilled by themselves: COFFER_DISTILL is off")
    elif llm.model(PURPOSE) is None:
        yield Finding("ok", "sessions", "not distilled: no model is connected for it")
    elif last is None:
        yield Finding("ok", "sessions", "no sweep has looked for settled ones yet")
    elif last.stopped:
        yield Finding("warning", "sessions", f"The last sweep ended early: {last.stopped}")
    else:
        yield Finding("ok", "sessions", f"{last.distilled} distilled by the last sweep, {last.remaining} wait")
    given_up = Distilled.objects.filter(failures__gte=ledger.GIVEN_UP).count()
    if given_up:
        told = "1 session is" if given_up == 1 else f"{given_up} sessions are"
        yield Finding("warning", "sessions", f"{told} given up after failing; the admin's list of them can try again.")
    unread = KnownSource.objects.exclude(problem="").count()
    if unread:
        told = "1 place" if unread == 1 else f"{unread} places"
        yield Finding("warning", "sessions", f"{told} of sessions cannot be read; `coffer transcript list` says why.")
