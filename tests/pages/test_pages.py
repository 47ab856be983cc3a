"""The pages through Django's client: what they say, where they lead, what they do."""

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from coffer import later, registry
from coffer.models import AuditEntry
from gateway.models import Invocation
from memory.models import Use
from memory.services import facts, journal, stores
from tests.factories import StoreFactory, write_files
from tests.pages.conftest import Memory

Text = Callable[[Any], str]


def test_the_overview_names_every_store_with_what_it_holds(pages: Client, memory: Memory, text_of: Text) -> None:
    said = text_of(pages.get("/"))
    assert "2 stores" in said
    assert said.index("global") < said.index("repo")
    assert "1 topic · 2 notes in the inbox · 2 rules · 1 journal day · 1 handoff" in said


def test_an_empty_memory_says_what_to_do_next(pages: Client, text_of: Text) -> None:
    for address in ("/", "/stores/global", "/stores/global/rules", "/stores/global/journal", "/stores/global/handoff"):
        response = pages.get(address)
        assert response.status_code == 200
        assert b'class="empty"' in response.content
    for address in ("/stores/global/changelog", "/stores/global/archive", "/search", "/activity"):
        assert pages.get(address).status_code == 200


@pytest.mark.acceptance(spec="007-memory", scenario="read-only viewer offers open/reveal affordances")
def test_each_lane_is_shown_and_its_files_can_be_opened(pages: Client, memory: Memory, text_of: Text) -> None:
    for lane, expected in (
        ("", "Build and release"),
        ("/rules", "Always run make verify before a commit."),
        ("/journal", "The flaky upload test was a race."),
        ("/handoff", "main"),
        ("/changelog", "organized 3 notes"),
    ):
        response = pages.get(f"/stores/{memory.name}{lane}")
        assert expected in text_of(response)
        assert b'value="reveal"' in response.content
        assert b"<textarea" not in response.content


def test_tabs_carry_counts_and_the_current_one_is_marked(pages: Client, memory: Memory, text_of: Text) -> None:
    response = pages.get(f"/stores/{memory.name}/rules")
    assert "Knowledge 3 Rules 2 Journal 1 Handoff 1 Changelog 1" in text_of(response)
    assert b'/rules" aria-current="page"' in response.content


def test_the_filter_looks_through_all_titles_and_not_only_those_shown(pages: Client, text_of: Text) -> None:
    files = {f"knowledge/inbox/n{number}.md": f"---\ntitle: Note {number}\n---\nx\n" for number in range(1100)}
    StoreFactory(
        files={
            **files,
            "knowledge/inbox/old.md": "---\ntitle: Straße nach ÜBERALL\nupdated_at: 2001-01-01T00:00:00Z\n---\n",
        }
    )
    said = text_of(pages.get("/stores/global"))
    assert "1,101 documents; the newest 1,000 are shown" in said
    assert "Straße" not in said
    assert "1 title of 1,101" in text_of(pages.get("/stores/global", {"q": "überall STRASSE"}))
    assert "No title or description has these words" in text_of(pages.get("/stores/global", {"q": "zzz"}))


def test_a_document_tells_where_it_comes_from(pages: Client, memory: Memory, text_of: Text) -> None:
    response = pages.get(f"/stores/{memory.name}/knowledge/{memory.fact}")
    said = text_of(response)
    for part in ("make ship", "Written by agent", "Session s-1", "fact edited by user", "Earlier versions 1"):
        assert part in said
    assert f"/admin/memory/document/{memory.name}/{memory.fact}/change/".encode() in response.content
    later.flush()
    assert Use.objects.get(ref=memory.fact).opened == 1


def test_a_change_made_in_an_editor_is_there_at_once(pages: Client, memory: Memory, text_of: Text) -> None:
    path = facts.get(memory.store, memory.fact).path
    path.write_text(path.read_text().replace("six minutes", "nine minutes"))
    assert "nine minutes" in text_of(pages.get(f"/stores/{memory.name}/knowledge/{memory.fact}"))


