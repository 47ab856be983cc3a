"""Undoing a reorganization: topics and rules as they were where nobody changed them since, and no line is lost."""

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from coffer import fs, paths
from coffer.errors import Busy, MemoryNotFound
from coffer.models import AuditEntry
from memory.models import Pass, Store
from memory.services import archive, facts, organize, recall, reorg, rules, stores, undo
from tests.conftest import Api
from tests.fake_llm import FakeLlm, tools
from tests.memory import test_reorg_rules
from tests.memory.librarian import sensible
from tests.memory.test_organize_surfaces import pages, run
from tests.memory.test_reorg import (
    BOTH,
    NIGHT,
    PORT,
    PROJECT,
    folder,
    journal,
    log,
    read,
    retire,
    slugs,
    store,
    topic,
    two_topics,
    write,
)
from tests.memory.test_reorg_hostile import RULE, Wanderer, made, nothing_is_lost
from tests.nursery import Nursery
from tests.rounds import rounds

__all__ = ["pages", "store"]


def merged(store: Store, llm: FakeLlm) -> tuple[dict[str, bytes], reorg.Reorganized]:
    """Two topics before, and the pass that made one of them."""
    before = two_topics()
    llm.answer(read("staging", "staging-env"), write("staging", f"{BOTH}\n\nowner: night owl"), retire("staging-env"))
    llm.answer("Done.")
    done = reorg.reorganize(store)
    assert (done.written, done.superseded) == (1, 1)
    return before, done


def parted(store: Store, llm: FakeLlm) -> str:
    """A topic of which a part went into one of its own."""
    topic("mixed", f"# Mixed\n\n{PORT}\n\nThe walrus sleeps.")
    llm.answer(read("mixed"), write("walrus", "# Walrus\n\nThe walrus sleeps.", title="Walrus"))
    llm.answer(write("mixed", f"# Mixed\n\n{PORT}"), "Done.")
    return reorg.reorganize(store).run or ""


def topics_now() -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in (folder() / "knowledge").glob("*.md") if path.name != "INDEX.md"}


def test_topics_are_as_they_were_and_what_the_pass_wrote_is_archived(store: Store, fake_llm: FakeLlm) -> None:
    before, done = merged(store, fake_llm)
    after = topics_now()["staging"]
    undone = undo.undo(store, done.run or "")
    assert undone == undo.Undone(topics=2)
    assert topics_now() == before
    assert after in [(folder() / "superseded" / line.file).read_bytes() for line in archive.listing(folder())]
    assert "staging-env" in (folder() / "knowledge" / "INDEX.md").read_text()
    assert [hit.id for hit in recall.recall([store], "sleeps at night")] == ["staging-env"]
    assert Pass.objects.get(run=done.run).undone
    assert AuditEntry.objects.get(event="memory_reorg_undone").counts == vars(undone)
    assert "undone: 2 topics are as they were before." in log()
    with pytest.raises(MemoryNotFound):
        undo.undo(store, done.run or "")


def test_a_topic_that_was_made_goes_into_the_archive(store: Store, fake_llm: FakeLlm) -> None:
    run_id = parted(store, fake_llm)
    assert slugs() == {"mixed", "walrus"}
    assert undo.undo(store, run_id) == undo.Undone(topics=2)
    assert slugs() == {"mixed"}
    assert "knowledge/walrus.md" in [line.path for line in archive.listing(folder())]


def test_a_topic_written_many_times_counts_once(store: Store, fake_llm: FakeLlm) -> None:
    before = {"staging": topic("staging", f"# Staging\n\n{PORT}")}
    titles = ["Ports", "More ports", "All ports"]
    text = f"# Staging\n\n{PORT}"
    fake_llm.answer(read("staging"), *(write("staging", text := f"# {title}\n\n{text}") for title in titles), "Done.")
    done = reorg.reorganize(store)
    assert done.written == 3
    assert undo.undo(store, done.run or "") == undo.Undone(topics=1)
    assert topics_now() == before


def test_what_somebody_changed_since_stays_and_the_others_come_back(store: Store, fake_llm: FakeLlm) -> None:
    before, done = merged(store, fake_llm)
    path = folder() / "knowledge" / "staging.md"
    path.write_text(path.read_text() + "\nBy hand.\n")
    assert undo.undo(store, done.run or "") == undo.Undone(topics=1, kept=1)
    assert "By hand." in path.read_text()
    assert topics_now()["staging-env"] == before["staging-env"]


