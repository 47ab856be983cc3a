"""Merging two stores: what becomes of every file, what is refused, what happens in the middle."""

import threading
import tracemalloc
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from coffer import fs, later, paths
from coffer.errors import CofferError, Conflict, Invalid, StoreNotFound
from coffer.models import AuditEntry
from memory.files import markdown, store_file
from memory.models import Document, Store, Use
from memory.services import counts, facts, handoff, journal, merge, recall, rules, stores, superseded
from tests.cases.steps import fingerprint
from tests.conftest import Api
from tests.factories import StoreFactory, write_files

A = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
B = "project-01BX5ZZKBKACTAV9WEVGEMMVRZ"
C = "project-01D3X3Z0D2YHBQZPZQ0D2YHBQZ"
DAY = "journal/2026-10-25.md"


def made(name: str, files: dict[str, str | bytes]) -> Store:
    store: Store = StoreFactory(name=name, files=files)
    return store


def file_of(name: str) -> store_file.StoreFile:
    return store_file.read(paths.store(name), name, name.removeprefix("project-"))


def entry(stamp: str, text: str) -> str:
    return f"<!-- {stamp} claude_code:s-1 -->\n{text}\n"


def read(name: str, relative: str) -> str:
    return (paths.store(name) / relative).read_text(encoding="utf-8")


def on_disk() -> list[str]:
    return sorted(f"project-{path.name}" for path in paths.projects().iterdir())


# --- every kind of file -----------------------------------------------------------------------------------------------


def test_equal_bytes_stay_once_and_other_collisions_are_both_kept() -> None:
    both = {"knowledge/same.md": "equal\n", "knowledge/inbox/deep/er.md": "equal\n"}
    made(
        A, {**both, "knowledge/t.md": "ours\n", "handoff/main.md": "ours\n", "notes.txt": "ours\n", "x/y/z.bin": b"\0"}
    )
    made(B, {**both, "knowledge/t.md": "theirs\n", "knowledge/t-2.md": "taken\n", "handoff/main.md": "theirs\n"})
    before = fingerprint(paths.store(A))
    done = merge.merge(A, B)
    assert done.counts == {"added": 2, "same": 2, "renamed": 2, "joined": 0, "left": 0}
    assert [read(B, f"knowledge/{name}.md") for name in ("t", "t-2", "t-3")] == ["theirs\n", "taken\n", "ours\n"]
    assert [read(B, f"handoff/{name}.md") for name in ("main", "main-2")] == ["theirs\n", "ours\n"]
    assert read(B, "notes.txt") == "ours\n"
    assert (paths.store(B) / "x" / "y" / "z.bin").read_bytes() == b"\0"
    assert on_disk() == [B]
    kept = fingerprint(done.retired)
    assert {name: sha for name, sha in kept.items() if not name.startswith("merge/")} == before
    assert recall.recall([stores.get(B)], "ours")[0].id == "t-3"


def test_bc_095_entries_are_joined_by_time_and_content_in_every_zone() -> None:
    summer, winter = entry("2026-10-25T02:30:00+02:00", "In summer."), entry("2026-10-25T02:30:00+01:00", "In winter.")
    first, last = entry("2026-10-25T00:00:00Z", "Midnight."), entry("2026-10-25T23:59:59Z", "The last second.")
    made(A, {DAY: f"# 2026-10-25\n\n{summer}\n{last}", "journal/2026-10-26.md": "# 2026-10-26\n\nBy hand.\n"})
    made(B, {DAY: f"# 2026-10-25\n\nA line by hand.\n\n{first}\n{winter}\n{last}".replace("\n", "\r\n")})
    assert merge.merge(A, B).counts["joined"] == 1
    found = [one.text for one in reversed(journal.recent(stores.get(B), 9)) if one.period == "2026-10-25" and one.stamp]
    assert found == ["Midnight.", "In summer.", "In winter.", "The last second."]
    assert "A line by hand." in read(B, DAY)
    assert read(B, "journal/2026-10-26.md").endswith("By hand.\n")


def test_two_entries_of_one_moment_both_stay() -> None:
    moment = "2026-10-25T10:00:00Z"
    made(A, {DAY: f"# 2026-10-25\n\n{entry(moment, 'Ours.')}"})
    made(B, {DAY: f"# 2026-10-25\n\n{entry(moment, 'Theirs.')}"})
    merge.merge(A, B)
    assert [one.text for one in journal.recent(stores.get(B), 9)] == ["Ours.", "Theirs."]


