"""A merge taken back: exactly what it brought goes, and what was changed or written since stays and is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coffer import fs, later, paths
from coffer.errors import Conflict, NotFound, StoreNotFound
from coffer.models import AuditEntry
from memory.files import store_file
from memory.models import Store
from memory.services import facts, journal, merge, merge_undo, recall, rules, stores
from tests.cases.steps import fingerprint
from tests.conftest import Api
from tests.factories import StoreFactory, write_files

A = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
B = "project-01BX5ZZKBKACTAV9WEVGEMMVRZ"
C = "project-01D3X3Z0D2YHBQZPZQ0D2YHBQZ"
DAY = "journal/2026-10-25.md"
OURS = "<!-- 2026-10-25T10:00:00Z claude_code:s-1 -->\nOurs.\n"
THEIRS = "<!-- 2026-10-25T09:00:00Z codex:s-2 -->\nTheirs.\n"


@pytest.fixture
def both() -> tuple[dict[str, str], dict[str, str]]:
    """Two stores that differ in every lane, and the hashes of their files."""
    StoreFactory(name=A, files={
        "knowledge/t.md": "okapi ours\n", "knowledge/inbox/new.md": "okapi new\n", "knowledge/same.md": "equal\n",
        "handoff/main.md": "ours\n", "rules/rules.md": "- ours\n- both\n", "rules/more.md": "- only ours\n",
        DAY: f"# 2026-10-25\n\n{OURS}", "journal/2026-10-26.md": "# 2026-10-26\n\nBy hand.\n",
        "superseded/x.md": "ours\n", "superseded/index.jsonl": '{"file": "x.md", "path": "x.md", "why": "a"}\n',
        "consolidation-log.md": "- ours\n", "notes.txt": "ours\n",
    })  # fmt: skip
    StoreFactory(name=B, files={
        "knowledge/t.md": "okapi theirs\n", "knowledge/same.md": "equal\n", "handoff/main.md": "theirs\n",
        "rules/rules.md": "# Theirs\n\n- both\n", DAY: f"# 2026-10-25\n\n{THEIRS}",
        "superseded/x.md": "theirs\n", "superseded/index.jsonl": '{"file": "x.md", "path": "x.md", "why": "b"}\n',
        "consolidation-log.md": "- theirs\n",
    })  # fmt: skip
    stores.set_label(stores.get(A), "Ours")
    return fingerprint(paths.store(A)), fingerprint(paths.store(B))


Both = tuple[dict[str, str], dict[str, str]]


def file_of(name: str) -> store_file.StoreFile:
    return store_file.read(paths.store(name), name, name.removeprefix("project-"))


def test_without_a_change_in_between_both_stores_are_as_they_were(both: Both) -> None:
    merge.merge(A, B)
    assert file_of(B).label == "Ours"
    undone = merge_undo.undo(A)
    assert (fingerprint(paths.store(A)), fingerprint(paths.store(B))) == both
    assert undone.kept == []
    assert undone.since == []
    assert file_of(B).merged_identities == ()
    assert [row.event for row in AuditEntry.objects.filter(ref=A).order_by("id")] == [merge.EVENT, merge_undo.EVENT]
    assert {hit.id for hit in recall.recall([stores.get(A)], "okapi", top_k=20)} == {"t", "new"}
    assert [hit.id for hit in recall.recall([stores.get(B)], "okapi", top_k=20)] == ["t"]
    assert list(paths.retired().iterdir()) == []


def test_a_preview_tells_the_same_and_changes_nothing(both: Both, home: Path) -> None:
    merge.merge(A, B)
    before = fingerprint(home / "memory")
    told = merge_undo.preview(A)
    assert fingerprint(home / "memory") == before
    assert merge_undo.undo(A) == told


def test_it_can_be_merged_and_undone_again_and_again(both: Both) -> None:
    for _ in range(3):
        merge.merge(A, B)
        merge_undo.undo(A)
    assert (fingerprint(paths.store(A)), fingerprint(paths.store(B))) == both


def test_what_was_changed_since_stays_and_is_told(both: Both) -> None:
    merge.merge(A, B)
    target = stores.get(B)
    facts.edit(target, "new", text="okapi corrected")
    facts.delete(target, "t-2")
    (paths.store(B) / "notes.txt").write_text("ours, and a line by hand\n")
    written = facts.add(target, "Written since.")
    undone = merge_undo.undo(A)
    assert dict(undone.kept) == {
        "knowledge/inbox/new.md": "it was changed since the merge",
        "notes.txt": "it was changed since the merge",
    }
    assert written.path.relative_to(paths.store(B)).as_posix() in undone.since
    assert facts.get(stores.get(B), "new").text == "okapi corrected"
    assert facts.get(stores.get(A), "new").text == "okapi new"
    assert facts.get(stores.get(A), "t").text == "okapi ours"
    assert facts.get(stores.get(B), written.id).text == "Written since."
    assert fingerprint(paths.store(A)) == both[0]


def test_entries_and_rules_that_came_since_stay_in_the_joined_files(both: Both) -> None:
    from datetime import UTC, datetime

    merge.merge(A, B)
    target = stores.get(B)
    for day in (25, 26):
        moment = datetime(2026, 10, day, 12, tzinfo=UTC)
        journal.append(target, f"Since, on {day}.", agent="codex", at=moment)
    rules.append(target, "Since.")
    undone = merge_undo.undo(A)
    assert undone.kept == []
    texts = [one.text for one in journal.recent(stores.get(B), 9)]
    assert texts == ["Since, on 26.", "Since, on 25.", "Theirs."]
    assert [rule.text for rule in rules.listing(stores.get(B))] == ["both", "Since."]
    assert (paths.store(B) / "rules" / "rules.md").read_text().startswith("# Theirs\n")
    assert "By hand." not in (paths.store(B) / "journal" / "2026-10-26.md").read_text()
    assert fingerprint(paths.store(A)) == both[0]


def test_label_and_aliases_that_a_person_gave_since_stay(both: Both) -> None:
    merge.merge(A, B)
    stores.set_label(stores.get(B), "Given since")
    merge_undo.undo(A)
    assert (file_of(A).label, file_of(B).label, file_of(B).merged_identities) == ("Ours", "Given since", ())


def test_roots_and_checkouts_go_back(make_repo: Callable[..., Path]) -> None:
    here, there = (make_repo(name, remote=f"https://git.example.org/acme/{name}.git") for name in ("here", "there"))
    one, two = (stores.for_writing(stores.locate(str(repo)), "project").name for repo in (here, there))
    later.flush()
    merge.merge(one, two)
    assert stores.locate(str(here)).project.store == two  # type: ignore[union-attr]
    merge_undo.undo(one)
    assert stores.locate(str(here)).project.store == one  # type: ignore[union-attr]
    later.flush()
    roots = dict(Store.objects.values_list("name", "project_root"))
    assert roots == {one: str(here), two: str(there)}


def test_roots_of_a_chain_go_back_to_the_store_they_belong_to(make_repo: Callable[..., Path]) -> None:
    names = ["one", "two", "three"]
    repos = [make_repo(name) for name in names]
    one, two, three = (stores.for_writing(stores.locate(str(repo)), "project").name for repo in repos)
    later.flush()
    merge.merge(one, two)
    merge.merge(two, three)
    stores.locate(str(repos[0]))  # where the last survivor was seen since
    later.flush()
    for name in (two, one):
        merge_undo.undo(name)
    later.flush()
    assert [stores.display_name(stores.get(name)) for name in (one, two, three)] == names


def test_a_merge_that_was_cut_off_can_be_taken_back(both: Both) -> None:
    record = merge._begun(A, B)
    merge._carry_batch(record, paths.store(B), B, sorted(both[0])[:6])
    assert fingerprint(paths.store(B)) != both[1]
    merge_undo.undo(A)
    assert (fingerprint(paths.store(A)), fingerprint(paths.store(B))) == both


def test_without_a_merge_there_is_nothing_to_undo(api: Api) -> None:
    StoreFactory(name=A, files={})
    with pytest.raises(NotFound):
        merge_undo.undo(A)
    for name, status in ((A, 404), ("global", 404), ("../x", 404)):
        assert api.post("/memory_stores/merge/undo", {"source": name}).status_code == status


def test_a_source_that_began_anew_is_not_overwritten(both: Both) -> None:
    merge.merge(A, B)
    write_files(paths.store(A), {"knowledge/anew.md": "x\n"})
    with pytest.raises(Conflict, match="began anew"):
        merge_undo.undo(A)
    assert (paths.store(A) / "knowledge" / "anew.md").exists()


def test_of_a_chain_the_last_merge_is_taken_back_first(both: Both) -> None:
    StoreFactory(name=C, files={"knowledge/c.md": "c\n"})
    merge.merge(A, B)
    merge.merge(B, C)
    with pytest.raises(Conflict, match=C):
        merge_undo.undo(A)
    merge_undo.undo(B)
    merge_undo.undo(A)
    assert (fingerprint(paths.store(A)), fingerprint(paths.store(B))) == both
    assert file_of(C).merged_identities == ()


def test_during_a_pass_it_is_refused(both: Both) -> None:
    merge.merge(A, B)
    with fs.locked(f"{B}.pass.lock"), pytest.raises(Conflict):
        merge_undo.undo(A)
    with pytest.raises(StoreNotFound):
        stores.get(A)


def test_over_rest(both: Both, api: Api) -> None:
    api.post("/memory_stores/merge", {"source": A, "target": B})
    dry = api.post("/memory_stores/merge/undo", {"source": A, "dry_run": True}).json()
    done = api.post("/memory_stores/merge/undo", {"source": A}).json()
    assert {**dry, "dry_run": False} == done
    assert "knowledge/t-2.md" in done["removed"]
    assert DAY in done["parted"]
    assert (fingerprint(paths.store(A)), fingerprint(paths.store(B))) == both