def test_a_topic_that_somebody_made_in_the_place_of_a_retired_one_stays_and_no_line_is_lost(
    store: Store, fake_llm: FakeLlm
) -> None:
    _, done = merged(store, fake_llm)
    topic("staging-env", "Somebody's own.")
    undone = undo.undo(store, done.run or "")
    assert undone == undo.Undone(kept=2)
    assert NIGHT in topics_now()["staging"].decode()
    assert undone.sentence == "2 things stay as they are, because they changed since."


def test_a_topic_that_alone_holds_lines_from_before_stays(store: Store, fake_llm: FakeLlm) -> None:
    run_id = parted(store, fake_llm)
    path = folder() / "knowledge" / "mixed.md"
    path.write_text(path.read_text() + "\nBy hand.\n")
    assert undo.undo(store, run_id) == undo.Undone(kept=2)
    assert slugs() == {"mixed", "walrus"}


def test_what_rests_on_the_journal_is_taken_back(store: Store, fake_llm: FakeLlm) -> None:
    markers = journal(*[f"{RULE} The walrus cache was stale, number {number}." for number in range(3)])
    text = "# Walrus\n\nThe walrus cache is stale before a deploy."
    fake_llm.answer(
        tools(("read_journal", {})),
        write("walrus", text, title="Walrus", entries=markers),
        tools(("append_rule", {"text": RULE, "entries": markers})),
        "Done.",
    )
    done = reorg.reorganize(store)
    assert done.promoted == 2
    rules.append(store, "A rule of a person.", actor="user")
    assert undo.undo(store, done.run or "") == undo.Undone(topics=1, rules=1)
    assert (slugs(), [rule.text for rule in rules.listing(store)]) == (set(), ["A rule of a person."])


def test_a_promoted_rule_that_a_person_kept_stays(store: Store, fake_llm: FakeLlm) -> None:
    markers = journal(*[f"{RULE} Number {number}." for number in range(3)])
    fake_llm.answer(tools(("append_rule", {"text": RULE, "entries": markers})), "Done.")
    done = reorg.reorganize(store)
    rules.keep(store, rules.listing(store)[0].id)
    assert undo.undo(store, done.run or "") == undo.Undone(kept=1)
    assert [rule.text for rule in rules.listing(store)] == [RULE]


def test_a_rule_that_was_there_already_is_none_of_the_pass(store: Store, fake_llm: FakeLlm) -> None:
    markers = journal(*[f"{RULE} Number {number}." for number in range(3)])
    topic("ports", PORT)
    rules.append(store, RULE, origin="journal/2026-10-01", new=True)
    fake_llm.answer(tools(("append_rule", {"text": RULE, "entries": markers})), read("ports"))
    fake_llm.answer(write("ports", f"# Ports\n\n{PORT}"), "Done.")
    assert undo.undo(store, reorg.reorganize(store).run or "") == undo.Undone(topics=1)
    assert [rule.text for rule in rules.listing(store)] == [RULE]


@pytest.fixture
def everybody() -> Store:
    return stores.provision("global")


def rules_md() -> bytes:
    return (paths.store("global") / "rules" / "rules.md").read_bytes()


def test_rules_that_were_sorted_go_back_into_their_file(everybody: Store, fake_llm: FakeLlm) -> None:
    test_reorg_rules.fill(101)
    before = rules_md()
    fake_llm.answer(test_reorg_rules.by_parity)
    done = reorg.reorganize(everybody)
    assert undo.undo(everybody, done.run or "") == undo.Undone(rules=100)
    assert rules_md() == before
    assert test_reorg_rules.sizes() == {"rules": 101}


