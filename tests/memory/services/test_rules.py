"""Rules: one bullet each, none twice, none lost, whatever a person wrote around them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coffer import paths
from coffer.errors import Conflict, MemoryNotFound, Rejected, StorageFailed
from coffer.models import AuditEntry
from memory.files import lanes
from memory.files import rules as bullets
from memory.models import Store
from memory.services import archive, pages, recall, rules, stores, superseded
from tests.factories import StoreFactory, write_files


def store_with(*texts: str | bytes, **files: str | bytes) -> Store:
    found = {"rules/rules.md": texts[0]} if texts else {}
    store: Store = StoreFactory(files={**found, **{f"rules/{name}.md": text for name, text in files.items()}})
    return store


def file_of(store: Store, name: str = "rules.md") -> Path:
    return stores.folder(store) / "rules" / name


def said(store: Store) -> list[str]:
    return [rule.text for rule in rules.listing(store)]


def test_nothing_is_none_and_makes_nothing() -> None:
    store = stores.get("global")
    assert rules.text(store) is None
    assert rules.listing(store) == []
    assert not paths.memory().exists()


def test_a_rule_is_one_bullet_of_rules_md() -> None:
    store = stores.get("global")
    assert rules.append(store, "  -  Always run make verify\n before pushing. ") is True
    assert file_of(store).read_text() == "- Always run make verify before pushing.\n"
    (rule,) = rules.listing(store)
    assert (rule.text, rule.path, rule.origin, rule.new) == (
        "Always run make verify before pushing.",
        file_of(store),
        "",
        False,
    )
    entry = AuditEntry.objects.get(event="rule_added")
    assert (entry.actor, entry.counts) == ("agent", {"characters": 38})


@pytest.mark.parametrize("again", ["never push tags", "* Never  push\ttags", "1. NEVER PUSH TAGS"])
def test_an_equal_rule_is_not_added_again_whichever_file_holds_it(again: str) -> None:
    store = store_with(git="- Never push tags <!-- from 01A; new -->\n")
    assert rules.append(store, again) is False
    assert not file_of(store).exists()
    assert AuditEntry.objects.filter(event="rule_added").count() == 0


def test_a_rule_behind_the_same_words_is_another_rule() -> None:
    store = store_with("- Never push tags\n")
    assert rules.append(store, "Never push tags by hand") is True
    assert said(store) == ["Never push tags", "Never push tags by hand"]


@pytest.mark.parametrize("text", ["", " \n", "- ", "<!-- -->"])
def test_an_empty_rule_is_refused(text: str) -> None:
    with pytest.raises(Rejected) as caught:
        rules.append(stores.get("global"), text)
    assert caught.value.details["reason"] == "empty"


def test_a_long_rule_is_refused_and_one_of_the_limit_is_not() -> None:
    store = stores.get("global")
    assert rules.append(store, "x" * rules.MAX_CHARS) is True
    with pytest.raises(Rejected) as caught:
        rules.append(store, "y" * (rules.MAX_CHARS + 1))
    assert caught.value.details == {"reason": "too_long", "characters": rules.MAX_CHARS + 1}


@pytest.mark.parametrize("origin", ["01J8ZQ", "my notes", "50%; new -->", "a<b>c", "日记", "journal/2026-11-30"])
def test_where_a_rule_came_from_is_read_back_and_forges_nothing(origin: str) -> None:
    store = stores.get("global")
    rules.append(store, "Do it --> <!-- from me; new -->", origin=origin, new=True)
    rules.append(store, "Another.", origin=origin)
    first, second = rules.listing(store)
    assert (first.text, first.origin, first.new) == ("Do it from me; new", origin, True)
    assert (second.text, second.origin, second.new) == ("Another.", origin, False)


def test_keeping_a_rule_takes_its_new_away_and_leaves_its_id_and_the_archive() -> None:
    store = store_with("- One. <!-- from 01A; new -->\n- Two. <!-- new -->\n")
    first, second = rules.listing(store)
    assert rules.keep(store, first.id) == rules.listing(store)[0]
    rules.keep(store, second.id)
    rules.keep(store, second.id)
    assert file_of(store).read_text() == "- One. <!-- from 01A -->\n- Two.\n"
    assert [rule.id for rule in rules.listing(store)] == [first.id, second.id]
    assert archive.listing(stores.folder(store)) == []


def test_a_removed_rule_can_be_restored_with_its_file() -> None:
    store = store_with("# Ours\n\n- One.\n  Why: because.\n\n  - nested\n- Two.\n\nText of ours.\n")
    before = file_of(store).read_text()
    one = rules.listing(store)[0]
    assert one.text == "One.\n  Why: because.\n\n  - nested"
    rules.remove(store, one.id)
    assert file_of(store).read_text() == "# Ours\n\n- Two.\n\nText of ours.\n"
    (kept,) = superseded.listing(store)
    assert (kept.lane, kept.path, kept.why) == ("rules", "rules/rules.md", "rule removed")
    superseded.restore(store, kept.file)
    assert file_of(store).read_text() == before
    assert AuditEntry.objects.get(event="rule_removed").counts == {"characters": len(one.text)}


def test_the_last_rule_takes_its_file_along() -> None:
    store = store_with("- One.\n")
    rules.remove(store, rules.listing(store)[0].id)
    assert not file_of(store).exists()
    assert rules.text(store) is None
    (kept,) = superseded.listing(store)
    assert superseded.read(store, kept.file) == "- One."


def test_the_same_rule_twice_has_two_ids_and_one_is_removed() -> None:
    store = store_with("- One.\n- one.\n- Two.\n")
    first, second, _ = rules.listing(store)
    assert first.id != second.id
    rules.remove(store, second.id)
    assert file_of(store).read_text() == "- One.\n- Two.\n"


@pytest.mark.parametrize("verb", [rules.keep, rules.remove])
def test_an_unknown_rule_is_not_found(verb: object) -> None:
    store = store_with("- One.\n")
    for unknown in ("0123456789", "../../etc/passwd", "", "x" * 5000):
        with pytest.raises(MemoryNotFound):
            verb(store, unknown)  # type: ignore[operator]
    assert file_of(store).read_text() == "- One.\n"


def test_all_files_are_one_text_with_rules_md_first() -> None:
    store = store_with("- R.\n", a="---\ntitle: A\n---\n\n- A.\n", z="- Z.\n\n", blank="\n")
    assert rules.text(store) == "- R.\n\n- A.\n\n- Z."
    assert said(store) == ["R.", "A.", "Z."]


def test_what_is_no_bullet_is_text_and_not_a_rule() -> None:
    body = "Prose.\n\n- - -\n***\n\n```\n- in code\n```\n\n+ plus\n2) numbered\n**bold** text\n\n"
    body += "~~~\n- an open fence is text\n"
    store = store_with(body)
    assert said(store) == ["plus", "numbered\n**bold** text", "an open fence is text"]
    assert rules.text(store) == body.strip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbf- One.\r\n- Two.\r\n", b"\xef\xbb\xbf- One.\r\n- Two.\r\n- New.\r\n"),
        (b"---\ntitle: 'x'\n---\n\n- One.\n", b"---\ntitle: 'x'\n---\n\n- One.\n- New.\n"),
        (b"---\ntitle: a: b\n---\n- One.\n", b"---\ntitle: a: b\n---\n- One.\n- New.\n"),
        (b"# Heading\n\nText.", b"# Heading\n\nText.\n\n- New.\n"),
        (b"", b"- New.\n"),
    ],
)
def test_a_new_rule_leaves_everything_else_as_it_was(before: bytes, after: bytes) -> None:
    store = store_with(before)
    rules.append(store, "New.")
    assert file_of(store).read_bytes() == after
    assert archive.listing(stores.folder(store)) == []


def test_bytes_that_cannot_be_read_are_archived_before_the_file_is_written() -> None:
    store = store_with(b"- caf\xe9\n")
    rules.append(store, "New.")
    (kept,) = superseded.listing(store)
    assert (stores.folder(store) / "superseded" / kept.file).read_bytes() == b"- caf\xe9\n"


def test_rules_are_never_recalled() -> None:
    store = store_with("- Always feed the walrus.\n")
    assert recall.recall([store], "walrus") == []


def test_links_in_the_lane_are_neither_read_nor_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("- A secret.\n")
    store = store_with("- One.\n")
    file_of(store, "link.md").symlink_to(outside)
    assert said(store) == ["One."]
    file_of(store).unlink()
    file_of(store).symlink_to(outside)
    assert rules.listing(store) == []
    with pytest.raises(Exception, match="leads through a link"):
        rules.append(store, "New.")
    assert outside.read_text() == "- A secret.\n"


def test_a_lane_that_is_a_link_is_empty(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rules.md").write_text("- A secret.\n")
    store: Store = StoreFactory()
    (stores.folder(store) / "rules").symlink_to(tmp_path / "elsewhere")
    assert rules.text(store) is None


def test_leftovers_and_other_files_are_not_rules() -> None:
    store = store_with("- One.\n")
    write_files(
        stores.folder(store),
        {f"rules/{name}": "- Not this." for name in ("._rules.md", ".hidden.md", "rules.md~", "rules.txt", "sub/x.md")},
    )
    assert said(store) == ["One."]


def test_a_file_changed_by_hand_in_between_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with("- One.\n")
    seen: list[bytes] = []

    def edit(page: object) -> str:
        if not seen:
            file_of(store).write_text("- One.\n- By hand.\n")
        seen.append(b"")
        body = page.body if page else ""  # type: ignore[attr-defined]
        return bullets.added(body, "- New.")

    assert pages.change(store, rules.FILE, edit, "test") is True
    assert said(store) == ["One.", "By hand.", "New."]
    assert len(seen) == 2


def test_a_file_that_never_rests_is_a_conflict_and_nothing_is_lost() -> None:
    store = store_with("- One.\n")

    def edit(page: object) -> str:
        with file_of(store).open("a") as file:
            file.write("- More.\n")
        return "- Mine."

    with pytest.raises(Conflict):
        pages.change(store, rules.FILE, edit, "test")
    assert file_of(store).read_text() == "- One.\n" + "- More.\n" * pages.RETRIES


def test_a_lane_that_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with("- One.\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lanes.os, "scandir", refuse)  # root, who runs some of these tests, may read everything
    for verb in (rules.text, rules.listing):
        with pytest.raises(StorageFailed, match=r"rules cannot be read \(Permission denied\)"):
            verb(store)


def test_a_rule_that_many_add_at_once_is_there_once() -> None:
    store = stores.provision("global")

    def write(number: int) -> bool:
        try:
            return rules.append(store, f"Rule {number % 5}.")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(write, range(40)))
    assert sum(added) == 5
    assert sorted(said(store)) == [f"Rule {number}." for number in range(5)]


def test_bc_121_copies_that_a_sync_program_leaves_are_served_and_each_rule_has_its_id() -> None:
    store = store_with(
        "- One.\n", **{"rules.sync-conflict-20260901-101500-ABCDEFG": "- One.\n- Two.\n", "rules 2": "- One.\n"}
    )
    write_files(
        stores.folder(store),
        {"rules/._rules.md": b"\x00\x05\x16\x07", "rules/.DS_Store": b"\x00", "rules/Thumbs.db": b"\x00"},
    )
    found = rules.listing(store)
    assert [rule.text for rule in found] == ["One.", "One.", "One.", "Two."]
    assert len({rule.id for rule in found}) == 4
    rules.remove(store, found[1].id)
    assert [rule.path.name for rule in rules.listing(store)].count("rules.md") == 1
    assert len(rules.listing(store)) == 3


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet="ab -*+`~#<>!1.\n\t", max_size=120), st.text(alphabet="xy z", min_size=1, max_size=10))
def test_adding_and_taking_away_a_rule_gives_the_text_back(body: str, words: str) -> None:
    line = bullets.one_line(words)
    if not line:
        return
    body = body.strip("\n").rstrip()
    grown = bullets.added(body, bullets.line(line, "01A", True))
    found = [bullet for bullet in bullets.bullets("r.md", grown) if bullet.origin == "01A"]
    assert len(found) <= 1
    for bullet in found:
        assert bullet.new
        if bullet.text == line:
            assert bullets.without(grown, bullet).rstrip() == body
