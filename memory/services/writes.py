"""What follows a change of files that recall may see: the index of just these files, and the audit row."""

import logging
from collections.abc import Sequence

from django.db import DatabaseError, transaction

from coffer import audit, db, later
from memory.models import Store
from memory.services import stores as store_service

log = logging.getLogger("memory.writes")


def settle(store: Store, files: Sequence[str], event: str, ref: str, actor: str, **counts: int) -> bool:
    """Index and audit in one transaction; False when the database cannot be written now (the files are what counts)."""

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
