"""The overview tells of stores that may be one project, and leads to where they are compared."""

from collections.abc import Callable
from pathlib import Path

from django.test import Client

from coffer import later
from memory.services import facts, stores


def remember(repo: Path) -> str:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    facts.remember(store, "The okapi.", actor="agent")
    later.flush()
    return store.name


def test_both_cards_of_a_fork_tell_of_the_other(
    make_repo: Callable[..., Path], git: Callable[..., str], pages: Client
) -> None:
    here, there = (make_repo(name, remote="https://git.example.org/acme/widget.git") for name in ("here", "there"))
    upstream = remember(here)
    stores.locate(str(there))
    later.flush()
    assert "Perhaps one project" not in pages.get("/").content.decode()
    git(here, "remote", "set-url", "origin", "https://git.example.org/me/widget.git")
    fork = remember(here)
    text = pages.get("/").content.decode()
    assert text.count("Perhaps one project with another store.") == 2
    assert upstream in text
    assert fork in text
    assert "/merge/pair/?source=" in text
