"""Kills, full and read-only disks, damaged databases.

BC-103: merge and hook install are added with those; organize is in tests/memory/test_organize_faults. BC-105: the
journal is added with that, organize is in test_answers, hooks in test_hooks. BC-108: the hook is in tests/agents,
`~/.claude` read-only with the agents' connections. BC-141: the hook is in test_hooks, admin is added with that; that
sessions are not distilled again, with the distiller. BC-142: a file system without shared memory is not at hand.
BC-145: the embedder is added with vectors; nothing needs sqlite-vec yet.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections

from coffer import later, paths
from coffer.errors import CofferError
from memory.files import markdown
from memory.models import Document, Store
from memory.services import archive, stores
from tests.cases.steps import (
    ROOT,
    call,
    coffer,
    drop,
    eventually,
    fingerprint,
    finish,
    hits,
    read_only,
    start,
    stranger,
    within,
)
from tests.conftest import Api
from tests.rounds import rounds

LEFTOVERS = [
    ".t.md.tmp1",
    "tmpabc.md",
    "t.md~",
    ".#t.md",
    "#t.md#",
    ".t.md.swp",
    "~syncthing~t.md.tmp",
    "t.md.bak",
    "4913",
]


def killed_after(process: "subprocess.Popen[str]", lines: int, rest: random.Random) -> list[list[Any]]:
    """Kill a worker some time after it has confirmed so many things; what it had confirmed by then."""
    assert process.stdout is not None
    confirmed = [process.stdout.readline() for _ in range(lines)]
    for _ in range(rest.randrange(200_000)):  # no wait for anything: the moment is what is random
        pass
    process.kill()
    out, _ = process.communicate()
    return [json.loads(line) for line in [*confirmed, *out.splitlines()] if line.endswith(("\n", "]"))]


def whole(path: Path) -> bool:
    page = markdown.parse(path.read_bytes())
    return not page.problems and page.meta["id"] in path.read_text() and bool(page.body)


@pytest.mark.hold
@pytest.mark.parametrize("round_", range(rounds(50)))
def test_bc_103_killed_while_it_remembers_edits_and_hands_over(round_: int, repo: Path, api: Api) -> None:
    chance = random.Random(round_)
    fact = api.post("/memory_stores/global/facts", {"text": "Version none of the walrus."}).json()
    worker = start("everything", str(repo), fact["id"])
    confirmed = killed_after(worker, chance.randrange(3, 20), chance)
    saved = {identity: text for word, identity, text in confirmed if word == "saved"}
    last = {word: number for word, number, _ in confirmed if word != "saved"}
    _remembered(repo, saved)
    _edited(api, fact["id"], last.get("edited", -1))
    _handed_over(repo, last.get("handed", -1))


def _remembered(repo: Path, saved: dict[str, str]) -> None:
    inbox = paths.store(call("recall", repo, query="x")["project"]["store"]) / "knowledge" / "inbox"
    assert all(whole(path) for path in inbox.glob("*.md"))
    listed = call("list_memory", repo)
    assert listed["total"] == len(list(inbox.glob("*.md"))) <= len(saved) + 1
    assert saved.keys() <= {fact["id"] for fact in listed["facts"]}
    for identity, text in saved.items():
        assert identity in hits(text, repo)
    assert call("remember", repo, text="Life goes on.")["indexed"] is True


def _edited(api: Api, identity: str, last: int) -> None:
    url = f"/memory_stores/global/facts/{identity}"
    text = api.get(url).json()["text"]
    assert text.startswith((f"Version {last} of", f"Version {last + 1} of")) or (last == -1 and "none" in text)
    assert "none" in text or text.endswith(f"end {text.split()[1]}")
    assert hits("walrus") == [identity]
    assert call("list_memory", None)["total"] == 1
    assert not archive.open_lines(paths.store("global"))
    kept = [
        (paths.store("global") / "superseded" / one.file).read_bytes() for one in archive.listing(paths.store("global"))
    ]
    assert len(set(kept)) == len(kept) >= last + 1
    assert api.patch(url, {"text": "Life goes on."}).status_code == 200


def _handed_over(repo: Path, last: int) -> None:
    scene = call("resume", repo)
    assert scene["found"] or last == -1
    if scene["found"]:
        assert scene["body"].startswith((f"Scene {last} begins", f"Scene {last + 1} begins"))
        assert scene["body"].endswith(f"end {scene['body'].split()[1]}")
    assert call("set_handoff", repo, body="Life goes on.")["status"] == "saved"


def test_bc_103_what_others_leave_is_neither_served_nor_touched(api: Api) -> None:
    drop("knowledge/t.md", "a real okapi\n")
    for name in LEFTOVERS:
        drop(f"knowledge/{name}", "okapi left over\n")
        drop(f"knowledge/inbox/{name}", "okapi left over\n")
    before = fingerprint(paths.memory())
    assert hits("okapi", top_k=20) == ["t"]
    assert call("list_memory", None)["total"] == 1
    assert api.get("/memory_stores/global").json()["fact_count"] == 1
    assert fingerprint(paths.memory()) == before
    assert api.delete("/memory_stores/global/facts").json() == {"cleared": 1}
    gone = {"knowledge/t.md"}
    after = fingerprint(paths.store("global"))
    expected = {path.removeprefix("global/") for path in before}
    assert expected - gone <= after.keys()


SLOW_WRITER = """
import sys, time
path = sys.argv[1]
for n in range(100):
    text = f"---\\ntitle: Okapi {n}\\n---\\n\\nThe okapi text number {n} is whole.\\n"
    with open(path, "w") as file:
        file.write(text[:20])
        file.flush()
        time.sleep(0.005)
        file.write(text[20:])
    if n % 10 == 0:
        open(path, "w").close()
        open(path, "wb").write(b"\\0" * 200)
        open(path, "w").write(text)