def test_a_sorted_rule_that_was_changed_since_stays_where_it_is(everybody: Store, fake_llm: FakeLlm) -> None:
    test_reorg_rules.fill(101)
    before = test_reorg_rules.blocks()
    fake_llm.answer(test_reorg_rules.by_parity)
    done = reorg.reorganize(everybody)
    git = paths.store("global") / "rules" / "git.md"
    git.write_text(git.read_text().replace("Rule 1 about git", "Rule 1 about Git"))
    rules.append(everybody, "A rule of a person.", actor="user")
    assert undo.undo(everybody, done.run or "") == undo.Undone(rules=99, kept=1)
    assert test_reorg_rules.sizes() == {"git": 1, "rules": 101}
    assert "- Rule 1 about Git." in git.read_text()
    assert (before - test_reorg_rules.blocks()).total() == 1


def test_rules_sorted_by_an_organize_pass_go_back_with_its_notes(everybody: Store, fake_llm: FakeLlm) -> None:
    test_reorg_rules.fill(101)
    before = rules_md()
    facts.remember(everybody, PORT, actor="user")
    fake_llm.answer(sensible(lambda _: "staging"), test_reorg_rules.by_parity)
    done = organize.organize(everybody)
    assert undo.undo(everybody, done.run or "") == undo.Undone(notes=1, rules=100)
    assert rules_md() == before


def test_while_a_pass_is_at_work_none_is_undone(store: Store, fake_llm: FakeLlm) -> None:
    _, done = merged(store, fake_llm)
    with fs.locked(f"{PROJECT}.pass.lock"), pytest.raises(Busy, match="Another pass"):
        undo.undo(store, done.run or "")


def test_an_erased_version_does_not_come_back(store: Store, fake_llm: FakeLlm) -> None:
    _, done = merged(store, fake_llm)
    (line,) = [line for line in archive.listing(folder()) if line.path == "knowledge/staging-env.md"]
    (folder() / "superseded" / line.file).unlink()
    undone = undo.undo(store, done.run or "")
    assert (undone.topics, undone.kept) == (1, 1)
    assert slugs() == {"staging"}


