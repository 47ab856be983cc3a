"""Organizing as programs and people see it: REST, command line, page, admin; and taking a pass back."""

import io
import json
import re
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django_q.models import OrmQ

from coffer import fs, paths, signin
from coffer.errors import Busy, MemoryNotFound
from coffer.models import AuditEntry
from memory.management.progress import Bar
from memory.models import Pass, Store
from memory.services import facts, inbox, organize, rules, stores, undo
from memory.services import passes as passes_service
from tests.conftest import Api
from tests.factories import write_files
from tests.fake_llm import FakeLlm, fail
from tests.memory.librarian import answer, sensible
from tests.processes import Machine

NO_JSON = "the model's answer cannot be used: it holds no JSON object"

PORT, SLEEPS, RULE = "Staging runs on port 8443.", "Staging sleeps at night.", "Always run the verify step."
TOPIC = "# Staging\n\nAsk Ann.\n"
SHAPE = {
    "status", "topics_created", "topics_merged", "rules_appended", "appended", "drained", "skipped", "left_alone",
    "waiting", "model", "stopped", "run", "problems",
}  # fmt: skip


@pytest.fixture
def store() -> Store:
    return stores.provision("global")


def folder() -> Path:
    return paths.store("global")


def notes() -> set[str]:
    return {path.read_text().split("\n\n")[-1].strip() for path in (folder() / "knowledge" / "inbox").glob("*.md")}


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def filed(store: Store, llm: FakeLlm) -> organize.Result:
    """A pass that made a topic, merged into one twice, and made a rule."""
    write_files(folder(), {"knowledge/staging.md": TOPIC})
    for text in (PORT, SLEEPS, RULE, "A walrus."):
        facts.remember(store, text, actor="user")
    merge = sensible(lambda _: "staging")
    llm.answer(merge, merge, answer(RULE, "", is_rule=True), answer("A walrus.", "walrus"))
    result = organize.organize(store)
    assert (result.topics_merged, result.rules_appended, result.topics_created) == (2, 1, 1)
    return result


def failed(*words: str) -> str:
    """What a command says that ends with 1."""
    out = io.StringIO()
    with pytest.raises(SystemExit) as end:
        call_command(*words, stdout=out)
    assert end.value.code == 1
    return out.getvalue()


