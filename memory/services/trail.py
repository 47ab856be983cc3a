"""Rows about changes that have already happened on disk: they never fail a write and never hold it up."""

from collections.abc import Callable

from django.db import DatabaseError

from coffer import audit, db, later

PATIENCE = 0.5  # seconds


def record(event: str, *, store: str, actor: str, ref: str = "", **counts: int) -> None:
    """Write one audit row now, or as soon as the database takes it."""
    write(lambda: audit.record(event, store=store, ref=ref, actor=actor, **counts))


def write(job: Callable[[], object]) -> None:
    """Make any such write now, or as soon as the database takes it."""
    try:
        with db.patience(PATIENCE):
            job()
    except DatabaseError:
        later.write(job)