def test_rest_undoes_a_pass_of_either_kind(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    before, done = merged(store, fake_llm)
    told = api.post(f"/memory_stores/{PROJECT}/passes/{done.run}/undo", X_Coffer_Actor="agent")
    assert (told.status_code, told.json()) == (200, {"notes": 0, "topics": 2, "rules": 0, "kept": 0})
    assert AuditEntry.objects.get(event="memory_reorg_undone").actor == "agent"
    facts.remember(store, "A walrus.", actor="user")
    fake_llm.answer(sensible(lambda _: "walrus"))
    filed = api.post(f"/memory_stores/{PROJECT}/organize").json()
    told = api.post(f"/memory_stores/{PROJECT}/passes/{filed['run']}/undo")
    assert told.json() == {"notes": 1, "topics": 0, "rules": 0, "kept": 0}
    for path in (f"{PROJECT}/passes/{filed['run']}", f"{PROJECT}/passes/nothing", f"global/passes/{done.run}"):
        assert api.post(f"/memory_stores/{path}/undo").status_code == 404
    assert topics_now() == before


def test_the_command_line_undoes_the_last_reorganization(store: Store, fake_llm: FakeLlm) -> None:
    with pytest.raises(MemoryNotFound):
        run("memory", "reorg", PROJECT, "--undo")
    merged(store, fake_llm)
    assert run("memory", "reorg", PROJECT, "--undo").endswith(": 2 topics are as they were before.\n")
    _, done = merged(store, fake_llm)
    told = json.loads(run("memory", "reorg", PROJECT, "--undo", "--json"))
    assert told == {"run": done.run, "notes": 0, "topics": 2, "rules": 0, "kept": 0}


def test_the_stores_page_and_the_admin_offer_it(store: Store, fake_llm: FakeLlm, pages: Client) -> None:
    _, done = merged(store, fake_llm)
    assert "Undo the last reorganization" in pages.get(f"/stores/{PROJECT}").content.decode()
    assert pages.post(f"/stores/{PROJECT}/passes/{done.run}/undo").status_code == 302
    html = pages.get(f"/stores/{PROJECT}").content.decode()
    assert "2 topics are as they were before." in html
    assert "taken back since" in html
    assert "Undo the last reorganization" not in html
    merged(store, fake_llm)
    url = "/admin/memory/store/act/undo/"
    assert "Take the last pass" in pages.get(f"{url}?key={PROJECT}").content.decode()
    pages.post(url, {"keys": json.dumps([PROJECT])})
    assert slugs() == {"staging", "staging-env"}


class Undisturbed(Wanderer):
    """The same while nobody else writes."""

    def _person(self, slug: str) -> None:
        pass


def wander(store: Store, llm: FakeLlm, chance: random.Random, *, edits: bool) -> tuple[Any, dict[str, bytes], str]:
    """A pass of a model that calls anything; with ``edits`` a person changes topics during it and after it."""
    markers, before = made(chance)
    wanderer = Wanderer(chance, markers) if edits else Undisturbed(chance, markers)
    llm.always(wanderer)
    done = reorg.reorganize(store)
    if edits:
        for slug in chance.sample(sorted(slugs()), k=min(2, len(slugs()))):
            wanderer._person(slug)
    return wanderer, before, done.run or ""


def undone_if_anything(store: Store, run_id: str) -> undo.Undone:
    try:
        return undo.undo(store, run_id)
    except MemoryNotFound:
        return undo.Undone()


@pytest.mark.hold
@pytest.mark.parametrize("round_", range(rounds(100)))
def test_whatever_a_pass_did_undone_it_is_as_it_was(round_: int, store: Store, fake_llm: FakeLlm) -> None:
    _, before, run_id = wander(store, fake_llm, random.Random(round_), edits=False)
    assert undone_if_anything(store, run_id).kept == 0
    assert {str(path): path.read_bytes() for path in (folder() / "knowledge").glob("topic-*.md")} == {
        path: data for path, data in before.items() if "/knowledge/" in path
    }
    assert slugs() == {Path(path).stem for path in before if "/knowledge/" in path}
    assert rules.listing(store) == []


@pytest.mark.hold
@pytest.mark.parametrize("round_", range(rounds(100)))
def test_whatever_changed_since_no_line_is_lost_by_an_undo(round_: int, store: Store, fake_llm: FakeLlm) -> None:
    wanderer, before, run_id = wander(store, fake_llm, random.Random(round_), edits=True)
    undone_if_anything(store, run_id)
    nothing_is_lost(before, wanderer.lines)


@pytest.mark.hold
@pytest.mark.parametrize("round_", range(rounds(50)))
def test_an_undo_that_is_killed_loses_no_line_and_the_next_ends_it(
    round_: int, store: Store, fake_llm: FakeLlm, nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(round_)
    wanderer, before, run_id = wander(store, fake_llm, chance, edits=round_ % 2 == 1)
    process = nursery.start("take_back", PROJECT, run_id, folder=tmp_path)
    threading.Timer(chance.random() * 0.15, process.kill).start()
    error = process.communicate(timeout=60)[1]
    assert process.returncode in (0, -9), error
    undone_if_anything(store, run_id)
    nothing_is_lost(before, wanderer.lines)
    if round_ % 2 == 0:
        assert slugs() == {Path(path).stem for path in before if "/knowledge/" in path}


def test_nothing_of_a_store_stands_in_what_is_told_of_an_undo(
    store: Store, fake_llm: FakeLlm, caplog: pytest.LogCaptureFixture
) -> None:
    _, done = merged(store, fake_llm)
    undo.undo(store, done.run or "")
    told = [str(vars(row)) for model in (AuditEntry, Pass) for row in model.objects.all()]
    assert PORT not in "".join([*told, caplog.text, log()])


def test_a_pass_from_before_a_lost_database_can_still_be_undone(store: Store, fake_llm: FakeLlm) -> None:
    before, done = merged(store, fake_llm)
    Pass.objects.all().delete()
    assert undo.undo(store, done.run or "").topics == 2
    assert topics_now() == before


def test_topics_that_gave_each_other_lines_get_them_back(store: Store, fake_llm: FakeLlm) -> None:
    before = {"a": topic("a", "First.\n\nSecond."), "b": topic("b", "Third.\n\nFourth.")}
    fake_llm.answer(
        read("a", "b"),
        write("a", "First.\n\nSecond.\n\nThird."),
        write("b", "Fourth.\n\nSecond."),
        write("a", "First.\n\nThird."),
        "Done.",
    )
    done = reorg.reorganize(store)
    assert (done.written, done.refused) == (3, 0)
    assert undo.undo(store, done.run or "") == undo.Undone(topics=2)
    assert topics_now() == before
