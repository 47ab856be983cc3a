"""Literal search of files, the same with and without ripgrep (FR-008, FR-032)."""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.retrieval import grep

TEXTS = {
    "a.md": "first line\nthe paren ( stands here\n",
    "b.md": "a needle in the haystack\r\nand more",
    "c.md": "NEEDLE and haystack apart\n",
    "d.md": "cost is a+b (a+)+$ and --files\n",
    "e.md": "缓存穿透\nÜberblick\n",
}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "inbox"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_bytes(text.encode())
    return sorted(folder.iterdir())


@pytest.fixture
def no_ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


def names(query: str, files: Sequence[Path], limit: int = 10) -> list[str]:
    return [match.path.name for match in grep.search(query, files, limit)]


@pytest.mark.usefixtures("no_ripgrep")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("(", ["a.md", "d.md"]),
        ("eedl", ["b.md", "c.md"]),
        ("(a+)+$", ["d.md"]),
        ("[unclosed", []),
        ("--files", ["d.md"]),
        ("--pre=touch /tmp/pwned-rg", []),
        ("-f/etc/passwd", []),
        ("存穿", ["e.md"]),
        ("überblick", ["e.md"]),
        ("U\u0308BERBLICK", ["e.md"]),
        ("", []),
        (" \n", []),
        ("\x00", []),
        ("\ud800", []),
        ("x" * 100_000, []),
        ("a\\", []),
    ],
)
def test_a_query_is_taken_literally(files: list[Path], query: str, expected: list[str]) -> None:
    assert names(query, files) == expected


@pytest.mark.usefixtures("no_ripgrep")
def test_the_whole_query_beats_all_pieces_and_these_beat_some(files: list[Path]) -> None:
    assert names("needle haystack", files) == ["b.md", "c.md"]
    assert names("haystack apart", files) == ["c.md", "b.md"]
    assert names("needle and haystack", files) == ["c.md", "b.md"]
    assert names("haystack", files, limit=1) == ["b.md"]
    assert names("haystack", files, limit=0) == []


@pytest.mark.usefixtures("no_ripgrep")
def test_stop_words_count_only_when_there_is_nothing_else(files: list[Path]) -> None:
    assert names("where is the paren", files) == ["a.md"]
    assert names("the", files) == ["a.md", "b.md"]


@pytest.mark.usefixtures("no_ripgrep")
def test_a_match_names_the_line(files: list[Path]) -> None:
    (match,) = grep.search("STANDS", files, 5)
    assert (match.line_number, match.line) == (2, "the paren ( stands here")
    assert match.offset == TEXTS["a.md"].index("stands")


@pytest.mark.usefixtures("no_ripgrep")
def test_links_pipes_folders_and_missing_files_are_passed_over(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("needle outside", encoding="utf-8")
    link, pipe = tmp_path / "link.md", tmp_path / "pipe.md"
    link.symlink_to(tmp_path / "secret")
    os.mkfifo(pipe)
    assert names("needle", [link, pipe, tmp_path, tmp_path / "gone.md", *files]) == ["b.md", "c.md"]


@pytest.mark.usefixtures("no_ripgrep")
def test_other_encodings_are_read_as_well_as_they_can_be(tmp_path: Path) -> None:
    (tmp_path / "utf16.md").write_bytes("wide needle".encode("utf-16"))
    (tmp_path / "latin.md").write_bytes("caf\u00e9 needle".encode("latin-1"))
    assert names("needle", sorted(tmp_path.iterdir())) == ["latin.md", "utf16.md"]


@pytest.fixture
def many(files: list[Path]) -> list[Path]:
    for number in range(grep.MIN_FILES_FOR_RIPGREP):
        (files[0].parent / f"z{number:03}.md").write_text(f"filler {number}\n", encoding="utf-8")
    return sorted(files[0].parent.iterdir())


def fake_ripgrep(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bin" / "rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("query", ["--files", "-e xy", "--pre=touch /tmp/x", "-f/etc/passwd", "$(id)", "`id`"])
def test_ripgrep_gets_a_query_as_patterns_and_nothing_else(
    many: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/nowhere")
    fake_ripgrep(
        tmp_path, monkeypatch, f'printf "%s\\n" "$@" "config=$RIPGREP_CONFIG_PATH" > {tmp_path}/seen\nexit 1\n'
    )
    assert grep.search(query, many, 5) == []
    seen = (tmp_path / "seen").read_text(encoding="utf-8").splitlines()
    patterns = [word for piece in query.split() for word in ("-e", piece)]
    assert seen[-len(patterns) - 3 :] == [*patterns, "--", str(many[0].parent), "config="]
    assert {"--no-config", "--fixed-strings", "--no-follow"} <= set(seen)


@pytest.mark.parametrize("script", ["exit 2\n", "echo nonsense; exit 3\n", "exec sleep 60\n", "kill -9 $$\n"])
def test_a_ripgrep_that_fails_or_hangs_changes_nothing(
    many: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    fake_ripgrep(tmp_path, monkeypatch, script)
    assert names("needle", many) == ["b.md", "c.md"]


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize(
    "query",
    ["(", "eedl", "(a+)+$", "--files", "-e x", "[unclosed", "haystack apart", "filler 7", "a\\", "k", "缓存", "\x00"],
)
def test_ripgrep_and_python_find_the_same(many: list[Path], monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    folder = many[0].parent
    (folder / "kelvin.md").write_text("\u212a and \u017f", encoding="utf-8")
    (folder / "wide.md").write_bytes("wide needle (".encode("utf-16"))
    (folder / "zero.md").write_bytes(b"needle\x00haystack apart (")
    (folder / ".hidden.md").write_bytes(b"needle ( hidden")
    (folder / ".ignore").write_text("*\n", encoding="utf-8")
    everything = sorted(folder.iterdir())
    with_program = grep.search(query, everything, 100)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert grep.search(query, everything, 100) == with_program


def test_only_the_given_files_are_answered(many: list[Path]) -> None:
    given = [path for path in many if path.name != "b.md"]
    assert names("needle", given) == ["c.md"]
