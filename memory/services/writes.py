"""What follows a change of files that recall may see: the index of just these files, and the audit row."""

import logging
from collections.abc import Sequence

from django.db import DatabaseError, transaction

from coffer import audit, db, later
from memory import schedule
from memory.models import Store
from memory.services import stores as store_service

log = logging.getLogger("memory.writes")


def settle(store: Store, files: Sequence[str], event: str, ref: str, actor: str, **counts: int) -> bool:
    """Index and audit in one transaction; False when the database cannot be written now (the files are what counts).

    The store is organized when it has been quiet for a while after this.
    """
    schedule.touch(store.name)

    def write_audit() -> None:
        audit.record(event, store=store.name, ref=ref, actor=actor, **counts)

    try:
        with db.patience(1.0), transaction.atomic():
            changes = store_service.refresh(store, files)
            write_audit()
        return not changes.behind
    except DatabaseError as error:
        log.warning("not indexed yet store=%s files=%d error=%s", store.name, len(files), type(error).__name__)
        later.write(write_audit)
        return False


def index(store: Store, files: Sequence[str]) -> bool:
    """Index alone: for changes that are told together with others, and call for no organizing."""
    try:
        with db.patience(1.0), transaction.atomic():
            return not store_service.refresh(store, files).behind
    except DatabaseError as error:
        log.warning("not indexed yet store=%s files=%d error=%s", store.name, len(files), type(error).__name__)
        return False