def test_rules_that_are_equal_stay_once_and_what_is_new_comes_to_the_end() -> None:
    made(A, {
        "rules/rules.md": "# Ours\n\n- Never  push tags.\n- Always rebase.\n\nA word about rules.\n",
        "rules/git.md": "- USE signed commits\n- Ask before force-pushing.\n",
        "rules/all.md": "- Use signed commits\n",
    })  # fmt: skip
    made(
        B, {"rules/rules.md": "---\nby: hand\n---\n\n- never push tags.\n", "rules/style.md": "- Use signed commits\n"}
    )
    merge.merge(A, B)
    found = [rule.text for rule in rules.listing(stores.get(B))]
    assert found == ["never push tags.", "Always rebase.", "Ask before force-pushing.", "Use signed commits"]
    text = read(B, "rules/rules.md")
    assert text.startswith("---\nby: hand\n---\n")
    assert "# Ours" in text
    assert "A word about rules." in text
    assert not (paths.store(B) / "rules" / "all.md").exists()


def test_what_is_no_text_is_kept_byte_for_byte() -> None:
    made(A, {"rules/rules.md": b"- caf\xe9\n", DAY: b"# 2026-10-25\n\ncaf\xe9\n"})
    made(B, {"rules/rules.md": "- ours\n", DAY: b"# 2026-10-25\n\n\xff\xe9\n"})
    done = merge.merge(A, B)
    assert (paths.store(B) / "rules" / "rules-2.md").read_bytes() == b"- caf\xe9\n"
    kept = [path.read_bytes() for path in (paths.store(B) / "superseded").glob("*.md")]
    assert kept == [b"# 2026-10-25\n\n\xff\xe9\n"]
    assert (done.retired / DAY).read_bytes() == b"# 2026-10-25\n\ncaf\xe9\n"


def test_the_archive_comes_along_and_every_version_can_be_restored() -> None:
    for name, word in ((A, "ours"), (B, "theirs")):
        store = stores.provision(name)
        fact = facts.add(store, f"The {word}.")
        facts.edit(store, fact.id, text=f"The new {word}.")
    line = '{"file": "same.md", "lane": "knowledge", "path": "knowledge/same.md", "why": "%s", "state": "done"}\n'
    for name in (A, B):
        write_files(paths.store(name), {"superseded/same.md": f"of {name}\n"})
        with (paths.store(name) / "superseded" / "index.jsonl").open("a") as index:
            index.write(line % name)
    merge.merge(A, B)
    store = stores.get(B)
    whys = {one.file: one.why for one in superseded.listing(store)}
    assert (whys["same.md"], whys["same-2.md"]) == (B, A)
    assert sorted(whys.values()) == sorted([A, B, "edited", "edited"])
    for file in whys:
        superseded.restore(store, file)
    assert read(B, "knowledge/same.md") in (f"of {A}\n", f"of {B}\n")


def test_links_and_folders_of_other_programs_stay_behind_and_are_listed(tmp_path: Path) -> None:
    made(A, {"knowledge/t.md": "x\n", ".git/config": "x", ".obsidian/app.json": "{}", ".hidden": "kept"})
    (paths.store(A) / "knowledge" / "link.md").symlink_to(tmp_path)
    made(B, {})
    left = {step.path for step in merge.preview(A, B).steps if step.did == "left"}
    assert left == {".git", ".obsidian", "knowledge/link.md"}
    assert merge.merge(A, B).counts["left"] == 3
    assert sorted(path.name for path in paths.store(B).rglob("*") if path.is_file()) == [
        ".hidden",
        "store.yaml",
        "t.md",
    ]


def test_bc_119_both_forms_of_a_files_name_are_kept() -> None:
    composed, decomposed = (unicodedata.normalize(form, "Überblick") for form in ("NFC", "NFD"))
    made(A, {f"knowledge/{composed}.md": "zokor one\n"})
    made(B, {f"knowledge/{decomposed}.md": "zokor other\n"})
    merge.merge(A, B)
    assert len(recall.recall([stores.get(B)], "zokor", top_k=20)) == 2