def test_deleting_asks_once_and_names_the_thing_and_can_be_taken_back(
    pages: Client, memory: Memory, text_of: Text
) -> None:
    address = f"/stores/{memory.name}/knowledge/{memory.fact}"
    question = pages.get(f"{address}/delete")
    assert b"The deploy target is <code>make ship</code>." in question.content
    assert pages.get(address).status_code == 200
    said = text_of(pages.post(f"{address}/delete", follow=True))
    assert "Deleted: The deploy target is make ship . Its last version is the first" in said
    gone = pages.get(address)
    assert gone.status_code == 404
    assert "This is not here any more" in text_of(gone)
    version = gone.context["versions"][0]
    shown = pages.get(f"/stores/{memory.name}/archive/{version.file}")
    assert "Nothing stands in its place now" in text_of(shown)
    restored = pages.post(f"/stores/{memory.name}/archive/{version.file}/restore", follow=True)
    assert restored.redirect_chain[-1][0] == address
    assert "It takes six minutes." in text_of(restored)
    assert "What stood there before" not in text_of(restored)


def test_an_earlier_version_shows_what_restoring_it_would_change(pages: Client, memory: Memory, text_of: Text) -> None:
    document = pages.get(f"/stores/{memory.name}/knowledge/{memory.fact}").context["document"]
    address = f"/stores/{memory.name}/archive/{document.versions[0].file}"
    response = pages.get(address)
    assert b"<del>- It takes six minutes.</del>" in response.content
    assert b"<ins>+ The deploy target is `make release`.</ins>" in response.content
    said = text_of(pages.post(f"{address}/restore", follow=True))
    assert "make release" in said
    assert "What stood there before is in the archive." in said


def test_a_heading_that_repeats_the_title_is_shown_once(pages: Client, text_of: Text) -> None:
    files = {
        "knowledge/caching.md": "---\ntitle: Caching\n---\n\n# Caching\n\nWarm it first.\n\n# Caching\n\nAgain.\n",
        "knowledge/queues.md": "---\ntitle: Queues\n---\n\nQueues\n======\n\n## Retries\n\nThree.\n",
        "knowledge/bare.md": "# Bare\n",
    }
    StoreFactory(files=files)
    said = {name: text_of(pages.get(f"/stores/global/knowledge/{name}")) for name in ("caching", "queues", "bare")}
    assert "Delete Caching Warm it first. Caching Again." in said["caching"]
    assert "Delete Queues Retries Three." in said["queues"]
    assert "This file has no text" not in said["bare"]


def test_code_in_a_title_is_code_and_all_else_in_it_is_text(pages: Client) -> None:
    title = "Run `<b>make</b>` & `x"
    StoreFactory(files={"knowledge/a.md": f"---\ntitle: '{title}'\n---\n\nText.\n"})
    shown = b"Run <code>&lt;b&gt;make&lt;/b&gt;</code> &amp; `x"
    for address in ("/stores/global", "/stores/global/knowledge/a", "/stores/global/knowledge/a/delete"):
        assert shown in pages.get(address).content, address
    assert shown in pages.get("/search", {"q": "text", "store": "global"}).content


def test_of_a_very_long_text_the_beginning_is_shown_with_the_way_to_the_rest(pages: Client, memory: Memory) -> None:
    pages_of = {
        "knowledge/long.md": "knowledge/long",
        "journal/2026-11-28.md": "journal/2026-11-28",
        "handoff/main.md": "handoff/main",
        "rules/rules.md": "rules",
    }
    text = "word " * 80_000 + "the end"
    write_files(memory.folder, dict.fromkeys(pages_of, text))
    for file, page in pages_of.items():
        shown = pages.get(f"/stores/{memory.name}/{page}").content.decode()
        assert "The first 100,000 of 400,007 characters are shown here." in shown, page
        assert len(shown) < 130_000
        if page != "rules":
            assert f'<a href="/stores/{memory.name}/text/{file}">' in shown
        assert pages.get(f"/stores/{memory.name}/text/{file}").content.decode() == text
    facts.delete(memory.store, "long")
    archived = pages.get(f"/stores/{memory.name}/knowledge/long").context["versions"][0].file
    assert "of 400,007 characters" in pages.get(f"/stores/{memory.name}/archive/{archived}").content.decode()
    assert pages.get(f"/stores/{memory.name}/text/superseded/{archived}").content.decode() == text


