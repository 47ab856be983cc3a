"""Facts and topics in the admin: found, added, corrected, deleted, moved; the file is what counts."""

import html
import re
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coffer import fs, later, paths
from coffer.models import AuditEntry
from memory.models import Store
from memory.services import facts, recall, stores
from tests.admin.conftest import Admin, hidden, shown
from tests.factories import write_files

LIST, ADD, CHANGE, ACT = (f"memory_document_{page}" for page in ("changelist", "add", "change", "act"))
PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def store(home: Path) -> Store:
    return stores.provision("global")


def titles(page: str) -> list[str]:
    return [shown(f"<body {row}") for row in re.findall(r'<th class="field-shown_title">(.*?)</th>', page, re.S)]


def form_of(page: str, **changes: str) -> dict[str, str]:
    """The fields of a fact's page as a browser sends them, line ends included."""
    title = re.search(r'<input[^>]*name="title"[^>]*?(?: value="([^"]*)")?[^>]*>', page)
    text = re.search(r'<textarea name="text"[^>]*>\n(.*?)</textarea>', page, re.S)
    assert title, "no title"
    assert text, "no text"
    value = re.search(r'value="([^"]*)"', title[0])
    fields = {"title": html.unescape(value[1]) if value else "", "description": "", "sha256": hidden(page, "sha256")}
    fields["text"] = html.unescape(text[1])
    return {name: value.replace("\n", "\r\n") for name, value in {**fields, **changes}.items()}


def test_a_fact_is_found_by_a_word_of_its_text_and_the_best_answer_stands_first(store: Store, site: Admin) -> None:
    facts.remember(store, "Deploys need two approvals.", actor="agent", title="Deploys")
    facts.remember(store, "The cache is emptied by hand. Approvals are not needed.", actor="agent", title="Cache")
    facts.remember(store, "Nothing to do with it.", actor="agent", title="Other")
    assert titles(site.get(LIST, q="approving deployments"))[0] == "Deploys"
    assert "Other" not in titles(site.get(LIST, q="approvals"))
    assert titles(site.get(LIST, q="ache is empt")) == ["Cache"]
    assert titles(site.get(LIST, q="nowhere to be found")) == []


def test_a_search_in_one_store_looks_in_that_store_only(store: Store, site: Admin) -> None:
    facts.remember(store, "Deploys are global.", actor="agent")
    facts.remember(stores.provision(PROJECT), "Deploys of the project.", actor="agent")
    assert titles(site.get(LIST, q="deploys", store=PROJECT)) == ["Deploys of the project."]
    assert len(titles(site.get(LIST, q="deploys"))) == 2


def test_looking_for_a_fact_does_not_count_as_a_recall(store: Store, site: Admin) -> None:
    from memory.models import Use

    facts.remember(store, "Deploys need two approvals.", actor="agent")
    site.get(LIST, q="deploys")
    later.flush()
    assert not Use.objects.exists()


def test_the_list_shows_what_lies_on_disk_and_the_kinds_apart(store: Store, site: Admin) -> None:
    write_files(
        paths.store("global"),
        {
            "knowledge/inbox/one.md": "A fact by hand.\n",
            "knowledge/deploys.md": "---\ntitle: Deploys\n---\n\nA topic.\n",
            "knowledge/INDEX.md": "derived",
        },
    )
    assert sorted(titles(site.get(LIST))) == ["Deploys", "one"]
    assert titles(site.get(LIST, kind="topic")) == ["Deploys"]
    (paths.store("global") / "knowledge/deploys.md").unlink()
    assert titles(site.get(LIST)) == ["one"]


def test_a_fact_that_was_added_is_a_file_that_recall_finds(store: Store, site: Admin) -> None:
    fields = {
        "store": "global",
        "title": "",
        "description": "",
        "text": "Deploys are frozen in August.\r\n\r\nAll of it.",
    }
    page = site.post(ADD, fields=fields)
    assert "Saved" in shown(page)
    (file,) = (paths.store("global") / "knowledge/inbox").glob("*.md")
    assert b"\r" not in file.read_bytes()
    assert recall.recall([store], "when are deploys frozen")[0].text.startswith("Deploys are frozen in August.")
    assert AuditEntry.objects.get(event="fact_added").actor == "user"


