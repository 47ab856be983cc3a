"""Several writers at once, a database that somebody else holds, and locks left behind.

BC-005, BC-006 over real MCP sessions and shims: tests/gateway. BC-008: the session-start hook is in test_hooks,
an admin page is added with the pages. BC-112: the locks of passes are added with the organizer.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from coffer import later, paths
from coffer.errors import Busy
from memory.models import Document
from memory.services import stores
from tests.cases.steps import (
    call,
    coffer,
    drop,
    eventually,
    fingerprint,
    finish,
    foreign_lock,
    hits,
    start,
    within,
)
from tests.conftest import Api


def in_threads(work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    """Run work for all items at the same time, each in a thread with a connection of its own."""

    def run(item: Any) -> Any:
        try:
            return work(item)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(run, items))


def test_bc_005_many_writes_at_once_from_one_session(repo: Path) -> None:
    texts = [f"The same forty characters at the beginning, fact {number:02}" for number in range(20)]
    saved = in_threads(lambda text: call("remember", repo, text=text), texts)
    assert len({one["id"] for one in saved}) == 20
    assert len({one["path"] for one in saved}) == 20
    assert all(
        Path(one["path"]).read_bytes().endswith(text.encode() + b"\n") for one, text in zip(saved, texts, strict=True)
    )
    assert call("list_memory", repo)["total"] == 20
    assert set(hits("forty characters", repo, top_k=20)) == {one["id"] for one in saved}


def test_bc_006_writers_and_readers_in_processes_of_their_own(make_repo: Callable[..., Path]) -> None:
    remote = "https://git.example.org/acme/widget.git"
    here, there = make_repo("here", remote=remote), make_repo("there", remote=remote)
    writers = [start("remember", str(repo), repo.name, "20") for repo in (here, there)]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        call("recall", here, query="quokka build")
        call("list_memory", there)
        reads += 1
    saved = [json.loads(line)[1] for writer in writers for line in finish(writer)]
    assert len(set(saved)) == 40
    assert reads > 0
    assert call("list_memory", here)["total"] == 40
    assert {row.ref for row in Document.objects.all()} == set(saved)
    assert call("remember", here, text="Nobody is shut out.")["indexed"] is True


def test_bc_006_editors_of_one_fact_lose_no_version(api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "Version none of the walrus."}).json()
    editors = [start("edit", fact["id"], "5") for _ in range(3)]
    confirmed = [line for editor in editors for line in finish(editor)]
    assert len(confirmed) == 15
    archived = list((paths.store("global") / "superseded").glob("*.md"))
    assert len(archived) == 15
    assert call("list_memory", None)["total"] == 1


def test_bc_008_nobody_waits_for_a_foreign_lock_and_nobody_is_told_of_it(repo: Path, api: Api) -> None:
    before = call("remember", repo, text="The okapi build takes nine minutes.")
    call("remember", repo, text="Global okapi.", scope="global")
    later.flush()
    with foreign_lock():
        with within(1.0):
            assert before["id"] in hits("okapi build", repo)
        with within(3.0):
            saved = call("remember", repo, text="The okapi moved to the annex.")
        assert Path(saved["path"]).exists()
        assert saved["indexed"] is False
        with within(1.0):
            assert saved["id"] in hits("annex", repo)
        with within(1.0):
            listed = call("list_memory", repo)
        assert (listed["facts"][0]["id"], listed["total"]) == (saved["id"], 2)
        with within(3.0):
            scene = call("set_handoff", repo, body="The scene.")
        assert Path(scene["path"]).exists()
        with within(1.0):
            assert call("resume", repo)["body"] == "The scene."
        url = f"/memory_stores/{saved['project']['store']}/facts"
        with within(3.0):
            posted = api.post(url, {"text": "Posted under the lock."})
        assert (posted.status_code, posted.json()["text"]) == (201, "Posted under the lock.")
        with within(1.0):
            assert api.get(f"{url}/{posted.json()['id']}").status_code == 200
        assert {fact["id"] for fact in api.get(url).json()["facts"]} == {before["id"], saved["id"], posted.json()["id"]}
        changed = api.patch(f"{url}/{posted.json()['id']}", {"text": "Corrected under the lock."})
        assert (changed.status_code, changed.json()["text"]) == (200, "Corrected under the lock.")
        assert api.get(f"{url}/{posted.json()['id']}").json()["text"] == "Corrected under the lock."
        assert api.delete(f"{url}/{saved['id']}").status_code == 204
        assert api.get(f"{url}/{saved['id']}").status_code == 404
        assert saved["id"] not in hits("annex", repo)
    eventually(lambda: later.flush(1))
    assert hits("corrected", repo) == [posted.json()["id"]]
    assert Document.objects.filter(ref=posted.json()["id"]).exists()
    assert not Document.objects.filter(ref=saved["id"]).exists()


def test_bc_008_a_store_that_has_no_row_yet_is_read_from_its_files(repo: Path, api: Api) -> None:
    name = call("recall", repo, query="x")["project"]["store"]
    with foreign_lock():
        for store in (name, "global"):
            drop("knowledge/inbox/one.md", f"okapi of {store}\n", store)
        with within(1.5):
            assert len(call("recall", repo, query="okapi")["hits"]) == 2
        with within(1.5):
            assert call("list_memory", repo, scope="both")["total"] == 2
        with within(2.5):
            saved = call("remember", repo, text="A fresh okapi.")
        assert saved["indexed"] is False
        assert api.get(f"/memory_stores/{name}/facts/one").json()["text"] == f"okapi of {name}"
        with within(3.0):
            assert api.patch(f"/memory_stores/{name}/label", {"label": "Locked"}).json()["label"] == "Locked"
        assert api.get(f"/memory_stores/{name}/metrics").json()["fact_count"] == 2
    assert len(hits("okapi", repo)) == 3
    assert call("recall", repo, query="x")["project"]["name"] == "Locked"


def test_bc_008_many_readers_at_once_wait_no_longer_than_one(repo: Path) -> None:
    call("remember", repo, text="The okapi build takes nine minutes.")
    with foreign_lock():
        call("remember", repo, text="The okapi moved.")
        started = time.monotonic()
        found = in_threads(lambda _: hits("okapi", repo), list(range(8)))
        assert time.monotonic() - started < 2.0
    assert {len(one) for one in found} == {2}


def test_bc_008_a_file_deleted_or_changed_under_the_lock_is_not_served_as_it_was(api: Api) -> None:
    gone, changed = (drop(f"knowledge/inbox/{name}.md", f"okapi {name} before\n") for name in ("gone", "changed"))
    assert len(hits("okapi")) == 2
    with foreign_lock():
        gone.unlink()
        changed.write_text("okapi changed after\n")
        (hit,) = call("recall", None, query="okapi")["hits"]
        assert (hit["id"], hit["text"]) == ("changed", "okapi changed after")
        assert call("list_memory", None)["total"] == 1
        assert api.get("/memory_stores/global/facts/gone").status_code == 404
        assert api.get("/memory_stores/global/facts/changed").json()["text"] == "okapi changed after"
        assert api.get("/memory_stores/global").json()["fact_count"] == 1


def test_bc_008_clear_label_and_retire_succeed_while_the_database_is_held(repo: Path, api: Api) -> None:
    name = call("remember", repo, text="Okapi.")["project"]["store"]
    with foreign_lock():
        drop("knowledge/inbox/late.md", "not indexed\n", name)
        assert api.delete(f"/memory_stores/{name}/facts").json() == {"cleared": 2}
        assert call("list_memory", repo)["total"] == 0
        assert api.patch(f"/memory_stores/{name}", {"max_fact_chars": 10}).json()["config"]["max_fact_chars"] == 10
        assert api.delete(f"/memory_stores/{name}").status_code == 204
        assert api.get(f"/memory_stores/{name}").status_code == 404
        assert not paths.store(name).exists()
    eventually(lambda: later.flush(1))
    assert hits("okapi", repo) == []


BUSY_WRITER = """
import sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
print("on", flush=True)
while True:
    con.execute("BEGIN IMMEDIATE")
    con.execute("UPDATE memory_store SET label = label")
    con.execute("COMMIT")
