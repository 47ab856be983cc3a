"""What the background workers call, by these very names."""

from transcripts.services import backfill, session_end
from transcripts.services import sweep as sweeper


def sweep() -> str:
    """Distill what has settled lately."""
    return sweeper.sweep()


def distill_session(agent: str, session: str) -> str:
    """Distill one session now."""
    return session_end.distill(agent, session)


def distill_past(agents: list[str], project: str = "", since: str = "") -> str:
    """Distill all that agents did, slice by slice."""
    return backfill.go_on(agents, project, since)