def test_two_facts_of_one_id_are_told_apart() -> None:
    fact = "---\nid: 01ARZ3NDEKTSV4RRFFQ69G5FAA\ntitle: T\n---\n\n{}\n"
    made(A, {"knowledge/inbox/a.md": fact.format("The okapi of a.")})
    made(
        B, {"knowledge/inbox/a.md": fact.format("The okapi of b."), "knowledge/inbox/z.md": fact.format("The okapi z.")}
    )
    merge.merge(A, B)
    found = [hit.id for hit in recall.recall([stores.get(B)], "okapi", top_k=20)]
    assert len(found) == len(set(found)) == 3
    assert sum("~" in one for one in found) == 2


# --- the survivor -----------------------------------------------------------------------------------------------------


def test_label_root_origin_and_settings_go_over_where_the_survivor_lacks_them(make_repo: Callable[..., Path]) -> None:
    repo = make_repo("widget", remote="https://git.example.org/acme/widget.git")
    source = stores.set_label(stores.for_writing(stores.locate(str(repo)), "project"), "Ours")
    stores.configure(source, {"max_fact_chars": 99})
    saved = facts.remember(source, "The okapi.", actor="agent")
    recall.recall([source], "okapi")
    stores.provision(B)
    later.flush()
    merge.merge(source.name, B)
    later.flush()
    target = stores.get(B)
    assert (target.label, target.project_root, target.remote) == ("Ours", str(repo), "git.example.org/acme/widget")
    assert stores.max_fact_chars(target) == 99
    assert file_of(B).merged_identities == (source.project_id,)
    assert Use.objects.get(ref=saved.id).store == B
    assert stores.locate(str(repo)).project.store == B  # type: ignore[union-attr]
    assert [row.name for row in Store.objects.all()] == [B]
    assert Document.objects.count() == 1


def test_what_the_survivor_has_stays() -> None:
    for name, label in ((A, "Ours"), (B, "Theirs")):
        stores.configure(stores.set_label(stores.provision(name), label), {"max_fact_chars": len(label)})
    merge.merge(A, B)
    assert (file_of(B).label, file_of(B).config) == ("Theirs", {"max_fact_chars": 6})


def test_aliases_go_along_a_chain_and_are_in_one_store_only() -> None:
    for name in (A, B, C):
        made(name, {f"knowledge/{name}.md": "okapi\n"})
    merge.merge(A, B)
    merge.merge(B, C)
    assert set(file_of(C).merged_identities) == {A.removeprefix("project-"), B.removeprefix("project-")}
    assert [store.name for store in stores.all_stores()] == ["global", C]
    assert counts.fact_count(stores.get(C)) == 3
    assert [row.store for row in AuditEntry.objects.filter(event=merge.EVENT).order_by("id")] == [B, C]


def test_one_audit_row_with_names_and_counts_and_nothing_else() -> None:
    made(A, {"knowledge/t.md": "secret okapi\n"})
    made(B, {})
    merge.merge(A, B, actor="agent")
    row = AuditEntry.objects.get(event="memory_stores_merged")
    assert (row.store, row.ref, row.actor) == (B, A, "agent")
    assert row.counts == {"added": 1, "same": 0, "renamed": 0, "joined": 0, "left": 0}


def test_without_a_model_the_reorganization_says_so() -> None:
    made(A, {}), made(B, {}), made(C, {})
    assert merge.merge(A, B).reorg_status == "no_model"
    assert merge.merge(B, C, organize=False).reorg_status == "skipped"


def test_a_reorganization_that_fails_fails_no_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(store: Store) -> str:
        raise Conflict(f"{store.name} is busy.")

    made(A, {}), made(B, {}), made(C, {})
    monkeypatch.setattr(merge, "reorganize", fail)
    assert merge.merge(A, B).reorg_status == f"error: {B} is busy."
    monkeypatch.setattr(merge, "reorganize", lambda store: "reorganized")
    assert merge.merge(B, C).reorg_status == "reorganized"


def test_a_dry_run_lists_every_file_and_changes_nothing(home: Path) -> None:
    made(
        A, {"knowledge/t.md": "ours\n", "knowledge/n.md": "new\n", DAY: f"# d\n\n{entry('2026-10-25T10:00:00Z', 'x')}"}
    )
    made(B, {"knowledge/t.md": "theirs\n", DAY: "# d\n"})
    before = fingerprint(home / "memory")
    plan = merge.preview(A, B)
    assert fingerprint(home / "memory") == before
    assert {(step.path, step.to, step.did) for step in plan.steps} == {
        ("knowledge/t.md", "knowledge/t-2.md", "renamed"),
        ("knowledge/n.md", "knowledge/n.md", "added"),
        (DAY, DAY, "joined"),
    }
    assert merge.merge(A, B).counts == plan.counts