def test_a_text_that_is_refused_stays_in_the_form_with_the_reason(store: Store, site: Admin) -> None:
    page = site.post(ADD, fields={"store": "global", "title": "Kept title", "text": "long " * 2000})
    assert "are allowed" in shown(page)
    assert "long long long" in page
    assert 'value="Kept title"' in page
    assert facts.page(store)[1] == 0


def test_a_correction_is_told_by_the_next_recall_and_keeps_the_rest(store: Store, site: Admin) -> None:
    saved = facts.remember(store, "Deploys need\n\n    two\n\napprovals.", actor="agent", session="s1", title="Deploys")
    fields = form_of(site.get(CHANGE, "global", saved.id))
    page = site.post(CHANGE, "global", saved.id, fields={**fields, "text": fields["text"].replace("two", "three")})
    assert "Saved" in shown(page)
    fact = facts.get(store, saved.id)
    assert (fact.text, fact.title) == ("Deploys need\n\n    three\n\napprovals.", "Deploys")
    assert fact.metadata == {"actor": "agent", "origin_session_id": "s1"}
    assert "three" in recall.recall([store], "deploys approvals")[0].text
    assert len(list((paths.store("global") / "superseded").glob("*.md"))) == 1


def test_saving_without_a_change_touches_nothing(store: Store, site: Admin) -> None:
    write_files(paths.store("global"), {"knowledge/inbox/by-hand.md": b"\xef\xbb\xbfA line.\r\n\r\n  Another.  \r\n"})
    before = (paths.store("global") / "knowledge/inbox/by-hand.md").read_bytes()
    page = site.post(CHANGE, "global", "by-hand", fields=form_of(site.get(CHANGE, "global", "by-hand")))
    assert "Nothing was changed" in shown(page)
    assert (paths.store("global") / "knowledge/inbox/by-hand.md").read_bytes() == before


def test_of_two_who_save_one_fact_the_second_sees_both_versions_and_loses_nothing(store: Store, site: Admin) -> None:
    saved = facts.remember(store, "Two approvals.", actor="agent")
    opened = site.get(CHANGE, "global", saved.id)
    site.post(CHANGE, "global", saved.id, fields=form_of(opened, text="Three approvals, says the first."))
    page = site.post(CHANGE, "global", saved.id, fields=form_of(opened, text="Four approvals, says the second."))
    assert "changed by somebody else" in shown(page)
    assert "Three approvals, says the first." in page.partition('id="there"')[2]
    assert "Four approvals, says the second." in page.partition('id="there"')[0]
    assert facts.get(store, saved.id).text == "Three approvals, says the first."
    again = site.post(CHANGE, "global", saved.id, fields=form_of(page))
    assert "Saved" in shown(again)
    assert facts.get(store, saved.id).text == "Four approvals, says the second."
    archived = [path.read_text() for path in (paths.store("global") / "superseded").glob("*.md")]
    assert any("Three approvals" in text for text in archived)


def test_a_fact_removed_while_its_page_is_open_can_be_saved_as_a_new_one(store: Store, site: Admin) -> None:
    saved = facts.remember(store, "Two approvals.", actor="agent")
    opened = site.get(CHANGE, "global", saved.id)
    saved.path.unlink()
    page = site.post(CHANGE, "global", saved.id, fields=form_of(opened, text="Three approvals."))
    assert "no longer there" in shown(page)
    assert "Three approvals." in page
    site.post(CHANGE, "global", saved.id, fields={**form_of(page), "_asnew": "yes"})
    assert [fact.text for fact in facts.page(store)[0]] == ["Three approvals."]


def test_what_was_typed_while_another_program_holds_the_store_stays_in_the_form(
    store: Store, site: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = facts.remember(store, "Two approvals.", actor="agent")
    opened = site.get(CHANGE, "global", saved.id)
    monkeypatch.setattr(stores.write_lock.__wrapped__, "__kwdefaults__", {"seconds": 0.1, "begin": False})
    with fs.locked("global.write.lock"):
        page = site.post(CHANGE, "global", saved.id, fields=form_of(opened, text="Three approvals."))
    assert "Another process" in shown(page)
    assert "Three approvals." in page


def test_a_store_retired_while_a_fact_of_it_is_open_loses_nothing_that_was_typed(site: Admin) -> None:
    store = stores.provision(PROJECT)
    saved = facts.remember(store, "Two approvals.", actor="agent")
    opened = site.get(CHANGE, PROJECT, saved.id)
    stores.retire(store)
    page = site.post(CHANGE, PROJECT, saved.id, fields=form_of(opened, text="Three approvals."))
    assert "no longer there" in shown(page)
    assert "Three approvals." in page


@pytest.mark.parametrize("ref", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "nothing", "../../../etc/passwd", "journal/2026-01-01"])
def test_the_page_of_a_fact_that_is_not_there_says_so(store: Store, site: Admin, ref: str) -> None:
    assert "no longer there" in shown(site.get(CHANGE, "global", ref))


