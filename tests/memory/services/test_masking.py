"""Secrets in what is remembered: an agent's words are kept without them, and it is told which; a person's stay."""

from pathlib import Path

import pytest
from django.db import connection

from coffer.models import AuditEntry
from memory.models import Store
from memory.services import facts, recall, stores
from tests.cases.steps import call, hits
from tests.conftest import Api

TOKEN, WORD = "ghp_" + "a1B2" * 9, "tr0ub4dor-and-3"


@pytest.fixture
def store() -> Store:
    return stores.provision("global")


def test_an_agent_s_secret_is_taken_out_and_the_reply_says_what_and_where(repo: Path, home: Path) -> None:
    text = f"Staging needs a login.\n\nTOKEN={TOKEN}\nthe password is {WORD}"
    saved = call("remember", repo, text=text)
    assert saved["masked"] == [{"kind": "github-token", "line": 3}, {"kind": "password", "line": 4}]
    kept = "Staging needs a login.\n\nTOKEN=[github-token removed]\nthe password is [password removed]"
    assert Path(saved["path"]).read_text().endswith(f"\n\n{kept}\n")
    assert hits("staging login", repo) == [saved["id"]]
    assert hits(TOKEN, repo) == []
    connection.close()
    for path in home.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert TOKEN.encode() not in data
        assert WORD.encode() not in data


def test_a_title_made_of_the_text_holds_no_secret_either(store: Store) -> None:
    saved = facts.remember(store, f"Use {TOKEN} for staging.", actor="agent", title=f"Token {TOKEN}")
    assert facts.get(store, saved.id).title == "Token [github-token removed]"
    saved = facts.remember(store, f"Use {TOKEN} for staging.", actor="agent", description=f"About {TOKEN}")
    fact = facts.get(store, saved.id)
    assert (fact.title, fact.description) == (
        "Use [github-token removed] for staging.", "About [github-token removed]",
    )  # fmt: skip
    assert TOKEN not in saved.path.name


def test_a_person_s_words_stay_as_typed(store: Store, api: Api) -> None:
    saved = facts.remember(store, f"The password is {WORD}.", actor="user")
    assert (saved.masked, facts.get(store, saved.id).text) == ([], f"The password is {WORD}.")
    assert api.post("/memory_stores/global/facts", {"text": f"TOKEN={TOKEN}"}).json()["text"] == f"TOKEN={TOKEN}"
    by_agent = api.post("/memory_stores/global/facts", {"text": f"TOKEN={TOKEN}"}, X_Coffer_Actor="agent").json()
    assert by_agent["text"] == "TOKEN=[github-token removed]"


def test_a_secret_that_a_person_typed_stands_in_no_file_name(store: Store) -> None:
    saved = facts.remember(store, f"Use {TOKEN} for staging.", actor="user")
    assert saved.path.name.startswith("use-github-token-removed-for-staging-")
    assert facts.get(store, saved.id).title == f"Use {TOKEN} for staging."
    saved = facts.remember(store, "More of it.", actor="user", title=f"Password: {WORD}")
    assert saved.path.name.startswith("password-password-removed-")
    assert facts.get(store, saved.id).title == f"Password: {WORD}"


def test_an_agent_s_correction_adds_no_secret_and_takes_none_away(store: Store) -> None:
    fact = facts.remember(store, f"The password is {WORD}.", actor="user").id
    text = f"The password is {WORD}, and TOKEN={TOKEN}."
    assert facts.edit(store, fact, text=text, actor="agent").text == (
        f"The password is {WORD}, and TOKEN=[github-token removed]."
    )
    assert facts.edit(store, fact, title=f"Is {TOKEN}", actor="agent").title == "Is [github-token removed]"
    assert facts.edit(store, fact, text=text).text == text


def test_harmless_words_are_not_touched_and_nothing_is_told(store: Store) -> None:
    text = "token bucket limit = 500 per minute; see commit 9fceb02d0ae598e95dc970b74767f19372d61af8"
    saved = facts.remember(store, text, actor="agent")
    assert (saved.masked, facts.get(store, saved.id).text) == ([], text)
    assert recall.recall([store], "token bucket")
    assert TOKEN not in repr(list(AuditEntry.objects.values()))
