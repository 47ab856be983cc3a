"""Facts: what is kept, what is refused, what a correction does, and races with other writers."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connections

from coffer import fs, later, paths
from coffer.errors import Conflict, Invalid, MemoryNotFound, Rejected, StorageFailed, TooLarge
from coffer.models import AuditEntry
from memory.files import markdown
from memory.models import Document, Store, Use
from memory.retrieval import Changes
from memory.services import counts, facts, recall, stores
from tests.factories import StoreFactory, write_files
from tests.rounds import rounds

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"


def store_with(files: dict[str, str | bytes], name: str = "global") -> Store:
    store: Store = StoreFactory(name=name, files=files)
    return store


def titles(store: Store) -> list[str]:
    return [row.title for row in facts.newest([store])[0]]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Deploys happen on Tuesdays. Never on Fridays.", "Deploys happen on Tuesdays."),
        ("# A heading\n\nand text", "A heading"),
        ("- a list item\n- another", "a list item"),
        ("word " * 60, "word " * 18 + "word…"),
        ("中文的第一句话。第二句。", "中文的第一句话。"),
        ("***", "***"),
    ],
)
def test_a_title_states_the_first_sentence(text: str, title: str) -> None:
    store = stores.provision("global")
    facts.remember(store, text, actor="agent")
    assert titles(store)[0][: len(title) - 1] == title[:-1]
    assert len(titles(store)[0]) <= 100


def test_a_title_that_was_given_is_one_line_and_stays() -> None:
    fact = facts.add(stores.provision("global"), "First. Second.", title="  Mine\n only ", description="a\tb")
    assert (fact.title, fact.description) == ("Mine only", "a b")
    changed = facts.edit(stores.get("global"), fact.id, text="Something else.")
    assert (changed.title, changed.description) == ("Mine only", "a b")


def test_a_title_taken_from_the_text_follows_it() -> None:
    fact = facts.add(stores.provision("global"), "Two approvals. And more.")
    changed = facts.edit(stores.get("global"), fact.id, text="One approval. And more.")
    assert changed.title == "One approval."
    assert titles(stores.get("global")) == ["One approval."]
    assert facts.edit(stores.get("global"), fact.id, title="").title == "One approval."


def test_a_file_without_frontmatter_keeps_its_name_as_title_after_an_edit() -> None:
    store = store_with({"knowledge/inbox/mine.md": "by hand\n"})
    assert facts.edit(store, "mine", text="by command").title == "mine"
    assert facts.get(store, "mine").text == "by command"


@pytest.mark.parametrize(("text", "reason"), [("", "empty"), (" \n\t\n", "empty"), ("x" * 8193, "too_long")])
def test_a_text_that_is_no_fact_leaves_nothing(text: str, reason: str) -> None:
    store = stores.provision("global")
    with pytest.raises(Rejected) as caught:
        facts.remember(store, text, actor="agent")
    assert caught.value.details == {"reason": reason, "characters": len(text) if reason == "too_long" else 0}
    assert not (paths.store("global") / "knowledge").exists()
    assert AuditEntry.objects.count() == 0


def test_the_limit_counts_characters_and_may_be_the_stores_own(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores.provision("global")
    facts.remember(store, "😀" * 8192, actor="agent")
    store = stores.configure(store, {"max_fact_chars": 3})
    facts.remember(store, "abc", actor="agent")
    with pytest.raises(Rejected, match="3 are allowed"):
        facts.remember(store, "abcd", actor="agent")
    monkeypatch.setenv("COFFER_MAX_FACT_CHARS", "2")
    facts.remember(store, "abc", actor="agent")
    with pytest.raises(Rejected, match="2 are allowed"):
        facts.remember(stores.configure(store, {"max_fact_chars": None}), "abc", actor="agent")


def test_an_edit_is_checked_against_the_version_that_was_read() -> None:
    store = stores.provision("global")
    fact = facts.add(store, "First.")
    fact.path.write_bytes(fact.path.read_bytes().replace(b"First.", b"Theirs."))
    with pytest.raises(Conflict) as caught:
        facts.edit(store, fact.id, text="Ours.", if_sha256=fact.sha256)
    current = facts.get(store, fact.id)
    assert (current.text, caught.value.details["sha256"]) == ("Theirs.", current.sha256)
    assert facts.edit(store, fact.id, text="Ours.", if_sha256=current.sha256).text == "Ours."
    assert facts.edit(store, fact.id, text="Mine.").text == "Mine."


def test_an_edit_that_is_refused_changes_nothing() -> None:
    store = stores.provision("global")
    fact = facts.add(store, "First.")
    for change in ({"text": ""}, {"text": "x" * 9000}):
        with pytest.raises(Rejected):
            facts.edit(store, fact.id, **change)  # type: ignore[arg-type]
    assert facts.get(store, fact.id) == fact
    assert not (paths.store("global") / "superseded").exists()


def test_an_edit_keeps_what_it_does_not_know() -> None:
    block = "---\nid: mine\ntitle: T\ntags: [a, b]\n# a comment\nodd:   'x'\n---\n\nbody\n"
    store = store_with({"knowledge/inbox/mine.md": block})
    facts.edit(store, "mine", text="new body", description="D")
    text = facts.get(store, "mine").path.read_text()
    for line in ("tags: [a, b]", "# a comment", "odd:   'x'", "title: T", "description: D"):
        assert line in text
    assert recall.recall([store], "tags")[0].id == "mine"


def test_topics_are_corrected_and_deleted_like_facts() -> None:
    store = store_with({"knowledge/ops/deploys.md": "# Deploys\n\ntext\n"})
    assert facts.get(store, "deploys").kind == "topic"
    assert facts.edit(store, "deploys", text="# Deploys\n\nother").path.name == "deploys.md"
    facts.delete(store, "deploys")
    assert facts.newest([store]) == ([], 0)
    assert len(list((paths.store("global") / "superseded").glob("deploys-*.md"))) == 2


def test_what_is_not_there_is_not_found() -> None:
    store = store_with({"journal/2026-10-01.md": "# 2026-10-01\n"}, PROJECT)
    for identity in ("unknown", "", "journal/2026-10-01", "2026-10-01", "x" * 10_000):
        with pytest.raises(MemoryNotFound) as caught:
            facts.get(store, identity)
        assert len(caught.value.message) < 300
        with pytest.raises(MemoryNotFound):
            facts.edit(store, identity, text="x")
        with pytest.raises(MemoryNotFound):
            facts.delete(store, identity)


def test_a_fact_deleted_by_hand_is_gone_at_once() -> None:
    store = stores.provision("global")
    fact = facts.add(store, "First.")
    fact.path.unlink()
    with pytest.raises(MemoryNotFound):
        facts.get(store, fact.id)
    assert facts.page(store) == ([], 0)


def test_clear_takes_files_that_were_never_indexed_and_leaves_the_rest() -> None:
    kept = {"journal/2026-10-01.md": "# 2026-10-01\n", "rules/rules.md": "- a\n", "handoff/main.md": "x\n",
            "notes.txt": "mine\n", "knowledge/picture.png": b"\x89PNG"}  # fmt: skip
    store = store_with(
        {**kept, "knowledge/inbox/a.md": "a\n", "knowledge/b.md": "b\n", "knowledge/INDEX.md": "i\n"}, PROJECT
    )
    assert facts.clear(store) == 2
    assert counts.fact_count(store) == 0
    assert all((paths.store(PROJECT) / name).exists() for name in kept)
    assert len(list((paths.store(PROJECT) / "superseded").glob("*.md"))) == 2
    assert facts.clear(store) == 0


def test_pages_are_newest_first_and_complete() -> None:
    store = stores.provision("global")
    for day in range(1, 8):
        write_files(
            paths.store("global"),
            {f"knowledge/inbox/d{day}.md": f"---\nupdated_at: 2026-10-0{day}T00:00:00Z\n---\n\nday {day}\n"},
        )
    found = [[fact.id for fact in facts.page(store, limit=3, offset=offset)[0]] for offset in (0, 3, 6, 9)]
    assert found == [["d7", "d6", "d5"], ["d4", "d3", "d2"], ["d1"], []]
    assert facts.page(store, limit=1)[1] == 7
    assert [row.id for row in facts.newest([store], limit=2)[0]] == ["d7", "d6"]


def test_a_file_too_large_to_show_is_listed_and_can_be_deleted() -> None:
    store = store_with({"knowledge/big.md": "x" * 5_000_000})
    (fact,), total = facts.page(store)
    assert (fact.text, total, "larger" in fact.problem, len(fact.sha256)) == ("", 1, True, 64)
    with pytest.raises(TooLarge):
        facts.get(store, "big")
    facts.delete(store, "big")
    assert counts.fact_count(store) == 0


@pytest.mark.parametrize("in_the_way", ["knowledge", "knowledge/inbox"])
def test_a_file_where_a_folder_belongs_is_a_clear_error(in_the_way: str) -> None:
    store = store_with({in_the_way: "a file\n"})
    with pytest.raises(StorageFailed, match="in the way"):
        facts.remember(store, "x", actor="agent")


def test_names_of_facts_with_one_title_never_collide() -> None:
    store = stores.provision("global")
    saved = [facts.remember(store, "The same sentence.", actor="agent") for _ in range(5)]
    assert len({one.path for one in saved}) == len({one.id for one in saved}) == 5


def test_a_title_cannot_be_set_where_the_block_cannot_be_read() -> None:
    store = store_with({"knowledge/inbox/bad.md": "---\ntitle: a: b: c\n\tx\n---\n\nbody\n"})
    with pytest.raises(Invalid, match="not valid YAML"):
        facts.edit(store, "bad", title="x")
    assert facts.edit(store, "bad", text="new").text == "new"


def test_use_counts_outlive_a_reindex_and_go_with_the_fact() -> None:
    store = stores.provision("global")
    fact = facts.add(store, "The okapi.")
    for _ in range(3):
        recall.recall([store], "okapi")
    later.flush()
    stores.reindex()
    assert Use.objects.get(ref=fact.id).recalled == 3
    facts.delete(store, fact.id, forever=True)
    assert not Use.objects.filter(ref=fact.id).exists()


def test_every_change_leaves_one_audit_row_without_content() -> None:
    store = stores.provision("global")
    fact = facts.add(store, "The okapi.", actor="agent")
    facts.edit(store, fact.id, text="The zebra.")
    facts.delete(store, fact.id)
    facts.add(store, "More.")
    facts.clear(store)
    rows = list(AuditEntry.objects.order_by("id").values_list("event", "actor"))
    assert rows == [
        ("fact_added", "agent"),
        ("fact_edited", "user"),
        ("fact_deleted", "user"),
        ("fact_added", "user"),
        ("store_cleared", "user"),
    ]
    assert "okapi" not in repr(list(AuditEntry.objects.values()))


def test_a_fact_saved_while_its_store_is_removed_begins_it_anew() -> None:
    held = stores.provision(PROJECT)
    facts.remember(held, "Before.", actor="agent")
    stores.retire(stores.get(PROJECT))
    saved = facts.remember(held, "After.", actor="agent")
    assert saved.path.exists()
    assert [row.title for row in facts.newest([stores.get(PROJECT)])[0]] == ["After."]
    assert Document.objects.count() == 1


def test_remembering_and_removing_at_the_same_time_loses_no_confirmed_fact() -> None:
    stores.provision(PROJECT)
    stop = threading.Event()
    confirmed: list[str] = []

    def write() -> None:
        while not stop.is_set():
            confirmed.append(facts.remember(stores.provision(PROJECT), f"Fact {len(confirmed)}.", actor="agent").id)
        connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        retired = 0
        try:
            while retired < 10:
                if stores.folder(stores.provision(PROJECT)).is_dir() and confirmed:
                    stores.retire(stores.get(PROJECT))
                    retired += 1
        finally:
            stop.set()
        writing.result(timeout=20)
    files = [path for root in (paths.retired(), paths.projects()) for path in root.rglob("inbox/*.md")]
    assert {markdown.parse(path.read_bytes()).meta["id"] for path in files} == set(confirmed)
    assert facts.newest([stores.provision(PROJECT)])[1] == len(list(paths.store(PROJECT).rglob("inbox/*.md")))


def test_what_an_editor_saves_while_we_write_is_there_or_in_the_archive() -> None:
    """A person's editor takes no lock of ours; whichever of us is last, no version goes without a copy."""
    store = stores.provision("global")
    fact = facts.add(store, "Start.")
    chance = random.Random(11)
    ours = 0
    with ThreadPoolExecutor(1) as pool:
        for number in range(rounds(200) * 4):
            data = f"---\nid: {fact.id}\n---\n\nTheirs {number}.\n".encode()
            saving = pool.submit(_save, fact.path, data, chance.randrange(60_000))
            try:
                facts.edit(store, fact.id, text=f"Ours {number}.")
                ours += 1
            except (Conflict, MemoryNotFound):
                pass
            saving.result(timeout=20)
            archive = [path.read_bytes() for path in (paths.store("global") / "superseded").glob("*.md")]
            assert data in [fact.path.read_bytes(), *archive]
    assert ours > 0


def test_a_fact_that_is_being_replaced_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the old version and the new one there is no file; a slow disk makes that last."""
    store = stores.provision("global")
    fact = facts.add(store, "Start.")
    replacing, missed = threading.Event(), threading.Event()
    create, undisturbed = fs.create, stores.refresh_undisturbed

    def slow_create(path: Path, data: bytes) -> None:
        replacing.set()
        assert missed.wait(20)
        create(path, data)

    def second_look(store: Store) -> Changes:
        missed.set()
        return undisturbed(store)

    def edit() -> None:
        facts.edit(stores.get("global"), fact.id, text="End.")
        connections.close_all()

    monkeypatch.setattr(fs, "create", slow_create)
    monkeypatch.setattr(stores, "refresh_undisturbed", second_look)
    with ThreadPoolExecutor(1) as pool:
        editing = pool.submit(edit)
        assert replacing.wait(20)
        assert facts.get(store, fact.id).text == "End."
        editing.result(timeout=20)


def _save(path: Path, data: bytes, moment: int) -> None:
    temporary = path.with_name(".theirs")
    temporary.write_bytes(data)
    for _ in range(moment):  # no wait for anything: the moment is what is random
        pass
    temporary.replace(path)
