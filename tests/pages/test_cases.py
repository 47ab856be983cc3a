"""Handed cases that a browser could be hurt by: markup in every small field, links, paths, twins, clocks."""

import json
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from coffer import paths
from coffer.models import AuditEntry
from gateway.models import Invocation
from memory.files import store_file
from tests.cases.steps import INPUTS
from tests.factories import StoreFactory
from tests.pages.conftest import Memory

EVIL = '"><img src=x onerror=alert(1)>'
HEAD = """\
---
title: '{title}'
description: '{title}'
metadata:
  actor: '{title}'
  origin_session_id: '{title}'
---

{body}
"""
LANES = ("", "/rules", "/journal", "/handoff", "/changelog", "/archive", "/rename")


def addresses(store: str, *more: str) -> list[str]:
    return ["/", "/activity", "/health", *(f"/stores/{store}{lane}" for lane in LANES), *more]


def clean(response: Any) -> bool:
    """No tag of the attack stands in the page, however it got there."""
    return b"<img" not in response.content and b"<svg" not in response.content and b"<script>" not in response.content


@pytest.fixture
def hostile(memory: Memory) -> Memory:
    """The attack in every field that a file or a row can carry."""
    folder, name = memory.folder, EVIL.replace("/", "")
    for relative in (f"knowledge/{name}.md", f"knowledge/inbox/{name}.md", f"handoff/{name}.md", f"rules/{name}.md"):
        (folder / relative).write_text(HEAD.format(title=EVIL, body=f"- {EVIL}"))
    (folder / "handoff" / "x.md").write_text(f"---\nbranch: '{EVIL}'\nupdated_at: '{EVIL}'\n---\n\n{EVIL}\n")
    (folder / "journal" / "2026-11-30.md").write_text(
        f"# {EVIL}\n\n<!-- 2026-11-30T10:00:00Z {EVIL}:{EVIL} -->\n{EVIL}\n"
    )
    (folder / "consolidation-log.md").write_text(f"- {EVIL}\n")
    line = {"file": "old.md", "lane": EVIL, "path": EVIL, "why": EVIL, "when": EVIL, "state": "done"}
    with (folder / "superseded" / "index.jsonl").open("a") as index:
        index.write(json.dumps(line) + "\n")
    (folder / "superseded" / "old.md").write_text(EVIL)
    file = store_file.read(folder, memory.name, memory.store.project_id)
    (folder / store_file.NAME).write_bytes(store_file.dump(file.with_(label=EVIL)))
    AuditEntry.objects.create(event=EVIL, store=EVIL, ref=EVIL, actor="user", counts={EVIL: 1})
    Invocation.objects.create(tool=EVIL, agent=EVIL, project=EVIL, outcome=EVIL, ms=1)
    return memory


def test_bc_055_markup_in_any_small_field_is_shown_as_text(pages: Client, hostile: Memory) -> None:
    asked = addresses(
        hostile.name, f"/search?q={quote(EVIL)}&store={hostile.name}", f"/stores/{hostile.name}?q={quote(EVIL)}"
    )
    linked = {
        link for address in asked for link in re.findall(r'href="(/stores/[^"]+)"', pages.get(address).content.decode())
    }
    assert len(linked) > 15
    for address in [*asked, *linked, *(f"{link}/delete" for link in linked if "/knowledge/" in link)]:
        response = pages.get(address.replace("&amp;", "&").replace("&#x27;", "'"))
        assert response.status_code == 200, address
        assert clean(response), address


def test_bc_055_error_pages_and_refused_forms_echo_nothing_raw(pages: Client, memory: Memory) -> None:
    evil = quote(EVIL.replace("/", ""), safe="")
    for address in (
        f"/{evil}",
        f"/stores/{evil}",
        f"/stores/{memory.name}/knowledge/{evil}",
        f"/stores/{memory.name}/archive/{evil}",
    ):
        response = pages.get(address)
        assert response.status_code == 404
        assert clean(response)
    for response in (
        pages.post(f"/stores/{memory.name}/rename", {"label": EVIL * 20}),
        pages.post("/open", {"path": EVIL, "next": f"/stores/{memory.name}?q={EVIL}"}, follow=True),
        pages.get("/search", {"q": EVIL, "store": EVIL}),
        pages.get("/activity", {"who": EVIL, "store": EVIL, "source": EVIL, "before": EVIL}),
    ):
        assert clean(response)