"""


def test_bc_104_a_reader_meets_files_that_are_being_written() -> None:
    path = drop("knowledge/t.md", "The okapi text is there.\n")
    writer = subprocess.Popen([sys.executable, "-c", SLOW_WRITER, str(path)])
    reads = 0
    while writer.poll() is None:
        assert set(hits("okapi")) <= {"t"}
        assert call("list_memory", None)["total"] == 1
        reads += 1
    assert writer.returncode == 0
    assert reads > 3
    (hit,) = call("recall", None, query="okapi")["hits"]
    assert (hit["id"], hit["text"]) == ("t", "The okapi text number 99 is whole.")
    (listed,) = call("list_memory", None)["facts"]
    assert (listed["id"], listed["title"]) == ("t", "Okapi 99")


def attempt(tool: str, cwd: Path, *, size: int | None = None, **arguments: Any) -> list[Any]:
    """One call in a process of its own, which may write no file beyond ``size``; its code and words."""
    words = ["attempt"] if size is None else ["limited", str(size)]
    (line,) = finish(start(*words, tool, str(cwd), json.dumps(arguments)))
    answer: list[Any] = json.loads(line)
    return answer


def test_bc_105_with_a_limit_on_file_sizes_nothing_is_lost_and_nothing_claimed(repo: Path, api: Api) -> None:
    saved = call("remember", repo, text="Okapi " + "before " * 20)
    call("set_handoff", repo, body="Scene " + "before " * 20)
    store = paths.store(saved["project"]["store"])
    before = fingerprint(store)
    for tool, arguments in (("remember", {"text": "okapi " * 500}), ("set_handoff", {"body": "scene " * 500})):
        code, message = attempt(tool, repo, size=1000, **arguments)
        assert code == "STORAGE", message
        assert "space" in message
    after = fingerprint(store)
    assert {name: sha for name, sha in after.items() if not name.startswith("superseded/")} == before
    assert not [
        path for path in store.rglob("*") if path.name.startswith(".") or (path.is_file() and not path.stat().st_size)
    ]
    # A file that fits is saved although the database cannot take it.
    code, answer = attempt("remember", repo, size=20_000, text="A small okapi.")
    assert code == "ok", answer
    assert Path(answer["path"]).exists()
    assert attempt("remember", repo, text="Okapi after.")[0] == "ok"
    assert len(hits("okapi", repo)) == 3
    assert (
        api.patch(f"/memory_stores/{saved['project']['store']}/facts/{saved['id']}", {"text": "Changed."}).status_code
        == 200
    )


@contextmanager
def small_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """COFFER_HOME on a file system of 3 MB."""
    disk = home.parent / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a file system of a given size cannot be mounted here")
    try:
        for name in ("coffer.sqlite3", "token"):
            shutil.copy(home / name, disk / name)
        connections.close_all()
        monkeypatch.setenv("COFFER_HOME", str(disk))
        monkeypatch.setitem(connections.settings["default"], "NAME", str(disk / "coffer.sqlite3"))
        yield disk
    finally:
        later.flush()
        connections.close_all()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Use up a file system to its last byte."""
    stuffing = disk / "stuffing"
    with stuffing.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return stuffing


