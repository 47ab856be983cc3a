"""`coffer eval`: figures of the search as it is, on a data set or on a store of one's own."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from coffer import launchers
from coffer.errors import Invalid
from memory.models import Store
from memory.services import evaluating, facts, stores
from memory.services.evaluating import LITERAL, VECTORS, WORDS, Question
from tests.fake_llm import FakeLlm

DEVFACTS = Path(__file__).parents[1] / "fixtures" / "devfacts"


@pytest.fixture
def store() -> Store:
    store = stores.provision("global")
    for text in ("The automobile needs a permit.", "Water the plants.", "Ports below 1024 need root."):
        facts.remember(store, text, actor="user")
    return store


def rows(report: evaluating.Report) -> dict[tuple[str, str], evaluating.Row]:
    return {(row.category, row.method): row for row in report.rows}


def ids(store: Store) -> list[str]:
    return [fact.id for fact in facts.page(store)[0]]


def test_figures_are_those_of_their_definitions(store: Store) -> None:
    ports, plants, car = ids(store)
    questions = [
        Question("plants", frozenset([plants]), "one"),
        Question("permit", frozenset([car, ports]), "two"),
        Question("nowhere", frozenset([car]), "two"),
    ]
    found = rows(evaluating.evaluate("mine", store, questions))
    assert (found["one", WORDS].r5, found["one", WORDS].mrr, found["one", WORDS].questions) == (1.0, 1.0, 1)
    assert (found["two", WORDS].r5, found["two", WORDS].mrr) == (0.25, 0.5)
    assert found["all", WORDS].r10 == pytest.approx(0.5)
    assert found["all", LITERAL].questions == 3


def test_a_store_is_asked_for_its_own_titles_and_headings(store: Store) -> None:
    topic = stores.folder(store) / "knowledge" / "operations.md"
    topic.write_text(
        "---\ntitle: Operations\n---\n\n## Backups\n\nNightly dumps.\n\n## Certificates\n\nRenewed by acme.\n"
    )
    questions = evaluating.own_questions(store)
    assert {(one.category, one.text) for one in questions} >= {("title", "Operations"), ("section", "Backups")}
    assert rows(evaluating.evaluate("mine", store, questions))["all", WORDS].r5 == 1.0


def test_an_empty_store_and_broken_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="holds no fact"):
        evaluating.own_questions(stores.get("global"))
    with pytest.raises(Invalid, match=r"corpus\.jsonl cannot be read"):
        evaluating.load(tmp_path)
    (tmp_path / "queries.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(Invalid, match="line 1"):
        evaluating.read_questions(tmp_path / "queries.jsonl")
    (tmp_path / "queries.jsonl").write_text('{"text": "a", "rel": ["x"]}\n{"text": "b", "rel": "x"}\n')
    with pytest.raises(Invalid, match="question 2: rel must be a list"):
        evaluating.read_questions(tmp_path / "queries.jsonl")
    (tmp_path / "queries.jsonl").write_text("\n")
    with pytest.raises(Invalid, match="no question"):
        evaluating.read_questions(tmp_path / "queries.jsonl")


def test_questions_without_a_kind_stand_under_all_once_and_answers_that_are_not_there_are_told(store: Store) -> None:
    questions = [Question("plants", frozenset(["gone"])), Question("permit", frozenset([ids(store)[2]]), "mine")]
    report = evaluating.evaluate("mine", store, questions)
    assert [(row.category, row.method) for row in report.rows] == [
        *[("all", method) for method in (WORDS, LITERAL)], *[("mine", method) for method in (WORDS, LITERAL)]
    ]  # fmt: skip
    assert report.notes == ["Documents that are to be found but are not there, 1 in all: gone."]


def test_a_store_that_is_set_to_words_alone_is_measured_so_and_says_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_RETRIEVAL", "hybrid")
    store = stores.configure(store, {"retrieval": "keyword"})
    report = evaluating.evaluate("mine", store, [Question("plants", frozenset([ids(store)[1]]))])
    assert [row.method for row in report.rows] == [WORDS, LITERAL]
    assert "words alone" in report.notes[0]


def test_the_command_measures_a_store_with_questions_of_a_file(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"text": "plants", "rel": {ids(store)[1]: 1}}))
    out = StringIO()
    call_command("eval", store="global", queries=str(file), as_json=True, stdout=out)
    (report,) = json.loads(out.getvalue())["reports"]
    assert report["documents"] == 3
    assert report["rows"][0]["r5"] == 1.0
    out = StringIO()
    call_command("eval", store="global", stdout=out)
    assert "| words " in out.getvalue()


@pytest.mark.parametrize("given", [[], ["x", "--store", "global"], ["--queries", "x"]])
def test_the_command_says_what_it_wants(given: list[str]) -> None:
    with pytest.raises(CommandError, match="--store"):
        call_command("eval", *given)


def test_vectors_are_measured_where_a_store_is_searched_by_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores.configure(store, {"retrieval": "hybrid", "embedding": {"provider": "endpoint"}})
    car = ids(store)[2]
    report = evaluating.evaluate("mine", store, [Question("car", frozenset([car]))])
    assert [row.method for row in report.rows] == [WORDS, LITERAL]
    assert "COFFER_EMBEDDING_BASE_URL" in report.notes[0]
    with FakeLlm() as llm:
        for name, value in llm.embedding_environment.items():
            monkeypatch.setenv(name, value)
        report = evaluating.evaluate("mine", store, [Question("car", frozenset([car]))])
    assert rows(report)["all", VECTORS].r5 == 1.0
    assert rows(report)["all", WORDS].r5 == 0.0
    assert report.vector is not None


def test_a_data_set_is_measured_in_a_home_of_its_own_and_reaches_its_bars(home: Path) -> None:
    command = [sys.executable, "-P", "-s", "-m", "coffer.cli", "eval", str(DEVFACTS), "--json"]
    env = {**os.environ, "PYTHONPATH": str(launchers.root())}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    (report,) = json.loads(done.stdout)["reports"]
    row = next(row for row in report["rows"] if (row["category"], row["method"]) == ("all", WORDS))
    assert row["r5"] >= 0.84
    assert row["mrr"] >= 0.76
    for category in ("exact", "ident", "mixed", "zh"):
        assert next(row for row in report["rows"] if row["category"] == category)["r5"] == 1.0
    assert not (home / "memory" / "global").exists()