def test_of_a_very_long_day_the_first_entries_are_shown(pages: Client, memory: Memory, text_of: Text) -> None:
    entry = "<!-- 2026-11-28T10:00:00Z claude_code:s -->\n\n" + "word " * 10_000 + "\n\n"
    write_files(memory.folder, {"journal/2026-11-28.md": "# 2026-11-28\n\n" + entry * 5})
    said = text_of(pages.get(f"/stores/{memory.name}/journal/2026-11-28"))
    assert "more entries of this day are not shown here" in said


def test_the_changelog_is_shown_newest_first(pages: Client, memory: Memory, text_of: Text) -> None:
    (memory.folder / "consolidation-log.md").write_text("".join(f"- step {number}\n" for number in range(1200)))
    said = text_of(pages.get(f"/stores/{memory.name}/changelog"))
    assert "1,200 changes, newest first; the newest 1,000 are shown, the whole log as plain text." in said
    assert "step 1199 step 1198 " in said
    assert "step 199 " not in said
    assert pages.get(f"/stores/{memory.name}/text/consolidation-log.md").content.startswith(b"- step 0\n")


def test_days_and_scenes_are_read_deleted_and_restored(pages: Client, memory: Memory, text_of: Text) -> None:
    for address, words in (("journal/2026-11-29", "claude_code"), ("handoff/main", "the retry loop")):
        place = f"/stores/{memory.name}/{address}"
        assert words in text_of(pages.get(place))
        assert pages.get(f"{place}/delete").status_code == 200
        pages.post(f"{place}/delete")
        gone = pages.get(place)
        assert gone.status_code == 404
        back = pages.post(f"/stores/{memory.name}/archive/{gone.context['versions'][0].file}/restore", follow=True)
        assert back.redirect_chain[-1][0] == place
        assert words in text_of(back)


def test_a_file_that_was_removed_while_its_page_was_open(pages: Client, memory: Memory, text_of: Text) -> None:
    facts.get(memory.store, memory.fact).path.unlink()
    response = pages.post(f"/stores/{memory.name}/knowledge/{memory.fact}/delete")
    assert response.status_code == 404
    assert "Archived versions 1" in text_of(response)


def test_renaming_a_store_and_taking_the_name_away_again(pages: Client, memory: Memory, text_of: Text) -> None:
    address = f"/stores/{memory.name}/rename"
    assert "Widget of Acme" in text_of(pages.post(address, {"label": "  Widget of   Acme "}, follow=True))
    assert "Widget of Acme" in text_of(pages.get("/"))
    pages.post(address, {"label": " "})
    assert stores.display_name(stores.get(memory.name)) == "repo"


@pytest.mark.parametrize("label", ["x" * 10_000, "evil \u202e gnp", "global", "a\x00b"])
def test_a_name_that_cannot_be_is_refused_with_a_reason(pages: Client, memory: Memory, label: str) -> None:
    response = pages.post(f"/stores/{memory.name}/rename", {"label": label})
    assert response.status_code == 422
    assert b'id="problem"' in response.content
    assert stores.get(memory.name).label == ""


def test_search_is_what_an_agent_is_told_with_reasons(pages: Client, memory: Memory, text_of: Text) -> None:
    response = pages.get("/search", {"q": "deploy target", "store": memory.name})
    said = text_of(response)
    assert "It takes six minutes." in said
    assert "Words found deploy, target" in said
    assert "× 1.15" in said
    assert "fact · best match" in said
    assert "Looked for deploy target" in said
    assert "+s" not in said
    assert " % of the best" in text_of(pages.get("/search", {"q": "make release", "store": memory.name}))
    assert "none of the words" in text_of(pages.get("/search", {"q": "zzzzqqqq", "store": memory.name}))
    answer = pages.get("/search", {"q": "force-pushing", "store": memory.name, "scope": "project"})
    assert "Nothing found" in text_of(answer)
    assert "Looked through every fact, topic and journal day of repo" in text_of(answer)
    assert "1 hit" in text_of(pages.get("/search", {"q": "race", "store": memory.name, "scope": "project"}))
    assert pages.get("/search", {"q": "x", "store": "project-x"}).status_code == 404


