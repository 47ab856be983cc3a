"""A person's memory to look at, a signed-in client, and for some tests a real browser."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from coffer import later
from memory.models import Store
from memory.services import changelog, facts, handoff, journal, rules, stores
from tests.factories import write_files
from tests.processes import machine  # noqa: F401

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
TOPIC = """\
---
title: Build and release
description: How the widget is built, tagged and shipped.
updated_at: 2026-11-20T09:30:00Z
---

### Steps

1. Tag the commit with `git tag v1.2.3`.

```sh
AWS_PROFILE=prod make release VERSION=1.2.3 --a-long-flag=some/long/path/that/goes/on/and/on --and-another-flag=1
```

| stage | minutes |
|---|--:|
| build | 4 |

> Warm the cache first. See [the runbook](https://wiki.example.org/runbook).

השרת מתאפס כל לילה. 发布前要先预热缓存。
"""


@dataclass(frozen=True)
class Memory:
    """What the tests look at: a project's store with something in each lane, and the id of one fact."""

    store: Store
    fact: str

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def folder(self) -> Path:
        return stores.folder(self.store)


@pytest.fixture(autouse=True)
def fresh_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test's home looked like is not remembered."""
    monkeypatch.setattr("coffer.pages._health", None)


@pytest.fixture
def memory(repo: Path) -> Memory:
    place = stores.locate(str(repo))
    store = stores.for_writing(place, "project")
    fact = facts.remember(store, "The deploy target is `make release`.", actor="agent", session="s-1").id
    facts.edit(store, fact, text="The deploy target is `make ship`.\n\nIt takes six minutes.")
    facts.remember(store, "Pagination of the orders API is cursor based.", actor="agent")
    write_files(stores.folder(store), {"knowledge/build-and-release.md": TOPIC})
    rules.append(store, "Always run `make verify` before a commit.")
    rules.append(store, "Prefer table-driven tests.", origin=fact, new=True)
    when = datetime(2026, 11, 29, 10, tzinfo=UTC)
    journal.append(store, "The flaky upload test was a race.", agent="claude_code", session="s-2", at=when)
    handoff.save(place, "Doing: the retry loop.\n\nNext: the test for 503.")
    changelog.append(store, "organized 3 notes into build-and-release.md")
    facts.remember(stores.provision("global"), "Ask before force-pushing.", actor="user")
    later.flush()  # where the project lies
    return Memory(stores.get(store.name), fact)


@pytest.fixture
def pages() -> Client:
    """A browser without eyes, signed in."""
    from coffer import signin

    client = Client()
    client.force_login(signin.owner())
    return client


@pytest.fixture
def text_of() -> Callable[[Any], str]:
    """What a page says, without its tags."""

    def read(response: Any) -> str:
        body = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", " ", response.content.decode())
        return " ".join(re.sub(r"<[^>]+>", " ", body).split())

    return read


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A headless chromium. While it runs, its event loop runs in this thread, which Django has to be told."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is not there; on Debian: apt install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    folder = tempfile.mkdtemp(prefix="coffer-browser-")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    try:
        with sync_api.sync_playwright() as playwright:
            environment = {**os.environ, "HOME": folder}
            found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, env=environment)
            yield found
            found.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        shutil.rmtree(folder, ignore_errors=True)
