"""What an agent is given at the start of a session and beside its prompts, and what is written down of it."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.models import Agent, Delivery
from agents.services import context, given, registration
from coffer import db, later, paths
from coffer.errors import StoreNotFound, UnsupportedAgentType
from memory.models import Use
from memory.services import digest, facts, matches, rules, stores
from memory.services.digest import Digest


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test's sessions were given is not remembered."""
    monkeypatch.setattr(given, "_given", type(given._given)())


@pytest.fixture
def fact(repo: Path) -> str:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    return facts.remember(store, "The frobnicator gasket leaks in winter.", actor="agent").id


@pytest.fixture
def prompted(monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent for which context beside prompts is switched on; a loaded machine has the time that it needs."""
    monkeypatch.setattr(context, "PROMPT_SECONDS", 20)
    registration.add("claude_code")
    return registration.change("claude_code", prompt_context=True)


@contextmanager
def foreign_lock() -> Iterator[None]:
    """Another program holds the database's write lock."""
    other = sqlite3.connect(paths.database(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


def beside(repo: Path, prompt: str, session: str = "s-1") -> context.Context:
    return context.prompt_context("claude_code", prompt=prompt, cwd=str(repo), session=session)


def test_a_session_start_is_written_down_after_the_answer(repo: Path, fact: str) -> None:
    given_now = context.session_context("codex", cwd=str(repo), session="s-1")
    assert "frobnicator" in given_now.text
    assert later.flush()
    row = Delivery.objects.get()
    assert (row.agent, row.event, row.session, row.outcome) == ("codex", "SessionStart", "s-1", "delivered")
    assert (row.bytes, row.items, row.project) == (len(given_now.text.encode()), 1, given_now.project)
    assert row.ms > 0
    use = Use.objects.get(ref=fact)
    assert (use.delivered, use.recalled, use.opened) == (1, 0, 0)
    context.session_context("codex", cwd=str(repo), session="s-2")
    assert later.flush()
    assert Use.objects.get(ref=fact).delivered == 2


def test_a_known_kind_registers_itself_and_an_unknown_one_is_refused(repo: Path, tmp_path: Path) -> None:
    context.session_context("codex", cwd=str(repo), folder=str(tmp_path / "codex-home"))
    assert later.flush()
    agent = registration.get("codex")
    assert (agent.type, agent.folder) == ("codex", str(tmp_path / "codex-home"))
    for ask in (
        lambda: context.session_context("nobody", cwd=str(repo)),
        lambda: context.prompt_context("nobody", prompt="x", cwd=str(repo), session=""),
    ):
        with pytest.raises(UnsupportedAgentType):
            ask()
    assert later.flush()
    assert not Delivery.objects.filter(agent="nobody").exists()


def test_a_check_is_no_session_and_ends_in_its_id(repo: Path, fact: str) -> None:
    real = context.session_context("codex", cwd=str(repo), session="s-1")
    check = context.session_context("codex", cwd=str(repo), session="the-id", event=context.CHECK)
    assert check.text == f"{real.text}\nthe-id"
    assert later.flush()
    assert Delivery.objects.count() == 1
    assert Use.objects.get(ref=fact).delivered == 1


def test_the_setting_bounds_the_bundle_and_nonsense_in_it_costs_nothing(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    for number in range(300):
        facts.remember(store, f"Fact {number} has a title of some length, so that not all of them fit.", actor="agent")
    sizes = {}
    for value in ("9900", "4000", "2999", "10001", "much", ""):
        monkeypatch.setenv("COFFER_BUNDLE_BYTES", value)
        sizes[value] = context.session_context("codex", cwd=str(repo)).bytes
    assert 9_800 < sizes["9900"] <= 9_900
    assert 3_900 < sizes["4000"] <= 4_000
    assert {sizes[value] for value in ("2999", "10001", "much", "")} == {sizes["9900"]}


def test_a_locked_database_changes_nothing_for_the_agent(
    repo: Path, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registration.add("codex")
    assert later.flush()
    monkeypatch.setattr(later, "PATIENCE", 0.0)
    before = later.dropped()
    with foreign_lock():
        assert "frobnicator" in context.session_context("codex", cwd=str(repo)).text
        assert later.flush(60)
    assert later.dropped() == before + 2  # the delivery and the use counts
    assert not Delivery.objects.exists()


def test_the_database_is_needed_for_titles_only_and_its_damage_is_not_hidden(repo: Path, fact: str) -> None:
    registration.add("codex")
    connection = sqlite3.connect(paths.database())
    connection.execute("DROP TABLE memory_document")
    connection.close()
    with pytest.raises(Exception, match="no such table") as caught:
        context.session_context("codex", cwd=str(repo))
    assert db.damaged(caught.value)
    assert later.flush()
    db.recover()
    assert "frobnicator" in context.session_context("codex", cwd=str(repo)).text


def test_beside_a_prompt_nothing_is_given_unless_it_is_switched_on(
    repo: Path, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "PROMPT_SECONDS", 20)
    registration.add("claude_code")
    assert beside(repo, "the frobnicator gasket leaks").text == ""
    assert later.flush()
    assert not Delivery.objects.exists()
    registration.change("claude_code", prompt_context=True)
    assert "frobnicator" in beside(repo, "the frobnicator gasket leaks").text


@pytest.mark.usefixtures("prompted")
def test_a_fact_comes_once_in_a_session_and_again_when_its_context_begins_anew(repo: Path, fact: str) -> None:
    prompt = "why does the frobnicator gasket leak"
    assert "frobnicator" in beside(repo, prompt).text
    assert beside(repo, prompt).text == ""
    assert "frobnicator" in beside(repo, prompt, "another session").text
    context.session_context("claude_code", cwd=str(repo), session="s-1")  # as after a compaction
    assert "frobnicator" in beside(repo, prompt).text
    assert later.flush()
    outcomes = Delivery.objects.filter(event="UserPromptSubmit").order_by("id").values_list("outcome", "items")
    assert list(outcomes) == [("delivered", 1), ("silent", 0), ("delivered", 1), ("delivered", 1)]
    assert Use.objects.get(ref=fact).delivered == 4


@pytest.mark.usefixtures("prompted")
def test_without_an_id_of_the_session_its_folder_stands_for_it(repo: Path, fact: str) -> None:
    assert beside(repo, "the frobnicator gasket leaks", "").text
    assert not beside(repo, "the frobnicator gasket leaks", "").text


@pytest.mark.usefixtures("prompted")
def test_what_comes_too_late_is_silence_and_counts_as_not_given(
    repo: Path, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, real = threading.Event(), matches.matches

    def slow(*arguments: object) -> Digest:
        release.wait(20)
        return real(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(matches, "matches", slow)
        patch.setattr(context, "PROMPT_SECONDS", 0.05)
        assert beside(repo, "the frobnicator gasket leaks") == context.Context()
        release.set()
    assert later.flush()
    assert Delivery.objects.get().outcome == "late"
    assert beside(repo, "the frobnicator gasket leaks").text


def test_the_memory_of_sessions_is_bounded() -> None:
    for number in range(given.SESSIONS + 50):
        given.note(f"session {number}", [("global", str(one)) for one in range(3)])
    assert given.to("session 0") == frozenset()
    assert given.to(f"session {given.SESSIONS + 49}") == {("global", "0"), ("global", "1"), ("global", "2")}
    given.note("one", [("global", str(one)) for one in range(given.DOCUMENTS + 10)])
    assert len(given.to("one")) == given.DOCUMENTS
    assert len(given._given) == given.SESSIONS


def test_a_preview_is_of_any_project_and_writes_nothing_down(repo: Path, fact: str, tmp_path: Path) -> None:
    agent = registration.add("codex")
    name = stores.locate(str(repo)).project.store  # type: ignore[union-attr]
    assert later.flush()
    assert "frobnicator" in context.preview(agent, context.place_in(name)).text
    assert "No project" not in context.preview(agent, context.place_in("global")).text
    assert context.preview(agent, context.place_in("global")).project == ""
    repo.rename(tmp_path / "elsewhere")
    assert "frobnicator" in context.preview(agent, context.place_in(name)).text
    with pytest.raises(StoreNotFound):
        context.place_in("project-00000000000000000000000000")
    assert later.flush()
    assert not Delivery.objects.exists()


def test_the_text_is_valid_in_a_json_answer_of_any_agent(repo: Path) -> None:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    facts.remember(store, "Quotes \" ' and \\ and 😀 and \u2028 stay text.", actor="agent")
    text = context.session_context("codex", cwd=str(repo)).text
    assert json.loads(json.dumps({"additionalContext": text}))["additionalContext"] == text
    assert digest.session(stores.locate(str(repo)), 9_900).text == text


def test_secrets_in_a_persons_words_reach_no_agent(repo: Path, prompted: Agent) -> None:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    token = "gh" + "p_" + "Gasket7" * 6
    facts.remember(store, f"The frobnicator gasket is opened with {token}.\n\nAsk for {token} first.", actor="user")
    rules.append(store, f"Open the gasket with {token}.", actor="user")
    told = context.session_context("codex", cwd=str(repo), session="s-1").text
    assert told.count("[github-token removed]") == 2
    prompt = beside(repo, "Which frobnicator gasket is opened with a token?").text
    assert "[github-token removed]" in prompt
    assert token not in told + prompt


def test_a_bundle_stays_in_its_bounds_when_what_stands_for_secrets_is_longer(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_BUNDLE_BYTES", "3000")
    store = stores.for_writing(stores.locate(str(repo)), "project")
    for number in range(60):
        rules.append(store, f"Log in to host {number} with password=abc{number}.", actor="user")
    told = context.session_context("codex", cwd=str(repo))
    assert "password=[password removed]" in told.text
    assert 2_500 < told.bytes <= 3_000
