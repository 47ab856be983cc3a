"""The documentation says what the program does: generated parts are current, links and commands exist."""

import re
from pathlib import Path

import pytest

from coffer.management import generated

PAGES = generated.pages()
ROOT = generated.DOCS.parent
FOR_TESTS = {"COFFER_TEST_ROUNDS", "COFFER_SHARED", "COFFER_ARTIFACTS"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == generated.refreshed(text), "run `manage.py docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_setting_named_in_the_docs_exists_and_every_setting_is_documented() -> None:
    known = {setting.name for setting in generated.env.SETTINGS} | FOR_TESTS
    named = {name for page in PAGES for name in re.findall(r"COFFER_[A-Z_]+", page.read_text(encoding="utf-8"))}
    files = {f"{name}_FILE" for name in known if name.endswith("_KEY")}  # a key may stand in a file instead
    assert named - known - files == set()
    assert known - named - FOR_TESTS == set()


def test_every_make_target_named_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))}
    # `make release` is what the example project of our texts deploys with.
    assert named - targets - {"release"} == set()


def test_every_coffer_command_named_in_the_docs_exists() -> None:
    known = {name for name, _ in generated.cli.commands()}
    named = {name for page in PAGES for name in re.findall(r"`coffer ([a-z][a-z-]*)", page.read_text(encoding="utf-8"))}
    assert named - known == set()


def test_every_tool_and_shape_of_the_store_is_documented() -> None:
    layout = (generated.DOCS / "data-layout.md").read_text(encoding="utf-8")
    for name in ("store.yaml", "knowledge/inbox", "journal/", "handoff/", "rules/", "superseded/", "coffer.sqlite3"):
        assert name in layout