# --- refused ----------------------------------------------------------------------------------------------------------

REFUSED = [
    (A, A, 422),
    (A, "global", 422),
    ("global", A, 422),
    (A, C, 404),
    (C, A, 404),
    ("../x", A, 404),
    (A, "", 404),
]


@pytest.mark.parametrize(("source", "target", "status"), REFUSED)
@pytest.mark.parametrize("dry_run", [True, False])
def test_bc_124_pairs_that_cannot_be_merged_are_refused_without_effect(
    source: str, target: str, status: int, dry_run: bool, api: Api, home: Path
) -> None:
    made(A, {"knowledge/t.md": "x\n"})
    stores.provision("global")
    before = fingerprint(home / "memory")
    answer = api.post("/memory_stores/merge", {"source": source, "target": target, "dry_run": dry_run})
    code = {422: "MERGE_INVALID", 404: "MEMORY_STORE_NOT_FOUND"}[status]
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert fingerprint(home / "memory") == before
    assert not AuditEntry.objects.filter(event=merge.EVENT).exists()


def test_a_merge_that_is_done_cannot_be_done_again_nor_back(api: Api) -> None:
    made(A, {"knowledge/t.md": "x\n"}), made(B, {})
    merge.merge(A, B)
    for pair in ((A, B), (B, A)):
        answer = api.post("/memory_stores/merge", {"source": pair[0], "target": pair[1]})
        assert answer.status_code == 404
        assert A in answer.json()["error"]["message"]
    assert AuditEntry.objects.filter(event=merge.EVENT).count() == 1


@pytest.mark.parametrize("busy", [A, B])
def test_during_a_pass_of_the_engine_a_merge_is_refused_without_effect(busy: str, home: Path, api: Api) -> None:
    made(A, {"knowledge/t.md": "x\n"}), made(B, {})
    before = fingerprint(home / "memory")
    with fs.locked(f"{busy}.pass.lock"):
        answer = api.post("/memory_stores/merge", {"source": A, "target": B})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
    assert fingerprint(home / "memory") == before
    assert api.post("/memory_stores/merge", {"source": A, "target": B}).status_code == 200


def test_of_two_merges_at_once_one_is_done_and_the_other_refused() -> None:
    made(A, {f"knowledge/{number}.md": f"a {number}\n" for number in range(60)}), made(B, {}), made(C, {})
    start = threading.Barrier(2)

    def attempt(target: str) -> str:
        try:
            start.wait(10)
            return merge.merge(A, target).target
        except (Conflict, StoreNotFound) as error:
            return error.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(attempt, (B, C)))
    (survivor,) = [one for one in found if one in (B, C)]
    assert set(found) - {survivor} <= {"CONFLICT", "MEMORY_STORE_NOT_FOUND"}
    assert counts.fact_count(stores.get(survivor)) == 60
    assert A not in on_disk()


def test_a_merge_into_another_store_than_the_one_that_was_begun_is_refused() -> None:
    made(A, {"knowledge/t.md": "x\n"}), made(B, {}), made(C, {})
    merge._begun(A, B)
    with pytest.raises(Conflict, match=f"coffer merge {A} {B}"):
        merge.merge(A, C)
    assert [about.target for about in merge.cut_off()] == [B]
    merge.merge(A, B)
    assert merge.cut_off() == []


def test_a_link_in_the_survivors_lane_stops_the_merge_and_nothing_is_retired(tmp_path: Path) -> None:
    made(A, {"knowledge/t.md": "x\n"}), made(B, {})
    (paths.store(B) / "knowledge").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="link"):
        merge.merge(A, B)
    assert on_disk() == [A, B]
    assert list(tmp_path.glob("*.md")) == []


# --- in the middle ----------------------------------------------------------------------------------------------------


