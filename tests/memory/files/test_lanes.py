import os
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from memory.files import lanes
from memory.files.lanes import Kind


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def put(store: Path, relative: str, text: str = "body\n") -> Path:
    path = store / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("relative", "kind"),
    [
        ("knowledge/inbox/a.md", Kind.FACT),
        ("knowledge/inbox/deeper/a.MD", Kind.FACT),
        ("knowledge/release.md", Kind.TOPIC),
        ("knowledge/python/index.md", Kind.TOPIC),
        ("journal/2026-11-30.md", Kind.JOURNAL),
        ("knowledge/INDEX.md", None),
        ("knowledge/Index.MD", None),
        ("journal/2026-13-30.md", None),
        ("journal/2026-02-31.md", None),
        ("journal/notes.md", None),
        ("journal/2026/2026-11-30.md", None),
        ("rules/rules.md", None),
        ("handoff/main.md", None),
        ("superseded/a.md", None),
        ("consolidation-log.md", None),
        ("old-fact.md", None),
        ("knowledge/.obsidian/a.md", None),
        ("knowledge/inbox/a.txt", None),
        ("knowledge//a.md", None),
        ("/knowledge/a.md", None),
    ],
)
def test_recall_sees_knowledge_and_journal_days_only(relative: str, kind: Kind | None) -> None:
    assert lanes.recallable(relative) is kind


LEFTOVERS = [
    ".t.md.tmp1", "tmpabc.md", "t.md~", ".#t.md", "#t.md#", ".t.md.swp", "~syncthing~t.md.tmp", "t.md.bak", "4913",
    "~lock.md", "._a.md", ".DS_Store", "Thumbs.db", "tmp8g_x2k1q.md",
]  # fmt: skip


@pytest.mark.parametrize("name", LEFTOVERS)
def test_bc_103_leftovers_are_never_served(store: Path, name: str) -> None:
    put(store, f"knowledge/inbox/{name}")
    put(store, "knowledge/inbox/good.md")
    assert lanes.recallable(f"knowledge/inbox/{name}") is None
    assert list(lanes.walk(store).files) == ["knowledge/inbox/good.md"]
    assert (store / "knowledge/inbox" / name).exists()


def test_bc_103_a_page_named_like_a_temporary_file_is_reported_not_dropped_in_silence(store: Path) -> None:
    put(store, "knowledge/inbox/tmpwatch.md")
    put(store, "knowledge/inbox/tmp-folders.md")
    listing = lanes.walk(store)
    assert list(listing.files) == ["knowledge/inbox/tmp-folders.md"]
    assert [path for path, _ in listing.skipped] == ["knowledge/inbox/tmpwatch.md"]


@pytest.mark.parametrize(
    "name",
    ["a.sync-conflict-20260901-101500-ABCDEFG.md", "a (1).md", "a 2.md", "tea.md", "INDEX notes.md", "Index-2.md"],
)
def test_bc_121_copies_and_conflict_copies_are_served(store: Path, name: str) -> None:
    put(store, f"knowledge/inbox/{name}")
    assert list(lanes.walk(store).files) == [f"knowledge/inbox/{name}"]


def test_walk_and_recallable_agree_on_a_whole_store(store: Path) -> None:
    names = [*LEFTOVERS, "a.md", "B.Md", "INDEX.md", "index.md.md", "Über.md", "note.txt", "tmp.md", "it.md"]
    folders = [
        "",
        "knowledge/",
        "knowledge/inbox/",
        "knowledge/inbox/x/",
        "knowledge/deep/er/",
        "knowledge/.git/",
        "knowledge/#x/",
        "rules/",
    ]
    for folder in folders:
        for name in names:
            put(store, folder + name)
    for name in ("2026-01-01.md", "2026-01-01 copy.md", "x.md", ".2026-01-01.md"):
        put(store, f"journal/{name}")
    every = [path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()]
    listing = lanes.walk(store)
    assert sorted(listing.files) == sorted(path for path in every if lanes.recallable(path))
    assert listing.kinds == Counter(map(lanes.recallable, listing.files))