def test_bc_056_nothing_of_a_store_is_served_as_it_is(pages: Client, memory: Memory) -> None:
    files = {
        "evil.html": "<script>alert(1)</script>",
        "evil.svg": "<svg onload=alert(1)>",
        "x.md.html": "<b>",
        "evil.md": "<script>alert(1)</script>",
    }
    for lane in ("knowledge", "handoff"):
        for name, text in files.items():
            (memory.folder / lane / name).write_text(text)
    for lane in ("knowledge", "handoff"):
        for name in ("evil.html", "evil.svg", "x.md.html", "x.md", "evil.md", "evil"):
            response = pages.get(f"/stores/{memory.name}/{lane}/{name}", headers={"Accept": "text/html"})
            assert response.status_code == (200 if name == "evil" else 404), name
            assert response["Content-Type"] == "text/html; charset=utf-8"
            assert clean(response)
    plain = pages.get(f"/stores/{memory.name}/text/knowledge/evil.md", headers={"Accept": "text/html"})
    assert (plain["Content-Type"], plain["X-Content-Type-Options"]) == ("text/plain; charset=utf-8", "nosniff")
    assert plain.content.decode() == files["evil.md"]
    for name in ("knowledge/evil.html", "knowledge/x.md", "store.yaml", "superseded/index.jsonl", "../x.md", "x.md"):
        assert pages.get(f"/stores/{memory.name}/text/{name}").status_code == 404, name
    for name in ("store.yaml", "superseded/index.jsonl", "knowledge/INDEX.md"):
        assert pages.get(f"/stores/{memory.name}/{name}").status_code == 404
        assert pages.get(f"/static/{name}").status_code == 404


def test_bc_051_a_poisoned_title_takes_one_line_and_hides_nothing(pages: Client, text_of: Callable[[Any], str]) -> None:
    titles: list[str] = json.loads((INPUTS / "BC-051" / "titles.json").read_text(encoding="utf-8"))
    files = {
        f"knowledge/inbox/n{number}.md": f"---\ntitle: {json.dumps(title)}\n---\nx\n"
        for number, title in enumerate(titles)
    }
    StoreFactory(files=files)
    response = pages.get("/stores/global")
    lines = re.findall(r'<li><a href="/stores/global/knowledge/.*?</a>', response.content.decode())
    assert len(lines) == len(titles)
    page = response.content.decode()
    for sign in "\x1b\u202e\u2028\u200b":
        assert sign not in page
    assert re.search(r"\[U\+202E\]", page)


