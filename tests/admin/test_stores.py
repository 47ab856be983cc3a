"""Stores and their lanes in the admin: named, cleared, archived, read, corrected."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coffer import paths
from coffer.llm import local
from memory.files import markdown
from memory.models import Store
from memory.services import facts, journal, rules, stores
from tests.admin.conftest import Admin, hidden, shown
from tests.factories import StoreFactory, write_files
from tests.fake_llm import FakeLlm, meaning_of

PAGES = ("changelist", "change", "act", "lane", "item", "search")
LIST, CHANGE, ACT, LANE, ITEM, SEARCH = (f"memory_store_{page}" for page in PAGES)
PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
SCENE = "---\nbranch: feature/one\ncommit: ''\nupdated_at: '2026-11-30T10:00:00Z'\n---\n\nHalf done.\n"


@pytest.fixture
def project(home: Path) -> Store:
    store: Store = StoreFactory(name=PROJECT, files={"handoff/feature.md": SCENE})
    return store


def test_the_list_calls_stores_by_readable_names_and_counts_what_is_there(project: Store, site: Admin) -> None:
    stores.set_label(project, "Widget")
    facts.remember(project, "One.", actor="agent")
    write_files(paths.store(PROJECT), {"knowledge/deploys.md": "A topic.\n", "journal/2026-11-30.md": "# 2026-11-30\n"})
    facts.remember(stores.provision("global"), "Two.", actor="agent")
    page = site.get(LIST)
    assert "Widget" in shown(page)
    assert page.index(">global<") < page.index("Widget")
    for column in ("facts", "topics", "days"):
        assert f'class="field-{column}">1</td>' in page


def test_nothing_is_made_on_disk_by_looking_and_empty_lists_say_what_to_do(site: Admin) -> None:
    assert "Add a fact" in shown(site.get(LIST))
    assert "Add a fact" in shown(site.get("memory_document_changelist"))
    assert "Nothing matches" in shown(site.get("memory_document_changelist", q="words"))
    site.get(CHANGE, "global")
    for lane in ("rules", "journal", "handoff", "superseded"):
        site.get(LANE, "global", lane)
    assert not paths.memory().exists()


def test_a_store_removed_by_hand_is_no_longer_listed(project: Store, site: Admin) -> None:
    stores.set_label(project, "Widget")
    assert "Widget" in shown(site.get(LIST))
    paths.store(PROJECT).rename(paths.home() / "elsewhere")
    assert "Widget" not in shown(site.get(LIST))
    assert "There is no store" in shown(site.get(CHANGE, PROJECT))


def test_a_store_gets_a_name_that_every_surface_uses(project: Store, site: Admin) -> None:
    assert "saved" in shown(site.post(CHANGE, PROJECT, fields={"label": "  My   widget "}))
    assert stores.display_name(stores.get(PROJECT)) == "My widget"
    assert "label: My widget" in (paths.store(PROJECT) / "store.yaml").read_text()
    site.post(CHANGE, PROJECT, fields={"label": ""})
    assert stores.get(PROJECT).label == ""


@pytest.mark.parametrize(
    ("label", "told"),
    [("x" * 10_000, "10000 characters"), ("abc\u202egnp.exe", "direction characters"), (PROJECT, "form of a store")],
)
def test_a_label_that_is_refused_stays_in_the_form_with_the_reason(
    project: Store, site: Admin, label: str, told: str
) -> None:
    page = site.post(CHANGE, PROJECT, fields={"label": label})
    assert told in shown(page)
    assert f'value="{label}"' in page
    assert stores.get(PROJECT).label == ""


def test_clearing_asks_first_and_takes_facts_and_topics_only(project: Store, site: Admin) -> None:
    stores.set_label(project, "Widget")
    facts.remember(project, "One.", actor="agent")
    rules.append(project, "Always squash.")
    asked = site.get(ACT, "clear", key=PROJECT)
    assert "Widget" in shown(asked)
    assert facts.page(project)[1] == 1
    assert "1 facts and topics moved" in shown(site.confirm(ACT, "clear", PROJECT))
    assert facts.page(project)[1] == 0
    assert [rule.text for rule in rules.listing(project)] == ["Always squash."]


def test_archiving_moves_the_folder_away_and_the_global_store_stays(project: Store, site: Admin) -> None:
    stores.provision("global")
    fields = {"action": "retire", "index": "0", "_selected_action": ["global", PROJECT]}
    asked = site.post(LIST, fields=fields)
    page = site.post(ACT, "retire", fields={"keys": hidden(asked, "keys")})
    assert "1 stores moved to retired/" in shown(page)
    assert "global store cannot be removed" in shown(page)
    assert stores.names_on_disk() == ["global"]
    assert len(list(paths.retired().iterdir())) == 1


def test_rules_are_added_kept_and_removed(project: Store, site: Admin) -> None:
    assert "rule was added" in shown(
        site.post(LANE, PROJECT, "rules", fields={"verb": "add", "text": "Always squash."})
    )
    page = site.post(LANE, PROJECT, "rules", fields={"verb": "add", "text": "- always  SQUASH."})
    assert "equal rule" in shown(page)
    page = site.post(LANE, PROJECT, "rules", fields={"verb": "add", "text": "long " * 100})
    assert "are allowed" in shown(page)
    assert "long long" in page
    rules.append(project, "Never force-push.", origin="01ARZ3NDEKTSV4RRFFQ69G5FAV", new=True)
    old, new = rules.listing(project)
    page = site.get(LANE, PROJECT, "rules")
    assert "new: keep it or remove it" in shown(page)
    assert "kept" in shown(site.post(LANE, PROJECT, "rules", fields={"verb": "keep", "key": new.id}))
    assert [rule.new for rule in rules.listing(project)] == [False, False]
    asked = site.post(LANE, PROJECT, "rules", fields={"verb": "remove", "key": old.id})
    assert "Always squash." in shown(asked)
    assert len(rules.listing(project)) == 2
    confirmed = {name: hidden(asked, name) for name in ("verb", "key", "confirmed")}
    assert "rule was removed" in shown(site.post(LANE, PROJECT, "rules", fields=confirmed))
    assert [rule.text for rule in rules.listing(project)] == ["Never force-push."]
    assert "no longer there" in shown(site.post(LANE, PROJECT, "rules", fields=confirmed))


def test_a_journal_day_is_read_and_removed(project: Store, site: Admin) -> None:
    journal.append(project, "Found the <b>leak</b>.", agent="codex", at=datetime(2026, 11, 30, 10, tzinfo=UTC))
    assert "2026-11-30" in shown(site.get(LANE, PROJECT, "journal"))
    assert "Found the <b>leak</b>." in shown(site.get(ITEM, PROJECT, "journal", key="2026-11-30"))
    fields = {"verb": "remove", "key": "2026-11-30", "confirmed": "yes"}
    assert "day was removed" in shown(site.post(LANE, PROJECT, "journal", fields=fields))
    assert journal.days(project) == []
    assert "no longer there" in shown(site.get(ITEM, PROJECT, "journal", key="2026-11-30"))


def test_a_scene_is_read_removed_and_restored(project: Store, site: Admin) -> None:
    assert "feature/one" in shown(site.get(LANE, PROJECT, "handoff"))
    assert "Half done." in shown(site.get(ITEM, PROJECT, "handoff", key="feature"))
    asked = site.post(LANE, PROJECT, "handoff", fields={"verb": "remove", "key": "feature"})
    assert "feature/one" in shown(asked)
    confirmed = {name: hidden(asked, name) for name in ("verb", "key", "confirmed")}
    site.post(LANE, PROJECT, "handoff", fields=confirmed)
    assert not (paths.store(PROJECT) / "handoff/feature.md").exists()
    archived = site.get(LANE, PROJECT, "superseded")
    assert "handoff/feature.md" in shown(archived)
    file = hidden(archived, "key")
    assert "Half done." in shown(site.get(ITEM, PROJECT, "superseded", key=file))
    assert "back in its place" in shown(site.post(LANE, PROJECT, "superseded", fields={"verb": "restore", "key": file}))
    assert (paths.store(PROJECT) / "handoff/feature.md").read_text() == SCENE


def test_what_is_asked_of_something_that_has_gone_or_never_was_does_nothing(project: Store, site: Admin) -> None:
    for lane in ("rules", "journal", "handoff", "superseded"):
        for verb in ("remove", "restore", "keep", "nonsense", ""):
            for key in ("", "../../store.yaml", "nothing"):
                fields = {"verb": verb, "key": key, "confirmed": "yes"}
                assert "nothing was done" in shown(site.post(LANE, PROJECT, lane, fields=fields))
    assert "no such page" in shown(site.get(LANE, PROJECT, "knowledge"))
    assert (paths.store(PROJECT) / "handoff/feature.md").read_text() == SCENE


@pytest.mark.parametrize("lane", ["rules", "journal", "handoff", "knowledge"])
def test_a_lane_that_cannot_be_read_is_said_to_be_so(
    project: Store, site: Admin, no_overrides: None, lane: str
) -> None:
    folder = paths.store(PROJECT) / lane
    folder.mkdir(exist_ok=True)
    folder.chmod(0)
    try:
        page = site.get(CHANGE, PROJECT)
        assert "Permission denied" in shown(page) or lane in shown(page)
        if lane != "knowledge":
            page = site.get(LANE, PROJECT, lane)
        assert "cannot be read" in shown(page)
        assert "Permission denied" in shown(page)
        site.get(LIST)
        site.get("memory_document_changelist")
    finally:
        folder.chmod(0o700)


def test_BC_067_no_link_in_a_store_is_followed(project: Store, site: Admin, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("An outside byte.\n")
    folder = paths.store(PROJECT)
    for lane in ("knowledge", "rules", "journal", "superseded"):
        (folder / lane).mkdir(exist_ok=True)
        (folder / lane / ("2026-11-30.md" if lane == "journal" else "s.md")).symlink_to(outside / "secret.md")
    (folder / "handoff/main.md").symlink_to(outside / "secret.md")
    (folder / "knowledge/d").symlink_to(outside)
    pages = [site.get(CHANGE, PROJECT), site.get("memory_document_changelist", q="outside byte")]
    pages += [site.get(LANE, PROJECT, lane) for lane in ("rules", "journal", "handoff", "superseded")]
    for lane, key in (("journal", "2026-11-30"), ("handoff", "main"), ("superseded", "s.md")):
        pages.append(site.get(ITEM, PROJECT, lane, key=key))
        site.post(LANE, PROJECT, lane, fields={"verb": "remove", "key": key, "confirmed": "yes"})
        site.post(LANE, PROJECT, lane, fields={"verb": "restore", "key": key, "confirmed": "yes"})
    pages += [site.get("memory_document_change", PROJECT, ref) for ref in ("s", "secret")]
    assert not [page for page in pages if "An outside byte." in page]
    assert "links inside a store are not served" in shown(pages[0])
    assert (outside / "secret.md").read_text() == "An outside byte.\n"


def test_the_number_of_queries_does_not_grow_with_the_facts(project: Store, site: Admin) -> None:
    def queries() -> tuple[int, int]:
        counts = []
        for name, arguments in ((LIST, ()), (CHANGE, (PROJECT,))):
            site.get(name, *arguments)
            with CaptureQueriesContext(connection) as seen:
                site.get(name, *arguments)
            counts.append(len(seen))
        return counts[0], counts[1]

    write_files(paths.store(PROJECT), {}, settled=True)
    few = queries()
    write_files(paths.store(PROJECT), {f"knowledge/inbox/f{n}.md": f"Fact {n}.\n" for n in range(300)}, settled=True)
    assert queries() == few


def test_a_scene_without_a_time_or_with_odd_words_is_shown_all_the_same(project: Store, site: Admin) -> None:
    odd = markdown.dump({"branch": "a\u202eb", "updated_at": "soon"}, "Text.")
    write_files(paths.store(PROJECT), {"handoff/odd.md": odd})
    assert "a[U+202E]b" in shown(site.get(LANE, PROJECT, "handoff"))


def test_how_a_store_is_searched_is_chosen_on_its_page_and_the_default_comes_back(project: Store, site: Admin) -> None:
    page = site.post(SEARCH, PROJECT, fields={"retrieval": "hybrid", "provider": "endpoint"})
    assert "How it is searched was saved" in shown(page)
    assert "words alone answer: No embedding endpoint is set" in shown(page)
    assert stores.get(PROJECT).config == {"retrieval": "hybrid", "embedding": {"provider": "endpoint"}}
    assert '<option value="endpoint" selected>' in page
    site.get(SEARCH, PROJECT)
    assert stores.get(PROJECT).config["retrieval"] == "hybrid"
    site.post(SEARCH, PROJECT, fields={"retrieval": "", "provider": ""})
    assert stores.get(PROJECT).config == {}


def test_the_embedding_model_is_tried_with_a_button_that_says_what_it_is_unfit_for(
    project: Store, site: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "name", lambda: None)
    assert "No embedding model is there" in shown(site.post(SEARCH, PROJECT, fields={"test": "yes"}))
    facts.remember(project, "数据库迁移需要锁。", actor="agent")
    with FakeLlm() as endpoint:
        for name, value in endpoint.embedding_environment.items():
            monkeypatch.setenv(name, value)
        page = shown(site.post(SEARCH, PROJECT, fields={"test": "yes", "retrieval": "hybrid"}))
        assert "a vector of 64 numbers" in page
        endpoint.embeds = lambda request: [meaning_of(text if text.isascii() else "unknown") for text in request.texts]
        page = shown(site.post(SEARCH, PROJECT, fields={"test": "yes"}))
        assert "does not tell Chinese texts apart, and this store holds some" in page
        assert not any("数据库迁移" in text for request in endpoint.requests for text in request.texts)
    assert stores.get(PROJECT).config == {}