def test_a_listing_has_the_signature_of_each_file(store: Path) -> None:
    path = put(store, "knowledge/a.md", "12345")
    found = os.stat(path)
    expected = (5, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    listed = lanes.walk(store).files["knowledge/a.md"]
    assert listed == expected
    assert listed.size == 5
    assert lanes.stat(store, "knowledge/a.md") == listed


def test_a_single_file_has_no_signature_when_recall_may_not_see_it(store: Path) -> None:
    put(store, "rules/rules.md")
    (store / "knowledge/folder.md").mkdir(parents=True)
    for relative in ("rules/rules.md", "knowledge/gone.md", "knowledge/folder.md", "knowledge/../rules/rules.md"):
        assert lanes.stat(store, relative) is None


def test_bc_067_links_are_neither_served_nor_followed_and_are_reported(store: Path, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "secret.md")
    put(store, "knowledge/inbox/good.md")
    put(store, "handoff/main.md")
    links = {
        "knowledge/s.md": outside,
        "knowledge/d": outside.parent,
        "knowledge/inbox/own.md": store / "knowledge/inbox/good.md",
        "knowledge/inbox/dangling.md": tmp_path / "nowhere",
        "journal/2026-01-01.md": outside,
        "handoff/feature.md": outside,
        "rules": outside.parent,
    }
    for name, target in links.items():
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).symlink_to(target)
    listing = lanes.walk(store)
    assert list(listing.files) == ["knowledge/inbox/good.md"]
    assert sorted(path for path, _ in listing.skipped) == sorted(links)
    assert all("link" in reason for _, reason in listing.skipped)
    for name in links:
        assert not lanes.is_plain(store, name)
        assert lanes.stat(store, name) is None
    assert not lanes.is_plain(store, "knowledge/d/secret.md")


def test_bc_067_a_linked_root_keeps_working(store: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "knowledge/a.md")
    store.symlink_to(tmp_path / "elsewhere")
    assert list(lanes.walk(store).files) == ["knowledge/a.md"]
    assert lanes.is_plain(store, "knowledge/a.md")


@pytest.mark.parametrize("relative", ["../x", "a/../../x", "", ".", "/etc/passwd", "a//b", "a\0b"])
def test_a_path_that_leaves_the_store_is_not_plain(store: Path, relative: str) -> None:
    assert not lanes.is_plain(store, relative)


def test_an_emacs_lock_is_no_link_worth_a_report(store: Path) -> None:
    put(store, "knowledge/t.md")
    (store / "knowledge/.#t.md").symlink_to("me@host.1234")
    assert lanes.walk(store).skipped == []


def test_a_missing_store_is_an_empty_listing(store: Path) -> None:
    assert lanes.walk(store) == lanes.Listing({}, [])


def test_a_name_that_is_no_utf_8_is_skipped_with_a_printable_name(store: Path) -> None:
    put(store, "knowledge/good.md")
    Path(os.fsdecode(os.fsencode(store) + b"/knowledge/caf\xe9.md")).write_bytes(b"x")
    os.mkdir(os.fsencode(store) + b"/knowledge/d\xe9")
    listing = lanes.walk(store)
    assert list(listing.files) == ["knowledge/good.md"]
    assert sorted(path for path, _ in listing.skipped) == ["knowledge/caf\ufffd.md", "knowledge/d\ufffd"]


def test_a_pipe_is_no_memory(store: Path) -> None:
    put(store, "knowledge/good.md")
    os.mkfifo(store / "knowledge/pipe.md")
    listing = lanes.walk(store)
    assert list(listing.files) == ["knowledge/good.md"]
    assert [path for path, _ in listing.skipped] == ["knowledge/pipe.md"]


def test_a_folder_that_cannot_be_read_is_skipped_and_the_rest_is_served(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "knowledge/good.md")
    put(store, "knowledge/closed/a.md")
    real = os.open

    def refuse(path: str, flags: int) -> int:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path, flags)

    monkeypatch.setattr(os, "open", refuse)  # root may read every folder
    listing = lanes.walk(store)
    assert list(listing.files) == ["knowledge/good.md"]
    assert listing.skipped == [("knowledge/closed", "it cannot be read: Permission denied")]


def test_a_journal_file_that_is_no_day_is_reported(store: Path) -> None:
    put(store, "journal/2026-11-30.md")
    put(store, "journal/2026-11-30.sync-conflict-20261130-101500-ABCDEFG.md")
    listing = lanes.walk(store)
    assert list(listing.files) == ["journal/2026-11-30.md"]
    assert len(listing.skipped) == 1


def test_bc_119_both_forms_of_a_name_are_two_files(store: Path) -> None:
    composed = "knowledge/Überblick.md"
    both = {composed, unicodedata.normalize("NFD", composed)}
    for relative in both:
        put(store, relative)
    if len(os.listdir(store / "knowledge")) == 1:
        pytest.skip("this file system joins the two forms")
    assert set(lanes.walk(store).files) == both
