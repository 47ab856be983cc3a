"""Audit rows of changes that have already happened on disk: they never fail a write and never hold it up."""

from django.db import DatabaseError

from coffer import audit, db, later

PATIENCE = 0.5  # seconds


def record(event: str, *, store: str, actor: str, ref: str = "", **counts: int) -> None:
    """Write one row now, or as soon as the database takes it."""

    def write() -> None:
        audit.record(event, store=store, ref=ref, actor=actor, **counts)

    try:
        with db.patience(PATIENCE):
            write()
    except DatabaseError:
        later.write(write)