def test_bc_057_and_bc_059_the_pages_know_their_host(pages: Client) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example"):
        assert pages.get("/", headers={"Host": host}).status_code == 400
    for host in ("localhost:8765", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST:8765", "localhost"):
        assert pages.get("/", headers={"Host": host}).status_code == 200


def test_bc_067_a_link_shows_nothing_from_outside_and_is_named(
    pages: Client, memory: Memory, tmp_path: Path, text_of: Callable[[Any], str]
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("OUTSIDE")
    (memory.folder / "knowledge" / "s.md").symlink_to(secret)
    (memory.folder / "knowledge" / "d").symlink_to(tmp_path)
    (memory.folder / "handoff" / "main.md").unlink()
    (memory.folder / "handoff" / "main.md").symlink_to(secret)
    (memory.folder / "rules" / "more.md").symlink_to(secret)
    (memory.folder / "superseded" / "gone.md").symlink_to(secret)
    said = text_of(pages.get(f"/stores/{memory.name}"))
    assert "4 files here cannot be served" in said
    assert "knowledge/s.md : it is a link" in said
    for address in addresses(memory.name):
        assert b"OUTSIDE" not in pages.get(address).content
    for address in ("knowledge/s", "knowledge/secret", "handoff/main", "archive/gone.md"):
        place = f"/stores/{memory.name}/{address}"
        assert pages.get(place).status_code == 404
        assert pages.post(f"{place}/delete").status_code in (404, 405)
    assert secret.read_text() == "OUTSIDE"
    assert not pages.post("/open", {"path": str(memory.folder / "knowledge" / "s.md"), "next": "/"}).url.startswith(
        "/stores"
    )


@pytest.mark.parametrize(
    ("stamp", "words"),
    [
        ("2099-01-01T00:00:00Z", "from the future: a clock was wrong"),
        ("yesterday", "at an unknown time"),
        ("", "at an unknown time"),
        ("2026-11-01", "at an unknown time"),
        ("1970-01-01T00:00:00Z", "at an unknown time"),
    ],
)
def test_bc_098_a_scene_s_odd_time_is_never_taken_for_fresh(
    pages: Client, memory: Memory, stamp: str, words: str, text_of: Callable[[Any], str]
) -> None:
    (memory.folder / "handoff" / "main.md").write_text(f"---\nbranch: main\nupdated_at: '{stamp}'\n---\n\nBODY\n")
    assert words in text_of(pages.get(f"/stores/{memory.name}/handoff"))
    said = text_of(pages.get(f"/stores/{memory.name}/handoff/main"))
    assert words in said
    assert "BODY" in said


def test_bc_119_both_forms_of_a_name_have_pages_of_their_own(pages: Client, text_of: Callable[[Any], str]) -> None:
    forms = [unicodedata.normalize(form, "Überblick") for form in ("NFC", "NFD")]
    StoreFactory(files={f"knowledge/{stem}.md": f"text {number}\n" for number, stem in enumerate(forms)})
    for number, stem in enumerate(forms):
        assert f"text {number}" in text_of(pages.get(reverse("document", args=["global", stem])))
    pages.post(reverse("document-delete", args=["global", forms[1]]))
    assert (paths.store("global") / "knowledge" / f"{forms[0]}.md").exists()
    assert not (paths.store("global") / "knowledge" / f"{forms[1]}.md").exists()
    assert "1 title of 1" in text_of(pages.get("/stores/global", {"q": forms[1]}))


def test_bc_121_twins_have_pages_of_their_own_and_deleting_one_leaves_the_other(
    pages: Client, text_of: Callable[[Any], str]
) -> None:
    text = "---\nid: SAME\ntitle: {}\n---\n\nbody of {}\n"
    names = ("a.md", "b.md", "a.sync-conflict-20260901-101500-ABCDEFG.md", "a (1).md", "._a.md")
    StoreFactory(files={f"knowledge/inbox/{name}": text.format(name, name) for name in names})
    links = re.findall(r'<li><a href="(/stores/global/knowledge/[^"]+)"', pages.get("/stores/global").content.decode())
    assert len(links) == len(set(links)) == 4
    bodies = {re.search(r"body of [^<]+", pages.get(link).content.decode())[0] for link in links}  # type: ignore[index]
    assert len(bodies) == 4
    pages.post(f"{links[0]}/delete")
    assert len(list((paths.store("global") / "knowledge" / "inbox").glob("[ab]*.md"))) == 3


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "....//",
        "..%5c",
        "%00",
        "global%2f..%2fprojects%2fx",
        "project-" + "." * 26,
        "project-" + "U" * 26,
        "project-556m7hvwhvz4j22e1dtaep0pmj",
        "x" * 10_000,
        "global%0a",
    ],
)
def test_bc_150_a_name_in_an_address_never_becomes_a_path(pages: Client, memory: Memory, name: str) -> None:
    before = sorted(os.listdir(paths.memory()) + os.listdir(paths.projects()))
    for address in (f"/stores/{name}", f"/stores/{name}/rules", f"/stores/{name}/rename"):
        assert pages.get(address).status_code == 404
    for lane in ("knowledge", "journal", "handoff", "archive", "text", "text/knowledge"):
        response = pages.get(f"/stores/{memory.name}/{lane}/{name}")
        assert response.status_code == 404
        assert pages.post(f"/stores/{memory.name}/{lane}/{name}/delete").status_code in (404, 405)
        assert b"root:" not in response.content
    assert pages.post(f"/stores/{name}/rename", {"label": "x"}).status_code == 404
    assert pages.post(f"/stores/{memory.name}/archive/{name}/restore").status_code == 404
    assert sorted(os.listdir(paths.memory()) + os.listdir(paths.projects())) == before
