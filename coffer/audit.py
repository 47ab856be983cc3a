"""The audit trail: one row per change, never its content."""

from coffer.models import AuditEntry


def record(event: str, *, store: str = "", ref: str = "", actor: str, **counts: int) -> None:
    """Write one row; events are lower-case words such as ``fact_added`` or ``handoff_set``."""
    AuditEntry.objects.create(event=event, store=store, ref=ref[:200], actor=actor, counts=counts)