def test_bc_105_on_a_full_disk_nothing_is_lost_and_nothing_claimed(
    repo: Path, api: Api, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    with small_disk(home, monkeypatch) as disk:
        saved = call("remember", repo, text="Okapi before.")
        call("set_handoff", repo, body="Scene before.")
        url = f"/memory_stores/{saved['project']['store']}/facts"
        store = paths.store(saved["project"]["store"])
        before = fingerprint(store)
        stuffing = fill(disk)
        for tool, arguments in (("remember", {"text": "okapi " * 500}), ("set_handoff", {"body": "scene " * 500})):
            with pytest.raises(CofferError) as caught:
                call(tool, repo, **arguments)
            assert (caught.value.code, "space" in caught.value.message) == ("STORAGE", True)
        for answer in (
            api.patch(f"{url}/{saved['id']}", {"text": "changed " * 500}),
            api.post(url, {"text": "posted " * 500}),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (507, "STORAGE")
        assert {name: sha for name, sha in fingerprint(store).items() if not name.startswith("superseded/")} == before
        assert not [path for path in store.rglob("*") if path.name.endswith(".tmp")]
        with within(2.0):
            assert hits("okapi", repo) == [saved["id"]]
        assert call("resume", repo)["body"] == "Scene before."
        assert api.get(f"{url}/{saved['id']}").json()["text"] == "Okapi before."
        stuffing.unlink()
        assert call("remember", repo, text="Okapi after.")["indexed"] is True
        assert api.patch(f"{url}/{saved['id']}", {"text": "Okapi changed."}).status_code == 200
        assert len(hits("okapi", repo)) == 2
        assert call("set_handoff", repo, body="Scene after.")["status"] == "saved"


def test_bc_108_in_a_home_that_may_only_be_read_every_command_ends_with_one_clear_line(home: Path) -> None:
    call("remember", None, text="Okapi.", scope="global")
    later.flush()
    connections.close_all()
    before = stranger()
    if before and not os.access(sys.executable, os.X_OK):
        pytest.skip("another user cannot run this Python")
    probe = subprocess.run([*before, sys.executable, "-c", "import django"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("another user cannot run this Python")
    kept = fingerprint(home / "memory")
    with read_only(home):
        for words in (
            ("memory", "recall", "global", "okapi"),
            ("memory", "list"),
            ("memory", "add", "global", "More."),
        ):
            done = coffer(*words, before=before, HOME=str(home.parent / "person"))
            if done.returncode:
                assert len(done.stderr.strip().splitlines()) == 1, done.stderr
                assert str(home) in done.stderr
            else:
                assert words[1] != "add"
            assert "Traceback" not in done.stderr
    assert fingerprint(home / "memory") == kept
    assert hits("okapi")


def test_bc_108_a_store_that_may_only_be_read_is_read(repo: Path, api: Api) -> None:
    """The database can be written, the memory cannot: as a sandboxed daemon with a mounted folder has it."""
    saved = call("remember", repo, text="Okapi.")
    name = saved["project"]["store"]
    call("set_handoff", repo, body="Scene.")
    path = drop("knowledge/inbox/new.md", "okapi by hand\n", name)
    inbox = path.parent
    subprocess.run(["chattr", "+i", str(inbox)], capture_output=True, check=False)
    if os.geteuid() == 0:
        try:
            (inbox / "probe").touch()
            (inbox / "probe").unlink()
            pytest.skip("nothing stops root here")
        except PermissionError:
            pass
    else:
        inbox.chmod(0o555)
    try:
        assert len(hits("okapi", repo)) == 2
        assert call("resume", repo)["body"] == "Scene."
        answer = api.post(f"/memory_stores/{name}/facts", {"text": "More."})
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "STORAGE")
        changed = api.patch(f"/memory_stores/{name}/facts/{saved['id']}", {"text": "More."})
        assert (changed.status_code, changed.json()["error"]["code"]) == (507, "STORAGE")
        assert api.delete(f"/memory_stores/{name}/facts/{saved['id']}").status_code == 507
        assert api.get(f"/memory_stores/{name}/facts/{saved['id']}").json()["text"] == "Okapi."
    finally:
        subprocess.run(["chattr", "-i", str(inbox)], capture_output=True, check=False)
        inbox.chmod(0o700)


def overwrite_the_middle(database: Path) -> None:
    with database.open("r+b") as file:
        file.seek(database.stat().st_size // 2 // 4096 * 4096)
        file.write(os.urandom(4096))


def delete_from_shadow(table: str) -> Callable[[Path], None]:
    def damage(database: Path) -> None:
        with sqlite3.connect(database) as con:
            con.execute(f"DELETE FROM memory_fts_{table}")
        con.close()

    return damage


def drop_table(table: str) -> Callable[[Path], None]:
    def damage(database: Path) -> None:
        with sqlite3.connect(database) as con:
            con.execute("PRAGMA foreign_keys = OFF")
            con.execute(f"DROP TABLE {table}")
        con.close()

    return damage


def without_log(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """Damage of the file itself, its write-ahead log gone as after a clean stop."""

    def work(database: Path) -> None:
        with sqlite3.connect(database) as con:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        con.close()
        damage(database)

    return work


def remove_all(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "middle overwritten": without_log(overwrite_the_middle),
    "emptied": without_log(lambda database: database.write_bytes(b"")),
    "log deleted": lambda database: Path(f"{database}-wal").unlink(missing_ok=True),
    "a text file": without_log(lambda database: database.write_text("this is no database\n" * 500)),
    "removed": lambda database: database.unlink(),
    "all removed": remove_all,
    "half of it": without_log(lambda database: os.truncate(database, database.stat().st_size // 2)),
    **{f"shadow {table}": delete_from_shadow(table) for table in ("data", "idx", "content", "docsize", "config")},
    **{f"no {table}": drop_table(table) for table in ("memory_fts", "memory_chunk", "memory_document", "memory_store",
                                                     "memory_use", "coffer_auditentry", "gateway_invocation")},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *((kind, "running") for kind in DAMAGE),
        *((kind, "stopped") for kind in ("log deleted", "half of it", "removed", "shadow config", "shadow data")),
    ],
)
def test_bc_141_a_damaged_database_costs_no_memory(kind: str, way: str, repo: Path, api: Api) -> None:
    ids = {call("remember", repo, text=f"Okapi fact number {number} of the zoo.")["id"] for number in range(12)}
    name = call("recall", repo, query="x")["project"]["store"]
    api.patch(f"/memory_stores/{name}/label", {"label": "The zoo"})
    later.flush()
    kept = fingerprint(paths.memory())
    if way == "stopped":
        connections.close_all()
    DAMAGE[kind](paths.database())
    found = {identity for number in range(12) for identity in hits(f"okapi number {number}", repo, top_k=20)}
    assert found == ids
    assert call("recall", repo, query="x")["project"]["name"] == "The zoo"
    listed = api.get(f"/memory_stores/{name}/facts?limit=200")
    assert listed.status_code == 200
    assert {fact["id"] for fact in listed.json()["facts"]} == ids
    assert fingerprint(paths.memory()) == kept
    saved = call("remember", repo, text="Okapi after the damage.")
    assert saved["id"] in hits("after the damage", repo)
    assert api.post(f"/memory_stores/{name}/facts", {"text": "Okapi over REST."}).status_code == 201
    assert api.get(f"/memory_stores/{name}").json()["fact_count"] == 14
    later.flush()


@pytest.mark.parametrize("kind", ["middle overwritten", "removed", "no memory_document", "shadow data"])
@pytest.mark.parametrize("first", ["remember", "post", "patch", "delete", "label", "command"])
def test_bc_141_whatever_is_asked_first_happens_once(kind: str, first: str, api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "Okapi before."}).json()
    later.flush()
    DAMAGE[kind](paths.database())
    url = f"/memory_stores/global/facts/{fact['id']}"
    if first == "remember":
        call("remember", None, text="Okapi after.", scope="global")
    elif first == "post":
        assert api.post("/memory_stores/global/facts", {"text": "Okapi after."}).status_code == 201
    elif first == "patch":
        assert api.patch(url, {"text": "Okapi changed.", "if_sha256": fact["sha256"]}).status_code == 200
    elif first == "delete":
        assert api.delete(url).status_code == 204
    elif first == "label":
        assert api.patch("/memory_stores/global/label", {"label": "Everywhere"}).status_code == 200
    else:
        done = coffer("memory", "add", "global", "Okapi after.")
        assert done.returncode == 0, done.stderr
    expected = {"remember": 2, "post": 2, "patch": 1, "delete": 0, "label": 1, "command": 2}[first]
    assert len(hits("okapi")) == expected
    assert call("list_memory", None)["total"] == expected
    assert len(list((paths.store("global") / "superseded").glob("*.md"))) == (first in ("patch", "delete"))


def test_bc_142_killed_during_a_full_reindex_the_next_recall_is_complete(repo: Path) -> None:
    name = call("remember", repo, text="The first okapi.")["project"]["store"]
    for number in range(600):
        drop(
            f"knowledge/inbox/n{number}.md",
            f"---\nid: n{number}\n---\nokapi number {number} lives in cage{number}\n",
            name,
        )
    hits("okapi", repo)
    for round_ in range(rounds(5)):
        worker = start("reindex")
        assert worker.stdout is not None
        worker.stdout.readline()
        for _ in range(round_ * 400_000):
            pass
        worker.kill()
        worker.communicate()
        for number in random.Random(round_).sample(range(600), 5):
            assert hits(f"cage{number}", repo) == [f"n{number}"]
        assert Document.objects.count() == 601
        assert call("list_memory", repo)["total"] == 601


def test_bc_142_another_process_that_rebuilds_the_index_is_noticed(repo: Path) -> None:
    saved = call("remember", repo, text="Okapi.")
    assert hits("okapi", repo) == [saved["id"]]
    script = "import django; django.setup(); from memory import retrieval; retrieval.rebuild()"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True)
    assert hits("okapi", repo) == [saved["id"]]
    assert Document.objects.count() == 1


def test_bc_142_a_copy_of_the_home_made_during_writes_is_a_home(
    repo: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start("remember", str(repo), "busy", "40")
    assert worker.stdout is not None
    worker.stdout.readline()
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(home), str(copy)], check=False, capture_output=True)
    finish(worker)
    files = len(list(copy.rglob("inbox/*.md")))
    later.flush()
    connections.close_all()
    monkeypatch.setenv("COFFER_HOME", str(copy))
    monkeypatch.setitem(connections.settings["default"], "NAME", str(copy / "coffer.sqlite3"))
    assert call("list_memory", repo)["total"] == files > 0
    assert len(hits("quokka build", repo, top_k=20)) == min(files, 20)
    assert call("remember", repo, text="In the copy.")["indexed"] is True
    later.flush()


def test_bc_145_nothing_needs_a_python_whose_sqlite_loads_extensions(repo: Path) -> None:
    script = (
        "import sys\n"
        "def refuse(name, arguments):\n"
        "    if name in ('sqlite3.enable_load_extension', 'sqlite3.load_extension'): raise RuntimeError(name)\n"
        "sys.addaudithook(refuse)\n"
        "import django; django.setup()\nfrom coffer import db; db.prepare()\n"
        "from memory.services import stores, facts, recall\n"
        "store = stores.provision('global'); facts.remember(store, 'Okapi.', actor='user')\n"
        "print(len(recall.recall([store], 'okapi')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr


def test_a_row_of_a_store_that_was_replaced_is_not_written_to(repo: Path) -> None:
    """After a rebuild the numbers of rows may belong to other stores: BC-141's next report."""
    name = call("remember", repo, text="Okapi of the project.")["project"]["store"]
    held = stores.get(name)
    stores.provision("global")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = OFF")
        cursor.execute("DELETE FROM memory_store")
    Store.objects.create(
        pk=held.pk, name="global", project_id="0" * 26, created_at=held.created_at, updated_at=held.updated_at
    )
    stores.refresh(held)
    assert held.pk != Store.objects.get(name="global").pk
    assert hits("okapi") == []
    assert len(hits("okapi", repo)) == 1
    assert eventually(lambda: later.flush(1))
