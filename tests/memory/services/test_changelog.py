"""The consolidation log: lines at the end, whole or absent, never recalled."""

import re
from pathlib import Path

import pytest

from coffer.errors import Invalid
from memory.models import Store
from memory.services import changelog, recall, stores
from tests.factories import StoreFactory


def test_no_log_is_no_text_and_makes_nothing(home: Path) -> None:
    log = changelog.read(stores.get("global"))
    assert (log.text, log.path) == (None, home / "memory" / "global" / "consolidation-log.md")
    assert not (home / "memory").exists()


def test_lines_stand_one_below_the_other_behind_a_stamp_in_utc() -> None:
    store = stores.get("global")
    changelog.append(store, "merged 01A\n into deploys")
    changelog.append(store, "created walrus.md from 01B")
    text = changelog.read(store).text or ""
    stamp = r"- \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "
    assert re.fullmatch(f"{stamp}merged 01A into deploys\n{stamp}created walrus.md from 01B", text)
    assert recall.recall([store], "walrus") == []


def test_a_line_that_a_crash_cut_off_stays_a_line_of_its_own() -> None:
    store: Store = StoreFactory(files={"consolidation-log.md": "- half a li"})
    changelog.append(store, "next")
    first, second = (changelog.read(store).text or "").split("\n")
    assert first == "- half a li"
    assert second.endswith(" next")


def test_a_log_that_is_a_link_is_neither_read_nor_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    store: Store = StoreFactory()
    (stores.folder(store) / "consolidation-log.md").symlink_to(outside)
    assert changelog.read(store).text is None
    with pytest.raises(Invalid):
        changelog.append(store, "line")
    assert outside.read_text() == "secret"
