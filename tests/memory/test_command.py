"""``coffer memory …`` as a person and as a script use it."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from coffer import paths
from coffer.errors import Conflict, Invalid, MemoryNotFound, Rejected, ScopeUnresolved, StoreNotFound

Run = Callable[..., str]


@pytest.fixture
def run(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(repo)

    def command(*arguments: str) -> str:
        out = io.StringIO()
        call_command("memory", *arguments, stdout=out)
        return out.getvalue()

    return command


def test_a_fact_added_in_a_folder_is_listed_found_and_shown_there(run: Run, repo: Path) -> None:
    identity = run("add", ".", "Deploy with make release.").split()[0]
    assert "Deploy with make release." in run("facts", ".")
    assert identity in run("recall", ".", "how do we deploy")
    assert run("get", ".", identity).endswith("\n\nDeploy with make release.\n")
    assert str(repo) in run("list")


def test_the_text_may_come_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"From a pipe.\n")))
    run("add", "global")
    assert "From a pipe." in run("facts", "global")


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\x00\x00", b"Latin: \xe9\xe8"])
def test_what_is_no_text_is_refused_and_makes_no_store(run: Run, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    with pytest.raises(Invalid, match="no text"):
        run("add", ".")
    assert not paths.memory().exists()


def test_bytes_on_the_command_line_that_are_no_text_are_refused(run: Run) -> None:
    for words in (("add", ".", "caf\udce9"), ("rules", "global", "--add", "caf\udce9")):
        with pytest.raises(Invalid, match="not valid UTF-8"):
            run(*words)
    assert not paths.memory().exists()


def test_json_is_what_a_script_reads(run: Run) -> None:
    saved = json.loads(run("add", ".", "Deploy with make release.", "--json"))
    assert Path(saved["path"]).exists()
    assert json.loads(run("list", "--json"))["total"] == 2
    assert json.loads(run("facts", ".", "--json"))["facts"][0]["id"] == saved["id"]
    assert json.loads(run("get", ".", saved["id"], "--json"))["text"] == "Deploy with make release."
    assert json.loads(run("recall", ".", "deploy", "--json"))["hits"][0]["id"] == saved["id"]
    assert json.loads(run("show", ".", "--json"))["fact_count"] == 1


def test_json_tells_a_script_what_was_changed_and_where_the_version_before_lies(run: Run) -> None:
    saved = json.loads(run("add", "global", "The port is 8000.", "--json"))
    edited = json.loads(run("edit", "global", saved["id"], "--text", "The port is 9443.", "--json"))
    assert (edited["id"], edited["text"], edited["path"]) == (saved["id"], "The port is 9443.", saved["path"])
    assert "The port is 8000." in Path(edited["archived"]).read_text()

    run("add", ".", "Begins the project's store.")
    moved = json.loads(run("move", "global", saved["id"], ".", "--json"))
    assert (moved["id"], moved["store"]) == (saved["id"], json.loads(run("show", ".", "--json"))["name"])
    assert Path(moved["path"]).exists()
    assert not Path(saved["path"]).exists()
    assert "The port is 9443." in Path(moved["archived"]).read_text()

    deleted = json.loads(run("delete", ".", saved["id"], "--json"))
    assert deleted["id"] == saved["id"]
    assert "The port is 9443." in Path(deleted["archived"]).read_text()
    assert json.loads(run("clear", ".", "--yes", "--json"))["cleared"] == 1
    assert json.loads(run("label", ".", "The widget", "--json"))["display_name"] == "The widget"
    erased = json.loads(run("add", "global", "To erase.", "--json"))
    assert json.loads(run("delete", "global", erased["id"], "--forever", "--json"))["archived"] is None


def test_a_move_into_a_folder_s_project_begins_its_store_and_a_failed_one_makes_none(run: Run) -> None:
    identity = run("add", "global", "This repo deploys with make release.").split()[0]
    with pytest.raises(MemoryNotFound):
        run("move", "global", "nothing", ".")
    with pytest.raises(StoreNotFound):
        run("facts", ".")
    assert "Moved" in run("move", "global", identity, ".")
    assert "1 of 1" in run("facts", ".")
    with pytest.raises(StoreNotFound):
        run("move", ".", identity, "project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(Invalid, match="choose another store"):
        run("move", ".", identity, ".")


def test_how_well_a_hit_answers_is_told_in_percent_of_the_best_and_as_a_score_to_scripts(run: Run) -> None:
    run("add", "global", "Deploy with make release.")
    run("add", "global", "The release notes live in the wiki.")
    lines = [line for line in run("recall", "global", "deploy release").splitlines() if "global:" in line]
    assert lines[0].split()[1] == "100"
    assert all(0 < int(line.split()[1]) <= 100 and line.split()[2] == "%" for line in lines)
    hits = json.loads(run("recall", "global", "deploy release", "--json"))["hits"]
    assert isinstance(hits[0]["score"], float)


def test_a_fact_is_corrected_in_the_editor(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = run("add", ".", "The port is 8000.").split()[0]
    editor = tmp_path / "editor with a space"
    editor.write_text('#!/bin/sh\nsed -i s/8000/9443/ "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", f"'{editor}'")
    run("edit", ".", identity)
    assert "The port is 9443." in run("get", ".", identity)


def test_an_editor_that_fails_or_changes_nothing_leaves_the_fact(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = run("add", ".", "The port is 8000.").split()[0]
    monkeypatch.setenv("EDITOR", "false")
    with pytest.raises(Invalid, match="nothing was changed"):
        run("edit", ".", identity)
    monkeypatch.setenv("EDITOR", "true")
    with pytest.raises(CommandError, match="Nothing was changed"):
        run("edit", ".", identity)


def test_a_change_on_disk_while_the_editor_is_open_is_a_conflict(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = json.loads(run("add", ".", "The port is 8000.", "--json"))
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho "by hand" >> "{saved["path"]}"\necho "in the editor" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    with pytest.raises(Conflict):
        run("edit", ".", saved["id"])
    assert "by hand" in Path(saved["path"]).read_text()


def test_deleting_keeps_the_file_and_deleting_forever_leaves_none(run: Run) -> None:
    first = run("add", "global", "One to keep aside.").split()[0]
    second = run("add", "global", "One to erase.").split()[0]
    assert "superseded/" in run("delete", "global", first)
    run("delete", "global", second, "--forever")
    (kept,) = (paths.memory() / "global" / "superseded").glob("*.md")
    assert "One to keep aside." in kept.read_text()
    assert "0 of 0" in run("facts", "global")


def test_clearing_asks_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", ".", "Something.")
    with pytest.raises(CommandError, match="no terminal to ask on, so nothing was changed"):
        run("clear", ".")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    with pytest.raises(CommandError, match="Nothing was changed"):
        run("clear", ".")
    assert "1 of 1" in run("facts", ".")
    assert "Moved 1 facts" in run("clear", ".", "--yes")
    assert "0 of 0" in run("facts", ".")


def test_a_store_is_named_by_its_label_too(run: Run) -> None:
    run("add", ".", "Something.")
    assert "The widget" in run("label", ".", "The widget")
    assert "1 of 1" in run("facts", "The widget")
    with pytest.raises(StoreNotFound, match=r"(?s)name or label.*`coffer memory list`.*global.* \. for the project"):
        run("facts", "no such store")


def test_reindex_reads_every_file_and_names_those_that_need_a_look(run: Run) -> None:
    run("add", "global", "Something.")
    broken = paths.memory() / "global" / "knowledge" / "broken.md"
    broken.write_text("---\ntitle: a: b: c\n---\nbody\n")
    out = io.StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("memory", "reindex", stdout=out)
    assert stopped.value.code == 1
    assert "2 files read, 1 with warnings." in out.getvalue()
    assert str(broken) in out.getvalue()


def test_what_a_terminal_would_obey_is_shown_as_a_mark(run: Run) -> None:
    run("add", "global", "Red \x1b[31m and \u202e turned.")
    assert "Red [U+001B][31m and [U+202E] turned." in run("recall", "global", "turned")
    assert "\x1b[31m" in json.loads(run("recall", "global", "turned", "--json"))["hits"][0]["text"]


def test_output_is_utf_8_whatever_the_locale(run: Run) -> None:
    run("add", ".", "缓存每晚预热。")
    assert "缓存每晚预热。" in run("facts", ".")
    assert os.environ["COFFER_HOME"] in run("show", ".")


@pytest.mark.parametrize("text", ["", " \n", "x" * 9000])
def test_a_text_that_is_refused_begins_no_store(run: Run, text: str) -> None:
    with pytest.raises(Rejected):
        run("add", ".", "--", text)
    assert not paths.projects().exists()


def test_outside_a_repository_a_person_is_told_what_to_type(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (("facts", "."), ("add", ".", "Some text.")):
        with pytest.raises(ScopeUnresolved, match=r"cd into a repository, or give global or a name"):
            run(*words)


@pytest.mark.parametrize("label", [".", "..", "global"])
def test_a_label_that_means_something_else_is_refused(run: Run, label: str) -> None:
    run("add", ".", "Deploy with make release.")
    with pytest.raises(Invalid, match="use another one"):
        run("label", ".", label)


def test_a_person_is_warned_of_a_secret_that_is_stored_as_typed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = "The deploy key:\nghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    saved = json.loads(run("add", "global", text, "--json"))
    assert text in Path(saved["path"]).read_text()
    warning = capsys.readouterr().err
    assert "github-token in line 2" in warning
    assert f"`coffer memory delete global {saved['id']} --forever`" in warning
    assert text[-30:] not in warning
    run("delete", "global", saved["id"], "--forever")
    run("add", "global", "Deploy with make release.")
    assert capsys.readouterr().err == ""


def test_an_editor_that_fails_is_told_in_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = json.loads(run("add", "global", "The port is 8000.", "--json"))
    for editor, told in (("false", "ended with code 1"), ("/no/such", "cannot be started"), ("'", "cannot be started")):
        monkeypatch.setenv("EDITOR", editor)
        with pytest.raises(Invalid, match=told) as error:
            run("edit", "global", saved["id"])
        assert "Command" not in str(error.value)