@pytest.mark.parametrize("name", ["nowhere", "project-01ARZ3NDEKTSV4RRFFQ69G5FAV", "..", '"><img src=x>'])
def test_the_page_of_a_store_that_is_not_there_says_so(store: Store, site: Admin, name: str) -> None:
    assert "no longer there" in shown(site.get(CHANGE, name, "x"))
    for page in (site.get("memory_store_change", name), site.get("memory_store_lane", name, "rules")):
        assert "A store is named" in shown(page) or "There is no store" in shown(page)
        assert "<img src=x" not in page


def test_frontmatter_that_is_no_yaml_is_said_to_be_so_and_its_text_can_still_be_corrected(
    store: Store, site: Admin
) -> None:
    write_files(paths.store("global"), {"knowledge/inbox/odd.md": "---\ntitle: [open\n---\n\nOld text.\n"})
    opened = site.get(CHANGE, "global", "odd")
    page = site.post(CHANGE, "global", "odd", fields=form_of(opened, title="Another"))
    assert "not valid YAML" in shown(page)
    site.post(CHANGE, "global", "odd", fields=form_of(opened, text="New text."))
    assert facts.get(store, "odd").text == "New text."


def test_a_file_that_is_no_text_is_not_offered_for_correction(store: Store, site: Admin) -> None:
    write_files(paths.store("global"), {"knowledge/inbox/binary.md": b"\0\1\2" * 100})
    page = site.get(CHANGE, "global", "binary")
    assert "cannot be shown" in shown(page)
    assert "<textarea" not in page


def test_deleting_asks_first_names_the_thing_and_can_be_undone(store: Store, site: Admin) -> None:
    saved = facts.remember(store, "Two approvals.", actor="agent")
    asked = site.get(ACT, "delete", key=f"global/{saved.id}")
    assert "Two approvals." in shown(asked)
    assert saved.path.exists()
    assert "1 deleted" in shown(site.confirm(ACT, "delete", f"global/{saved.id}"))
    assert not saved.path.exists()
    assert recall.recall([store], "approvals") == []
    archive = site.get("memory_store_lane", "global", "superseded")
    file = hidden(archive, "key")
    site.post("memory_store_lane", "global", "superseded", fields={"verb": "restore", "key": file})
    assert recall.recall([store], "approvals")[0].id == saved.id


def test_a_choice_in_the_list_is_asked_about_by_name_before_anything_is_done(store: Store, site: Admin) -> None:
    ids = [facts.remember(store, f"Fact number {number}.", actor="agent").id for number in range(3)]
    assert f'value="global/{ids[0]}"' in site.get(LIST)
    chosen = [f"global/{identity}" for identity in ids[:2]]
    fields = {"action": "delete", "index": "0", "select_across": "0", "_selected_action": chosen}
    asked = site.post(LIST, fields=fields)
    assert "Fact number 0." in shown(asked)
    assert "Fact number 2." not in shown(asked)
    assert facts.page(store)[1] == 3
    assert "2 deleted" in shown(site.post(ACT, "delete", fields={"keys": hidden(asked, "keys")}))
    assert [fact.id for fact in facts.page(store)[0]] == ids[2:]


def test_all_that_a_list_holds_can_be_chosen(store: Store, site: Admin) -> None:
    write_files(paths.store("global"), {f"knowledge/inbox/f{n}.md": f"Fact {n}.\n" for n in range(1100)})
    first = {"action": "delete", "index": "0", "select_across": "1", "_selected_action": "global/f1"}
    asked = site.post(LIST, fields=first)
    assert "1100 in all" in shown(asked)


def test_an_action_on_something_that_has_gone_meanwhile_says_so_and_does_the_rest(store: Store, site: Admin) -> None:
    first, second = (facts.remember(store, text, actor="agent") for text in ("One.", "Two."))
    first.path.unlink()
    page = site.post(ACT, "delete", fields={"keys": f'["global/{first.id}", "global/{second.id}"]'})
    assert "1 deleted" in shown(page)
    assert "holds no fact or topic" in shown(page)


