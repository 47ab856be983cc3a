"""Whoever doubts a ranking can see why it came out so: on the page, on the command line, over REST; never in MCP."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from gateway.tools import TOOLS
from memory.models import Store
from memory.services import facts, recall, stores

PROJECT = "project-556M7HVWHVZ4J22E1DTAEP0PMJ"


@pytest.fixture
def project() -> Store:
    store = stores.provision(PROJECT)
    facts.remember(store, "The migration of the database takes a lock.", actor="user")
    facts.remember(stores.provision("global"), "A migration is reviewed by two people.", actor="user")
    return store


def explained(store: Store, query: str, top_k: int = 5) -> Any:
    return recall.explain(stores.with_scope(store, "both"), query, top_k=top_k)[1]


def test_it_tells_the_words_that_were_looked_for_and_those_nobody_wrote(project: Store) -> None:
    reading = explained(project, "the migration walrus").reading
    assert reading.asked == ("migration",)
    assert reading.unknown == ("walrus",)


def test_it_tells_what_was_taken_for_a_typo_and_what_was_translated(project: Store) -> None:
    assert explained(project, "migraton").repaired == {"migraton": "migration"}
    assert "database" in explained(project, "数据库").reading.translations


def test_it_tells_how_each_document_stands_and_what_the_project_s_weight_did(project: Store) -> None:
    first, second = explained(project, "migration lock").candidates
    assert (first.store, first.weight, first.words.place, first.outcome) == (PROJECT, 1.15, 1, "shown")
    assert (second.store, second.weight) == ("global", 1.0)
    assert first.score == pytest.approx(first.words.score * 1.15, rel=1e-3)
    assert first.meaning is None


def test_it_tells_what_the_cut_removed(project: Store) -> None:
    facts.remember(project, "The migration of the database takes a lock.", actor="user")
    why = explained(project, "migration", top_k=1)
    assert why.found == 3
    assert [one.outcome for one in why.candidates] == ["shown", "the same text as one above", "after the first 1"]


def test_what_is_explained_is_what_is_told(project: Store) -> None:
    searched = stores.with_scope(project, "both")
    for query in ("migration", "lock 数据库", "nothing of it", "migraton reviewed"):
        hits, why = recall.explain(searched, query)
        assert hits == recall.recall(searched, query)
        shown = [one.id for one in why.candidates if one.outcome == "shown"]
        assert shown == [hit.id for hit in hits] or why.on_disk


def test_a_query_of_no_words_and_a_store_that_is_not_there_explain_themselves() -> None:
    why = explained(stores.get("global"), "…")
    assert (why.found, why.candidates) == (0, [])
    assert json.dumps(why.as_dict())


def test_rest_explains_when_asked_and_only_then(project: Store, api: Any) -> None:
    answer = api.post(f"/memory_stores/{PROJECT}/recall", {"query": "migration", "explain": True}).json()
    assert set(answer["explanation"]["candidates"][0]["words"]) == {"place", "score"}
    assert answer["explanation"]["reading"]["asked"] == ["migration"]
    plain = api.post(f"/memory_stores/{PROJECT}/recall", {"query": "migration"}).json()
    assert plain == {"hits": answer["hits"], "project": answer["project"]}


def test_an_agent_s_tool_offers_no_explanation() -> None:
    assert "explain" not in TOOLS["coffer__recall"].arguments


def test_the_command_line_explains(project: Store) -> None:
    out = StringIO()
    call_command("memory", "recall", PROJECT, "migraton walrus", "--explain", stdout=out)
    said = out.getvalue()
    assert "for migraton" in said
    assert "walrus" in said
    assert "1.15" in said
    out = StringIO()
    call_command("memory", "recall", PROJECT, "migration", "--explain", "--json", stdout=out)
    assert json.loads(out.getvalue())["explanation"]["found"] == 2
    out = StringIO()
    call_command("memory", "recall", PROJECT, "migration", "--json", stdout=out)
    assert set(json.loads(out.getvalue())) == {"hits"}
