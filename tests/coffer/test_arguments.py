"""What our command lines accept beyond argparse."""

from argparse import ArgumentParser

import pytest

from coffer.arguments import count, in_any_order


@pytest.fixture
def parser() -> ArgumentParser:
    parser = ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    add = verbs.add_parser("add")
    add.add_argument("store")
    add.add_argument("text", nargs="?", default="-")
    add.add_argument("--title", default="")
    add.add_argument("--yes", action="store_true")
    add.add_argument("--limit", type=count, default=50)
    merge = verbs.add_parser("merge")
    merge.add_argument("source", nargs="?")
    merge.add_argument("target", nargs="?")
    merge.add_argument("--dry-run", action="store_true")
    names = verbs.add_parser("connect")
    names.add_argument("names", nargs="*")
    names.add_argument("--yes", action="store_true")
    return in_any_order(parser)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (". words --title T", "words"),
        (". --title T words", "words"),
        ("--title T . words", "words"),
        (". --title T words --yes", "words"),
        (". --yes --title T -- --words", "--words"),
        (". --title T", "-"),
        ("--title T . --yes", "-"),
    ],
)
def test_an_optional_word_may_stand_before_or_behind_options(parser: ArgumentParser, line: str, text: str) -> None:
    found = parser.parse_args(["add", *line.split()])
    assert (found.store, found.text, found.title) == (".", text, "T")


@pytest.mark.parametrize("line", ["a b --dry-run", "a --dry-run b", "--dry-run a b"])
def test_two_optional_words_may_be_split_by_an_option(parser: ArgumentParser, line: str) -> None:
    found = parser.parse_args(["merge", *line.split()])
    assert (found.source, found.target, found.dry_run) == ("a", "b", True)


@pytest.mark.parametrize("line", ["a b --yes", "--yes a b"])
def test_a_list_of_words_may_stand_on_either_side(parser: ArgumentParser, line: str) -> None:
    assert parser.parse_args(["connect", *line.split()]).names == ["a", "b"]


@pytest.mark.parametrize("line", [". words more --yes", ". words --yes more"])
def test_a_word_too_many_is_still_refused(
    parser: ArgumentParser, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["add", *line.split()])
    assert "unrecognized arguments: more" in capsys.readouterr().err


@pytest.mark.parametrize("written", ["0", "-1", "100001", "9" * 5000, "1.5", "many", ""])
def test_a_count_that_is_none_is_told_in_a_sentence(
    parser: ArgumentParser, capsys: pytest.CaptureFixture[str], written: str
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["add", ".", "--limit", written])
    assert "is not a whole number from 1 to 100000" in capsys.readouterr().err