"""


def test_bc_008_a_job_that_writes_in_a_loop_holds_nobody_up(repo: Path) -> None:
    call("remember", repo, text="The okapi build.")
    writer = subprocess.Popen(
        [sys.executable, "-c", BUSY_WRITER, str(paths.database())], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        for number in range(10):
            with within(2.5):
                call("remember", repo, text=f"Okapi fact {number}.")
            with within(1.0):
                assert hits("okapi", repo)
    finally:
        writer.kill()
        writer.communicate()
    assert call("list_memory", repo)["total"] == 11


@pytest.mark.parametrize("lock", ["global.write.lock", "migrate.lock"])
def test_bc_112_a_killed_holder_and_a_file_left_behind_block_nobody(lock: str) -> None:
    drop("knowledge/inbox/one.md", "okapi\n")
    holder = start("hold", lock)
    assert holder.stdout is not None
    assert json.loads(holder.stdout.readline()) == ["held"]
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    path = paths.locks() / lock
    for left in (None, b"", b"garbage", b"999999", str(os.getppid()).encode(), b"\0" * 100):
        if left is not None:
            path.write_bytes(left)
            os.utime(path, (time.time() + 86400, time.time() + 86400))
        with within(5.0):
            if lock == "migrate.lock":
                paths.database().unlink()
                assert hits("okapi") == ["one"]
            call("remember", None, text=f"With {left!r} left behind.", scope="global")


def test_bc_112_a_lock_that_is_really_held_is_respected_and_reading_goes_on() -> None:
    drop("knowledge/inbox/one.md", "okapi\n")
    holder = start("hold", "global.write.lock")
    assert holder.stdout is not None
    holder.stdout.readline()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(call, "remember", None, text="After the lock.", scope="global")
        for _ in range(20):
            with within(1.0):
                assert hits("okapi") == ["one"]
            assert not writing.done()
        assert fingerprint(paths.store("global") / "knowledge").keys() == {"inbox/one.md"}
        holder.kill()
        holder.communicate()
        assert Path(writing.result(timeout=10)["path"]).exists()


def test_bc_112_a_lock_held_too_long_is_told_by_name() -> None:
    store = stores.provision("global")

    def wait() -> str:
        with pytest.raises(Busy) as caught, stores.write_lock(store, seconds=0.05):
            pass
        return caught.value.message

    with stores.write_lock(store), ThreadPoolExecutor(1) as pool:
        assert "global.write.lock" in pool.submit(wait).result()


def test_bc_112_the_locks_are_those_that_are_documented(repo: Path) -> None:
    call("remember", repo, text="x")
    call("set_handoff", repo, body="x")
    documented = (Path(__file__).parents[2] / "docs" / "data-layout.md").read_text(encoding="utf-8")
    assert "locks/" in documented
    assert {path.name.partition(".")[2] for path in paths.locks().iterdir()} <= {"write.lock", "lock", "pass.lock"}


def test_bc_103_many_processes_that_begin_in_a_home_without_a_database(repo: Path) -> None:
    connections.close_all()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{paths.database()}{suffix}").unlink(missing_ok=True)
    writers = [start("remember", str(repo), f"w{number}", "3") for number in range(3)]
    saved = [json.loads(line)[1] for writer in writers for line in finish(writer)]
    assert len(set(saved)) == 9
    assert coffer("memory", "list").returncode == 0
    assert call("list_memory", repo)["total"] == 9