def test_an_action_that_is_none_or_malformed_does_nothing(store: Store, site: Admin) -> None:
    facts.remember(store, "One.", actor="agent")
    assert "no such action" in shown(site.get(ACT, "nonsense"))
    for keys in ("", "{", "7", '[{"a": 1}]', '["nowhere/x"]', '["global"]'):
        site.post(ACT, "delete", fields={"keys": keys})
    assert "No action was chosen" in shown(site.post(LIST, fields={"index": "0", "_selected_action": "global/x"}))
    assert facts.page(store)[1] == 1


def test_BC_047_a_delete_forever_leaves_no_byte_in_files_or_database(store: Store, site: Admin) -> None:
    secret = "FAKE-hunter2-9x"
    saved = facts.remember(store, f"prod db password is {secret}", actor="agent")
    fields = form_of(site.get(CHANGE, "global", saved.id))
    site.post(CHANGE, "global", saved.id, fields={**fields, "text": f"{fields['text']} indeed"})
    site.get(LIST, q=secret)
    assert "Nothing brings them back" in shown(site.get(ACT, "erase", key=f"global/{saved.id}"))
    page = site.confirm(ACT, "erase", f"global/{saved.id}")
    assert "1 deleted forever" in shown(page)
    assert secret not in page
    later.flush()
    connection.close()
    left = [path for path in paths.home().rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert left == []


def test_a_fact_moves_to_another_store_with_its_id(store: Store, site: Admin) -> None:
    stores.set_label(stores.provision(PROJECT), "Widget")
    saved = facts.remember(store, "Two approvals.", actor="agent")
    asked = site.get(ACT, "move", key=f"global/{saved.id}")
    assert "Widget" in shown(asked)
    assert "1 moved" in shown(site.confirm(ACT, "move", f"global/{saved.id}", target=PROJECT))
    assert facts.get(stores.get(PROJECT), saved.id).text == "Two approvals."
    assert facts.page(store)[1] == 0


def test_a_move_without_a_target_asks_again(store: Store, site: Admin) -> None:
    saved = facts.remember(store, "Two approvals.", actor="agent")
    page = site.confirm(ACT, "move", f"global/{saved.id}", target="nowhere")
    assert "Two approvals." in shown(page)
    assert "Select a valid choice" in shown(page)
    assert "already" in shown(site.confirm(ACT, "move", f"global/{saved.id}", target="global"))
    assert facts.page(store)[1] == 1


def test_the_number_of_queries_does_not_grow_with_the_facts(store: Store, site: Admin) -> None:
    def queries(**query: str) -> int:
        site.get(LIST, **query)
        with CaptureQueriesContext(connection) as seen:
            site.get(LIST, **query)
        return len(seen)

    write_files(paths.store("global"), {f"knowledge/inbox/f{n}.md": f"Deploy {n}.\n" for n in range(3)}, settled=True)
    few = queries(), queries(q="deploy"), queries(store="global")
    write_files(
        paths.store("global"), {f"knowledge/inbox/g{n}.md": f"Deploy {n} again.\n" for n in range(300)}, settled=True
    )
    assert (queries(), queries(q="deploy"), queries(store="global")) == few


def test_the_admin_writes_no_log_of_its_own(store: Store, site: Admin) -> None:
    from django.contrib.admin.models import LogEntry

    saved = facts.remember(store, "Two approvals.", actor="agent")
    site.post(CHANGE, "global", saved.id, fields=form_of(site.get(CHANGE, "global", saved.id), text="Three."))
    site.confirm(ACT, "delete", f"global/{saved.id}")
    assert not LogEntry.objects.exists()


def test_a_fact_that_cannot_be_read_says_so_and_is_not_offered_for_correction(
    store: Store, site: Admin, no_overrides: None
) -> None:
    saved = facts.remember(store, "Two approvals.", actor="agent")
    opened = site.get(CHANGE, "global", saved.id)
    saved.path.chmod(0)
    page = site.get(CHANGE, "global", saved.id)
    assert "ermission" in shown(page)
    assert "<textarea" not in page
    page = site.post(CHANGE, "global", saved.id, fields=form_of(opened, text="Three approvals."))
    assert "took away the right to read" in shown(page)
    assert "Three approvals." in page
    saved.path.chmod(0o600)
    assert facts.get(store, saved.id).text == "Two approvals."