def test_a_hit_of_the_journal_leads_to_its_day(pages: Client, memory: Memory) -> None:
    response = pages.get("/search", {"q": "flaky upload", "store": memory.name})
    assert f"/stores/{memory.name}/journal/2026-11-29".encode() in response.content


def test_activity_joins_changes_and_tool_calls_and_filters_them(pages: Client, memory: Memory, text_of: Text) -> None:
    Invocation.objects.create(tool="coffer__recall", agent="codex", project=memory.name, outcome="ok", items=2, ms=9)
    said = text_of(pages.get("/activity"))
    assert f"{AuditEntry.objects.count() + 1} events" in said
    assert "recall codex" in said
    assert "2 items, 9 ms" in said
    assert "1 event with this filter" in text_of(pages.get("/activity", {"who": "codex"}))
    assert "fact added" not in text_of(pages.get("/activity", {"source": "calls"}))
    assert "Nothing matches this filter" in text_of(pages.get("/activity", {"who": "nobody"}))
    assert pages.get("/activity", {"before": "nonsense"}).status_code == 200


def test_older_events_are_one_link_away(pages: Client, text_of: Text) -> None:
    AuditEntry.objects.bulk_create([AuditEntry(event=f"fact_added_{number}", actor="user") for number in range(250)])
    first = pages.get("/activity")
    assert "250 events; 200 are shown" in text_of(first)
    rest = pages.get(f"/activity?{first.context['timeline'].older}")
    assert len(rest.context["timeline"].events) == 50


def test_activity_shows_no_content(pages: Client, memory: Memory, text_of: Text) -> None:
    assert "deploy" not in text_of(pages.get("/activity"))


def test_the_dot_of_health_tells_what_is_wrong(
    pages: Client, memory: Memory, monkeypatch: pytest.MonkeyPatch, text_of: Text
) -> None:
    assert "All is well" in text_of(pages.get("/"))
    finding = registry.Finding("error", "index", "It is <b>broken</b>; run `coffer memory reindex`.")
    monkeypatch.setattr(registry, "_health_checks", {"x": lambda: [finding]})
    assert "1 thing needs a look" in text_of(pages.get("/health"))
    response = pages.get("/")
    assert b'class="health error"' in response.content
    assert b"<b>broken" not in pages.get("/health").content


