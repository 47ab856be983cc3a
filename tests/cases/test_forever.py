"""What must not stay: secrets after a deletion for good.

BC-047: the organizer's step is added with the organizer. The policy until then is documented in docs/data-layout.md:
a text is stored as sent, on the person's own disk.
"""

import logging
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from coffer import later, paths
from coffer.models import AuditEntry
from gateway.models import Invocation
from memory.models import Use
from tests.cases.steps import call, drop, eventually, foreign_lock, hits
from tests.conftest import Api

SECRET = "FAKE-hunter2-9x"
WORDS = (b"hunter2", b"HUNTER2")


def traces(home: Path) -> list[str]:
    """The files below the home that hold the secret, database pages and log included."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [
        str(path)
        for path in files
        if any(word in path.read_bytes() for word in WORDS) or "hunter2" in path.name.lower()
    ]


def test_bc_047_a_secret_stands_only_where_a_person_put_it(
    repo: Path, home: Path, caplog: pytest.LogCaptureFixture, api: Api
) -> None:
    with caplog.at_level(logging.DEBUG):
        told = call("remember", repo, text=f"prod db password is {SECRET}")
        assert told["masked"] == [{"kind": "password", "line": 1}]
        assert traces(home) == []
        url = f"/memory_stores/{told['project']['store']}/facts"
        saved = api.post(url, {"text": f"prod db password is {SECRET}"}).json()
        call("recall", repo, query=f"password {SECRET}")
        call("list_memory", repo)
    later.flush()
    assert SECRET not in caplog.text
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    rows = [*AuditEntry.objects.values(), *Invocation.objects.values(), *Use.objects.values()]
    assert SECRET not in repr(rows)
    assert set(traces(home)) <= {saved["path"], str(paths.database())}


@pytest.mark.parametrize("through", ["fresh", "edited", "moved", "deleted title", "hand-made", "topic"])
def test_bc_047_deleted_forever_it_is_nowhere(through: str, api: Api, home: Path, repo: Path) -> None:
    others = [call("remember", repo, text=f"Okapi fact {number} with other words.")["id"] for number in range(30)]
    name = call("recall", repo, query="x")["project"]["store"]
    url = f"/memory_stores/{name}/facts"
    if through == "hand-made":
        drop("knowledge/inbox/mine.md", f"the password is {SECRET}\n", name)
        identity = "mine"
    elif through == "topic":
        drop("knowledge/passwords.md", f"# Passwords\n\n## prod\n\nit is {SECRET}\n", name)
        identity = "passwords"
    else:
        identity = api.post(url, {"text": f"prod db password is {SECRET}"}).json()["id"]  # a person's words stay
    assert identity in hits(SECRET, repo)
    if through in ("edited", "moved", "topic"):
        api.patch(f"{url}/{identity}", {"text": f"changed, it is still {SECRET}"})
        api.patch(f"{url}/{identity}", {"text": "changed, and clean"})
    if through == "moved":
        path = Path(api.get(f"{url}/{identity}").json()["path"])
        path.rename(path.with_name("renamed-by-hand.md"))
        hits("clean", repo)
    if through == "deleted title":
        api.patch(f"{url}/{identity}", {"title": "harmless", "text": "clean"})
    later.flush()
    assert api.delete(f"{url}/{identity}?forever=true").status_code == 204
    later.flush()
    assert traces(home) == []
    assert api.get(f"{url}/{identity}").status_code == 404
    assert {fact["id"] for fact in api.get(f"{url}?limit=200").json()["facts"]} == set(others)
    assert identity not in hits("okapi", repo, top_k=20)
    assert "hunter2" not in repr([*AuditEntry.objects.values(), *Use.objects.values()])


def test_bc_047_what_a_killed_writer_and_a_damaged_database_left_goes_too(api: Api, home: Path) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": f"the password is {SECRET}"}).json()
    path = Path(fact["path"])
    path.with_name(f".{path.name[:40]}.abcd1234.tmp").write_text(SECRET)
    paths.backups().mkdir()
    (paths.backups() / "damaged-20260101T000000.sqlite3").write_text(SECRET)
    assert api.delete(f"/memory_stores/global/facts/{fact['id']}?forever=true").status_code == 204
    later.flush()
    assert traces(home) == []


def test_bc_047_while_the_database_is_held_the_file_goes_now_and_the_rest_soon(api: Api, home: Path) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": f"the password is {SECRET}"}).json()
    with foreign_lock():
        assert api.delete(f"/memory_stores/global/facts/{fact['id']}?forever=true").status_code == 204
        assert not Path(fact["path"]).exists()
        assert hits(SECRET) == []
    eventually(lambda: later.flush(1))
    assert traces(home) == []


def test_bc_047_an_open_reader_keeps_the_log_for_a_moment_only(api: Api, home: Path) -> None:
    """A reader's transaction pins the write-ahead log: what stands in it goes when the reader is done."""
    import sqlite3

    fact = api.post("/memory_stores/global/facts", {"text": f"the password is {SECRET}"}).json()
    reader = sqlite3.connect(paths.database(), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memory_document").fetchone()
    assert api.delete(f"/memory_stores/global/facts/{fact['id']}?forever=true").status_code == 204
    reader.execute("COMMIT")
    reader.close()
    eventually(lambda: later.flush(1))
    assert traces(home) == []


def test_bc_047_a_copy_under_the_same_id_keeps_its_own_history(api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": f"the password is {SECRET}"}).json()
    path = Path(fact["path"])
    copy = path.with_name("zz-copy.md")
    copy.write_bytes(path.read_bytes())
    listed = {one["path"]: one["id"] for one in api.get("/memory_stores/global/facts").json()["facts"]}
    api.patch(f"/memory_stores/global/facts/{listed[str(copy)]}", {"text": "the copy, corrected"})
    assert api.delete(f"/memory_stores/global/facts/{listed[str(path)]}?forever=true").status_code == 204
    assert copy.exists()
    assert len(list((paths.store("global") / "superseded").glob("zz-copy-*.md"))) == 1


def test_bc_047_an_error_never_repeats_the_text(api: Api, repo: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = SECRET + "x" * 9000
    answers: list[Any] = [
        api.post("/memory_stores/global/facts", {"text": long}),
        api.post("/memory_stores/global/facts", {"text": SECRET, "title": 5}),
        api.post(f"/memory_stores/{SECRET}/facts", {"text": SECRET}),
        api.patch("/memory_stores/global/facts/unknown", {"text": SECRET}),
        api.post("/memory_stores/global/recall", {"query": SECRET, "top_k": SECRET}),
    ]
    for answer in answers:
        assert answer.status_code in (404, 422)
    assert all(SECRET not in answer.content.decode() for answer in (*answers[:2], *answers[3:]))
    later.flush()
    assert "hunter2" not in repr([*AuditEntry.objects.values(), *Invocation.objects.values()])