def test_everything_that_is_said_during_a_merge_is_in_the_survivor(make_repo: Callable[..., Path]) -> None:
    here, there = (make_repo(name, remote=f"https://git.example.org/acme/{name}.git") for name in ("here", "there"))
    source, target = (stores.for_writing(stores.locate(str(repo)), "project").name for repo in (here, there))
    write_files(paths.store(source), {f"knowledge/{number:03}.md": f"okapi {number}\n" for number in range(150)})
    stop, begun = threading.Event(), threading.Event()

    def write(repo: Path) -> list[str]:
        saved = []
        while not stop.is_set() or len(saved) < 5:
            place = stores.locate(str(repo))
            store = stores.for_writing(place, "project")
            saved.append(facts.remember(store, f"Okapi {repo.name} {len(saved)}.", actor="agent").id)
            journal.append(store, f"Entry {repo.name} {len(saved)}.", agent="codex")
            handoff.save(place, f"Scene {len(saved)}.")
            begun.set()
        connections.close_all()
        return saved

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, repo) for repo in (here, there)]
        begun.wait(20)
        try:
            merge.merge(source, target)
        finally:
            stop.set()
        saved = [identity for writer in writers for identity in writer.result(timeout=120)]
    assert on_disk() == [target]
    inbox = paths.store(target) / "knowledge" / "inbox"
    assert sorted(markdown.parse(path.read_bytes()).meta["id"] for path in inbox.iterdir()) == sorted(saved)
    assert len([one for one in journal.recent(stores.get(target), 10_000) if "Entry" in one.text]) == len(saved)
    assert counts.fact_count(stores.get(target)) == 150 + len(saved)


def test_what_changes_in_the_source_meanwhile_goes_over_as_it_is_then() -> None:
    source, _ = stores.provision(A), stores.provision(B)
    edited, deleted, kept = (facts.add(source, f"Okapi {number}.") for number in range(3))
    record = merge._begun(A, B)
    merge._carry_batch(record, paths.store(B), B, sorted(fingerprint(paths.store(A)))[:-1])  # and then it is cut off
    facts.edit(source, edited.id, text="Okapi corrected.")
    facts.delete(source, deleted.id)
    merge.merge(A, B)
    target = stores.get(B)
    assert facts.get(target, edited.id).text == "Okapi corrected."
    assert {fact.id for fact in facts.newest([target])[0]} == {edited.id, kept.id}


def test_what_was_changed_in_the_survivor_after_it_arrived_stays_as_it_is() -> None:
    source, _ = stores.provision(A), stores.provision(B)
    fact = facts.add(source, "Okapi.")
    record = merge._begun(A, B)
    merge._carry_batch(record, paths.store(B), B, [fact.path.relative_to(paths.store(A)).as_posix()])
    facts.edit(stores.get(B), fact.id, text="Corrected in the survivor.")
    merge.merge(A, B)
    found = {facts.get(stores.get(B), one.id).text for one in facts.newest([stores.get(B)])[0]}
    assert found == {"Corrected in the survivor.", "Okapi."}


def test_an_adoption_waits_for_the_merge(make_repo: Callable[..., Path], git: Callable[..., str]) -> None:
    repo = make_repo("later")
    older = stores.for_writing(stores.locate(str(repo)), "project").name
    git(repo, "remote", "add", "origin", "https://git.example.org/acme/later.git")
    with fs.locked(f"{older}.pass.lock"):
        assert stores.locate(str(repo)).project.store == older  # type: ignore[union-attr]
    assert stores.locate(str(repo)).project.store != older  # type: ignore[union-attr]


def test_files_are_carried_one_at_a_time() -> None:
    made(A, {f"attachments/{number}.bin": bytes([number]) * 2_000_000 for number in range(30)})
    made(B, {})
    tracemalloc.start()
    try:
        merge.merge(A, B)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000  # a third of what was carried over
    assert len(list((paths.store(B) / "attachments").iterdir())) == 30


def test_a_merge_finds_its_way_without_the_database() -> None:
    made(A, {"knowledge/t.md": "okapi\n"}), made(B, {})
    merge.merge(A, B)
    Store.objects.all().delete()
    stores.rebuild()
    assert recall.recall([stores.get(B)], "okapi")[0].id == "t"
    with pytest.raises(CofferError) as caught:
        stores.get(A)
    assert caught.value.details["survivor"] == B


def test_over_rest_the_answer_tells_counts_plan_and_place(api: Api) -> None:
    made(A, {"knowledge/t.md": "x\n"}), made(B, {"knowledge/t.md": "y\n"})
    dry: dict[str, Any] = api.post("/memory_stores/merge", {"source": A, "target": B, "dry_run": True}).json()
    assert dry["plan"] == [{"path": "knowledge/t.md", "to": "knowledge/t-2.md", "did": "renamed", "why": ""}]
    done = api.post("/memory_stores/merge", {"source": A, "target": B}).json()
    assert (done["files"]["renamed"], done["reorg_status"], done["dry_run"]) == (1, "no_model", False)
    assert Path(done["retired_dir"]).is_dir()