def test_rest_answers_with_the_documented_shape(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    empty = api.post("/memory_stores/global/organize").json()
    assert (set(empty), empty["status"], empty["model"]) == (SHAPE, "empty", "test-model")
    note = facts.remember(store, PORT, actor="agent")
    fake_llm.answer("no JSON", answer(PORT, "staging"))
    told = api.post("/memory_stores/global/organize").json()
    assert set(told) == SHAPE
    assert (told["skipped"], told["problems"]) == (
        1,
        [{"id": note.id, "reason": NO_JSON}],
    )
    done = api.post("/memory_stores/global/organize", X_Coffer_Actor="agent").json()
    assert (done["status"], done["drained"], done["waiting"]) == ("organized", 1, 0)
    assert AuditEntry.objects.filter(event="memory_organized").latest("id").actor == "agent"


def test_rest_queues_when_nobody_wants_to_wait(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    told = api.post("/memory_stores/global/organize?wait=false")
    assert (told.status_code, told.json()) == (202, {"status": "queued"})
    assert OrmQ.objects.count() == 1
    assert fake_llm.requests == []


def test_rest_knows_no_store_that_is_not_there(api: Api) -> None:
    for name in ("project-01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"):
        for query in ("", "?wait=false"):
            assert api.post(f"/memory_stores/{name}/organize{query}").status_code == 404
    assert not paths.memory().exists()


def test_the_command_line_tells_what_was_done(store: Store, fake_llm: FakeLlm) -> None:
    assert run("organize", "global") == "global: nothing waits in the inbox.\n"
    note = facts.remember(store, PORT, actor="agent")
    facts.remember(store, SLEEPS, actor="agent")
    fake_llm.answer("no", answer(SLEEPS, "staging"))
    told = run("memory", "organize", "global")
    assert told == f"global: 1 organized (1 new topic), 1 in the inbox.\n  {note.id} stays: {NO_JSON}\n"
    fake_llm.answer(fail(401))
    with pytest.raises(SystemExit):
        run("organize", "global")
    fake_llm.answer("still no JSON")
    assert failed("organize", "global") == (
        f"global: nothing could be organized, 1 in the inbox.\n  {note.id} stays: {NO_JSON}\n"
    )
    fake_llm.answer(answer(PORT, "ports"))
    assert json.loads(run("organize", "global", "--json"))["drained"] == 1


def test_one_store_of_which_nothing_could_be_organized_fails_the_command_for_all(
    store: Store, fake_llm: FakeLlm
) -> None:
    project = stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for one in (store, project):
        facts.remember(one, PORT, actor="agent")
    fake_llm.answer("no", answer(PORT, "ports"))
    told = json.loads(failed("organize", "--all", "--json"))["stores"]
    assert [(row["drained"], row["skipped"]) for row in told] == [(0, 1), (1, 0)]


def test_the_address_of_the_endpoint_is_not_told_with_each_call(machine: Machine) -> None:
    with FakeLlm() as llm:
        llm.always(sensible(lambda _: "staging"))
        machine.env |= llm.environment
        machine.coffer("memory", "add", "global", PORT)
        done = machine.coffer("organize", "global")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_without_a_model_names_the_way_to_one(store: Store) -> None:
    facts.remember(store, PORT, actor="agent")
    assert "no model is connected" in run("organize", "global")
    assert json.loads(run("organize", "--all", "--json"))["status"] == "no_model"


def test_an_estimate_sends_nothing(store: Store, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")
    facts.remember(store, SLEEPS, actor="agent")
    told = run("organize", "global", "--estimate")
    assert re.search(r"global: 2 notes, one call each, about [\d,]+ tokens", told)
    assert "Left of today: 300 calls" in told
    assert fake_llm.requests == []
    assert json.loads(run("organize", "global", "--estimate", "--json"))["tokens_in"] > 500
    assert len(notes()) == 2


def test_all_stores_are_organized_one_after_the_other(
    store: Store, fake_llm: FakeLlm, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = stores.for_writing(stores.locate(str(repo)), "project")
    for one in (store, project):
        facts.remember(one, PORT, actor="agent")
    fake_llm.always(sensible(lambda _: "staging"))
    monkeypatch.chdir(repo)
    assert run("organize").startswith("widget: 1 organized") or run("organize").startswith("repo: ")
    assert [row["drained"] for row in json.loads(run("organize", "--all", "--json"))["stores"]] == [1, 0]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_the_note_at_hand_on_a_terminal_only() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        bar = Bar(stream)
        bar(0, 4, "A title\x1b[31m of " + "x" * 500)
        bar(2, 4, "Another")
        bar(4, 4, "")
    shown = terminal.getvalue()
    assert "[--------------------] 0/4 A title" in shown
    assert "[##########----------] 2/4 Another" in shown
    assert "\x1b[31m" not in shown
    assert max(len(part) for part in shown.split("\r")) < 100
    assert file.getvalue() == ""


def test_a_pass_is_undone_note_by_note(store: Store, fake_llm: FakeLlm) -> None:
    result = filed(store, fake_llm)
    done = undo.undo(store, result.run or "")
    assert (done.notes, done.kept) == (4, 0)
    assert notes() == {PORT, SLEEPS, RULE, "A walrus."}
    assert (folder() / "knowledge" / "staging.md").read_text() == TOPIC
    assert not (folder() / "knowledge" / "walrus.md").exists()
    assert rules.listing(store) == []
    assert "walrus" not in (folder() / "knowledge" / "INDEX.md").read_text()
    assert Pass.objects.get().undone
    assert AuditEntry.objects.filter(event="memory_organize_undone").count() == 1
    assert "undone: 4 notes" in (folder() / "consolidation-log.md").read_text()
    again = organize.organize(store)
    assert (again.left_alone, again.drained) == (4, 0)
    with pytest.raises(MemoryNotFound):
        undo.undo(store, result.run or "")


def test_what_changed_since_stays_when_a_pass_is_undone(store: Store, fake_llm: FakeLlm) -> None:
    result = filed(store, fake_llm)
    facts.edit(store, "staging", text=(folder() / "knowledge" / "staging.md").read_text() + "\nBy hand.")
    rules.keep(store, rules.listing(store)[0].id)
    done = undo.undo(store, result.run or "")
    assert (done.notes, done.kept) == (2, 2)
    assert notes() == {RULE, "A walrus."}
    assert "By hand." in (folder() / "knowledge" / "staging.md").read_text()
    assert [rule.text for rule in rules.listing(store)] == [RULE]


def test_the_last_note_of_a_chain_can_be_undone_alone(store: Store, fake_llm: FakeLlm) -> None:
    write_files(folder(), {"knowledge/staging.md": TOPIC})
    facts.remember(store, PORT, actor="user")
    fake_llm.answer(sensible(lambda _: "staging"))
    organize.organize(store)
    middle = (folder() / "knowledge" / "staging.md").read_text()
    facts.remember(store, SLEEPS, actor="user")
    fake_llm.answer(sensible(lambda _: "staging"))
    last = organize.organize(store)
    undo.undo(store, last.run or "")
    assert (folder() / "knowledge" / "staging.md").read_text() == middle
    assert notes() == {SLEEPS}


def test_while_a_pass_is_at_work_none_is_undone(store: Store, fake_llm: FakeLlm) -> None:
    result = filed(store, fake_llm)
    with fs.locked("global.pass.lock"), pytest.raises(Busy, match="Another pass"):
        undo.undo(store, result.run or "")


def test_the_command_line_undoes_the_last_pass(store: Store, fake_llm: FakeLlm) -> None:
    with pytest.raises(MemoryNotFound):
        run("organize", "global", "--undo")
    filed(store, fake_llm)
    facts.remember(store, "Another one.", actor="agent")
    fake_llm.answer("nothing")
    organize.organize(store)
    assert run("organize", "global", "--undo").startswith("global: 4 notes are back in the inbox")
    with pytest.raises(MemoryNotFound):
        run("organize", "global", "--undo")


def test_of_all_stores_those_are_undone_that_have_a_pass(store: Store, fake_llm: FakeLlm) -> None:
    other = stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    facts.remember(other, "A walrus.", actor="agent")
    fake_llm.answer(sensible(lambda _: "walrus"))
    organize.organize(other)
    told = run("organize", "--all", "--undo")
    assert "global: no pass that could be undone." in told
    assert "1 note is back in the inbox" in told
    assert not any(passes_service.INTERRUPTED in finding.message for finding in passes_service.findings())


@pytest.fixture
def pages() -> Client:
    """A browser without eyes, signed in."""
    client = Client()
    client.force_login(signin.owner())
    return client


def test_the_stores_page_tells_of_the_last_pass_and_offers_the_next(
    store: Store, fake_llm: FakeLlm, pages: Client
) -> None:
    assert "in the inbox" in pages.get("/stores/global").content.decode()
    filed(store, fake_llm)
    facts.remember(store, "Waiting.", actor="agent")
    html = pages.get("/stores/global").content.decode()
    for words in (
        "1 note waits",
        "4 filed",
        "2 merged",
        "1 made rules",
        "tokens of",
        "Organize now",
        "Undo the last pass",
    ):
        assert words in html
    answered = pages.post("/stores/global/organize")
    assert (answered.status_code, OrmQ.objects.count()) == (302, 1)
    run_id = Pass.objects.get().run
    assert pages.post(f"/stores/global/passes/{run_id}/undo").status_code == 302
    html = pages.get("/stores/global").content.decode()
    assert "4 notes are back in the inbox" in html
    assert "taken back since" in html
    assert "4 notes are left alone" in html
    assert "Undo the last pass" not in html
    assert pages.get("/stores/global/organize").status_code == 405


def test_without_a_model_and_a_pass_the_page_says_nothing_of_it(store: Store, pages: Client) -> None:
    facts.remember(store, PORT, actor="agent")
    assert "Organizing" not in pages.get("/stores/global").content.decode()


def test_the_admin_queues_a_pass_after_asking(store: Store, pages: Client) -> None:
    url = "/admin/memory/store/act/organize/"
    assert "Organize these stores?" in pages.get(f"{url}?key=global").content.decode()
    pages.post(url, {"keys": json.dumps(["global"])})
    assert OrmQ.objects.count() == 1


def test_rows_of_old_passes_are_pruned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes_service, "KEPT", 3)
    for _ in range(5):
        passes_service.finish(passes_service.begin(store, "organize", "user", "m"), "organized", {})
    passes_service.finish(passes_service.begin(store, "reorg", "user", "m"), "reorganized", {})
    assert Pass.objects.filter(kind="organize").count() == 3
    assert Pass.objects.filter(kind="reorg").count() == 1


def test_a_note_with_a_claimed_id_of_another_is_told_apart(store: Store, fake_llm: FakeLlm) -> None:
    first = facts.remember(store, RULE, actor="agent")
    copy = first.path.with_name("copy.md")
    copy.write_text(first.path.read_text().replace(RULE, "Never push on Fridays."))
    said = (RULE, "Never push on Fridays.")
    fake_llm.always(lambda request: answer(next(text for text in said if text in request.user), "", is_rule=True))
    assert organize.organize(store).rules_appended == 2
    assert {rule.text for rule in rules.listing(store)} == {RULE, "Never push on Fridays."}
    assert inbox.waiting(store) == []