def test_a_file_is_opened_by_its_button_and_the_page_says_so(
    pages: Client, memory: Memory, monkeypatch: pytest.MonkeyPatch, text_of: Text
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr("coffer.desktop.open_file", lambda path: asked.append(("open", path)))
    monkeypatch.setattr("coffer.desktop.reveal", lambda path: asked.append(("reveal", path)))
    back = f"/stores/{memory.name}"
    assert "Opened in your editor" in text_of(
        pages.post("/open", {"path": "/p", "action": "open", "next": back}, follow=True)
    )
    assert pages.post("/open", {"path": "/p", "action": "reveal", "next": "https://evil.example/"}).url == "/"
    assert pages.post("/open", {"path": "/p", "action": "reveal", "next": "//evil.example/"}).url == "/"
    assert asked == [("open", "/p"), ("reveal", "/p"), ("reveal", "/p")]
    assert pages.get("/open").status_code == 405


def test_a_path_outside_memory_is_not_opened(pages: Client, memory: Memory, text_of: Text) -> None:
    said = text_of(pages.post("/open", {"path": "/etc/passwd", "next": "/"}, follow=True))
    assert "Only files and folders of memory can be opened" in said


def test_an_unreadable_lane_is_said_and_the_others_work(
    pages: Client, memory: Memory, text_of: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coffer.errors import StorageFailed

    def refuse(*_: Any) -> None:
        raise StorageFailed("rules cannot be read (Permission denied); check its permissions.")

    monkeypatch.setattr("memory.services.rules.listing", refuse)
    assert "Rules ?" in text_of(pages.get(f"/stores/{memory.name}"))
    response = pages.get(f"/stores/{memory.name}/rules")
    assert response.status_code == 507
    assert "check its permissions" in text_of(response)


def test_rules_in_another_form_than_a_list_are_shown_as_they_are(pages: Client, text_of: Text) -> None:
    StoreFactory(files={"rules/rules.md": "Be kind to **reviewers**.\n"})
    assert "Be kind to reviewers" in text_of(pages.get("/stores/global/rules"))


@pytest.mark.parametrize(
    "address", ["/nothing", "/stores/nothing", "/stores/global/knowledge/x", "/stores/global/archive/x"]
)
def test_what_is_not_there_is_a_page_in_the_same_frame(pages: Client, address: str) -> None:
    response = pages.get(address)
    assert response.status_code == 404
    assert b'<header class="bar">' in response.content


def test_an_error_inside_is_a_page_that_tells_nothing_of_it(
    memory: Memory, pages: Client, monkeypatch: pytest.MonkeyPatch, text_of: Text
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("secret words")

    monkeypatch.setattr("memory.services.stores.all_stores", fail)
    pages.raise_request_exception = False
    response = pages.get("/")
    assert response.status_code == 500
    assert "Nothing that was remembered is lost" in text_of(response)
    assert b"secret" not in response.content


def test_a_damaged_database_heals_before_the_page_is_shown(pages: Client, memory: Memory, home: Path) -> None:
    database = home / "coffer.sqlite3"
    connection.close()
    database.write_bytes(b"not a database" * 1000)
    pages.raise_request_exception = False  # the first try fails, the second is what is answered
    response = pages.get("/")
    assert response.status_code == 401  # the session went with the database; the memory did not
    assert facts.get(stores.get(memory.name), memory.fact).text.startswith("The deploy target")


def test_a_form_without_its_token_is_refused(memory: Memory) -> None:
    from coffer import signin

    client = Client(enforce_csrf_checks=True)
    client.force_login(signin.owner())
    response = client.post(f"/stores/{memory.name}/knowledge/{memory.fact}/delete")
    assert response.status_code == 403
    assert b"reload the page" in response.content
    assert facts.get(memory.store, memory.fact)


def test_an_address_of_a_form_that_is_opened_says_what_to_do(pages: Client, text_of: Text) -> None:
    answer = pages.get("/open")
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert "go back and use the page's button" in html.unescape(text_of(answer))
    assert Client().put("/sign-in").content == b""


def test_queries_do_not_grow_with_the_number_of_facts(pages: Client, home: Path) -> None:
    def asked(address: str) -> int:
        pages.get(address)
        statements: list[str] = []  # asked of SQLite itself: not all go through Django
        connection.connection.set_trace_callback(statements.append)
        assert pages.get(address).status_code == 200
        connection.connection.set_trace_callback(None)
        return len(statements)

    store = StoreFactory()
    folder = stores.folder(store)
    write_files(folder, {"knowledge/inbox/one.md": "one\n"}, settled=True)
    addresses = ("/", "/stores/global", "/stores/global?q=note", "/activity")
    few = [asked(address) for address in addresses]
    write_files(folder, {f"knowledge/inbox/n{n}.md": f"Note {n}.\n" for n in range(300)}, settled=True)
    stores.refresh(store)
    assert [asked(address) for address in addresses] == few


def test_times_say_their_zone_and_a_clock_that_was_wrong_is_named(pages: Client, text_of: Text) -> None:
    head = "---\ntitle: T\nupdated_at: {}\n---\nx\n"
    StoreFactory(
        files={
            "knowledge/inbox/a.md": head.format("2099-01-01T00:00:00Z"),
            "knowledge/inbox/b.md": head.format("2026-01-02T03:04:05+02:00"),
        }
    )
    response = pages.get("/stores/global")
    assert (
        b'<time datetime="2026-01-02T01:04:05Z" title="2026-01-02 01:04:05 UTC">2026-01-02 01:04 UTC</time>'
        in response.content
    )
    assert "from the future: a clock was wrong" in text_of(response)


def test_a_day_s_own_words_above_its_entries_are_shown(pages: Client, memory: Memory, text_of: Text) -> None:
    path = journal.days(memory.store)[0].path
    path.write_text(path.read_text().replace("# 2026-11-29\n", "# 2026-11-29\n\nA remark by hand.\n"))
    assert "A remark by hand." in text_of(pages.get(f"/stores/{memory.name}/journal/2026-11-29"))
