"""The database is migrated once, waits briefly, and comes back from damage."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from coffer import audit, db, later, paths
from coffer.errors import ConfigInvalid
from coffer.models import AuditEntry

PREPARE = "import django; django.setup(); from coffer import db; db.prepare()"


def test_many_processes_that_open_a_new_home_migrate_it_once(home: Path) -> None:
    paths.database().unlink()
    processes = [subprocess.Popen([sys.executable, "-c", PREPARE], stderr=subprocess.PIPE) for _ in range(4)]
    logs = [process.communicate(timeout=120)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(log.count("database migrated") for log in logs) == 1


def test_a_newer_schema_is_refused_and_left_alone(home: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('memory', '9999_later', '2027-01-01')"
        )
        cursor.execute("PRAGMA user_version = 1")
    before = paths.database().stat().st_ino
    with pytest.raises(ConfigInvalid, match="newer Coffer"):
        db.prepare()
    assert paths.database().stat().st_ino == before


@pytest.mark.parametrize("damage", [b"", b"this is no database at all, it is a text file\n" * 100])
def test_a_database_that_is_none_is_set_aside_at_start(home: Path, damage: bytes) -> None:
    connection.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{paths.database()}{suffix}").unlink(missing_ok=True)
    paths.database().write_bytes(damage)
    db.prepare()
    assert AuditEntry.objects.count() == 0
    assert len(list(paths.backups().glob("damaged-*"))) == (1 if damage else 0)


def test_a_replaced_database_file_is_noticed(home: Path, tmp_path: Path) -> None:
    audit.record("fact_added", actor="user")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(tmp_path / "copy.sqlite3")])
    audit.record("fact_added", actor="user")
    (tmp_path / "copy.sqlite3").replace(paths.database())
    for suffix in ("-wal", "-shm"):
        Path(f"{paths.database()}{suffix}").unlink(missing_ok=True)
    db.refresh_connection()
    assert AuditEntry.objects.count() == 1


def test_damage_and_locks_are_told_apart() -> None:
    assert db.damaged(DatabaseError("database disk image is malformed"))
    assert db.damaged(OperationalError("no such table: memory_fts"))
    assert not db.damaged(OperationalError("database is locked"))
    assert db.locked(OperationalError("database is locked"))
    assert not db.damaged(ValueError("malformed"))


def test_patience_ends_after_the_given_time_and_is_taken_back(home: Path) -> None:
    with connection.cursor() as cursor:
        usual = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
    other = sqlite3.connect(paths.database(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="locked"), db.patience(0.01), transaction.atomic():
        audit.record("fact_added", actor="user")
    other.close()
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA busy_timeout").fetchone()[0] == usual


def test_a_late_write_waits_for_a_lock_without_holding_up_its_caller(home: Path) -> None:
    other = sqlite3.connect(paths.database(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    later.write(lambda: audit.record("fact_added", actor="user"))
    assert AuditEntry.objects.count() == 0
    other.execute("ROLLBACK")
    other.close()
    assert later.flush(20)
    assert AuditEntry.objects.count() == 1


def test_a_late_write_that_cannot_be_done_is_dropped_and_counted(home: Path) -> None:
    before = later.dropped()

    def fail() -> None:
        raise DatabaseError("no such column: x")

    later.write(fail)
    assert later.flush(5)
    assert later.dropped() == before + 1
    assert threading.active_count() >= 1
