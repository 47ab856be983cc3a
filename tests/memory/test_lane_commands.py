"""``coffer memory`` for rules, journal, handoff, log and archive, as a person and as a script use it."""

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from coffer.errors import MemoryNotFound
from memory.models import Store
from memory.services import changelog, handoff, journal, rules, stores

Run = Callable[..., str]


@pytest.fixture
def store(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(repo)
    return stores.for_writing(stores.locate(str(repo)), "project")


@pytest.fixture
def run(store: Store) -> Run:
    def command(*arguments: str) -> str:
        out = io.StringIO()
        call_command("memory", *arguments, stdout=out)
        return out.getvalue()

    return command


def test_empty_lanes_say_so_and_are_empty_for_a_script(run: Run) -> None:
    for verb in ("rules", "journal", "handoff", "changelog"):
        assert run(verb, ".").startswith("repo has no ")
    assert run("superseded", ".") == "Nothing of repo was replaced or deleted.\n"
    assert json.loads(run("rules", ".", "--json")) == {"text": None, "rules": []}
    assert json.loads(run("journal", ".", "--json")) == {"files": [], "total": 0}
    assert json.loads(run("handoff", "global", "--json")) == {"scenes": [], "total": 0}
    assert json.loads(run("changelog", ".", "--json"))["text"] is None
    assert json.loads(run("superseded", ".", "--json")) == {"superseded": [], "total": 0}


def test_a_rule_is_added_by_hand_once(
    run: Run, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo("new"))
    assert run("rules", ".", "--add", "Never push to main.") == "Added.\n"
    assert run("rules", ".", "--add", "Never  push to main.") == "That rule stands there already.\n"
    assert run("rules", ".") == "- Never push to main.\n"


def test_rules_are_printed_as_written_and_kept_or_removed_by_id(run: Run, store: Store) -> None:
    rules.append(store, "Never push tags.", origin="01A", new=True)
    rules.append(store, "Run make verify.")
    assert run("rules", ".") == "- Never push tags. <!-- from 01A; new -->\n- Run make verify.\n"
    first, second = json.loads(run("rules", ".", "--json"))["rules"]
    assert run("rules", ".", "--ids").splitlines()[1:] == [
        f"{first['id']}  new  Never push tags.",
        f"{second['id']}       Run make verify.",
    ]
    assert run("rules", ".", "--keep", first["id"]) == "Kept: Never push tags.\n"
    assert "kept in superseded/" in run("rules", ".", "--remove", second["id"])
    assert run("rules", ".") == "- Never push tags. <!-- from 01A -->\n"
    with pytest.raises(MemoryNotFound):
        run("rules", ".", "--remove", second["id"])
    with pytest.raises(CommandError):
        run("rules", ".", "--keep", first["id"], "--remove", first["id"])


def test_the_journal_is_printed_newest_first_and_says_how_many_days_there_are(run: Run, store: Store) -> None:
    for day in range(1, 10):
        journal.append(store, f"Day {day}.", agent="codex", at=datetime(2026, 11, day, tzinfo=UTC))
    text = run("journal", ".")
    assert text.index("Day 9.") < text.index("Day 3.")
    assert text.endswith("7 of 9 days; --limit shows more.\n")
    assert "Day 1." in run("journal", ".", "--limit", "9")
    answer = json.loads(run("journal", ".", "--json", "--limit", "1"))
    assert (answer["total"], [file["period"] for file in answer["files"]]) == (9, ["2026-11-09"])
    assert "superseded/" in run("journal", ".", "--remove", "2026-11-09")
    assert json.loads(run("journal", ".", "--json"))["total"] == 8


def test_a_handoff_is_removed_by_its_branch_and_restored_by_its_file(
    run: Run, repo: Path, git: Callable[..., str]
) -> None:
    git(repo, "checkout", "-q", "-b", "feature/login")
    handoff.save(stores.locate(str(repo)), "Halfway.")
    text = run("handoff", ".")
    assert text.startswith("feature/login  2")
    assert text.endswith("\n\n    Halfway.\n")
    run("handoff", ".", "--remove", "feature/login")
    assert json.loads(run("handoff", ".", "--json"))["total"] == 0
    (kept,) = json.loads(run("superseded", ".", "--json"))["superseded"]
    assert kept["file"] in run("superseded", ".")
    assert run("superseded", ".").endswith("1 in all\n")
    assert run("superseded", ".", kept["file"]).endswith("Halfway.\n")
    assert run("restore", ".", kept["file"]).startswith("Restored ")
    assert json.loads(run("handoff", ".", "--json"))["total"] == 1


def test_a_deleted_fact_comes_back(run: Run) -> None:
    saved = json.loads(run("add", ".", "Deploy with make release.", "--json"))
    run("delete", ".", saved["id"])
    (kept,) = json.loads(run("superseded", ".", "--json"))["superseded"]
    assert json.loads(run("restore", ".", kept["file"], "--json"))["path"] == saved["path"]
    assert saved["id"] in run("recall", ".", "deploy")


def test_the_changelog_is_printed(run: Run, store: Store) -> None:
    changelog.append(store, "merged 01A into deploys.md")
    assert run("changelog", ".").endswith("Z merged 01A into deploys.md\n")
