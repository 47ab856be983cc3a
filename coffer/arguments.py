"""What the command lines of all apps ask of argparse beyond what it does by itself."""

import re
from argparse import Action, ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable, Sequence

MOST = 100_000


def whole(least: int, most: int = MOST) -> Callable[[str], int]:
    """An argparse type: a whole number within bounds, any other told in one sentence."""

    def number(written: str) -> int:
        # Its length is looked at first: int() refuses thousands of digits with an error of its own.
        if re.fullmatch(r"[+-]?[0-9]{1,18}", written.strip()) and least <= int(written) <= most:
            return int(written)
        raise ArgumentTypeError(f"{written[:40]!r} is not a whole number from {least} to {most}")

    return number


count = whole(1)


class Verbs:
    """The verbs of a command line: its first word says which function runs, with the options of that verb."""

    def __init__(self, parser: ArgumentParser) -> None:
        self._verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def add(self, name: str, run: Callable[..., None], text: str, *, json: bool = True) -> ArgumentParser:
        """Add one; ``run`` gets its options by name, with ``json`` also ``as_json``."""
        one: ArgumentParser = self._verbs.add_parser(name, help=text, description=text)
        one.set_defaults(run=run)
        if json:
            add_json(one)
        return one


def add_json(parser: ArgumentParser) -> None:
    """The option ``--json``, as ``as_json``."""
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")


def in_any_order(parser: ArgumentParser) -> ArgumentParser:
    """Let optional positionals, here and in all verbs, stand behind options as well as before them.

    argparse settles them with the first positional: of ``STORE --title T TEXT`` it takes TEXT for one too many.
    """
    match = parser._match_arguments_partial

    def patient(actions: Sequence[Action], pattern: str) -> list[int]:
        found = match(actions, pattern)
        if "O" in pattern[sum(found) :]:
            while found and not found[-1]:
                found.pop()  # its word may come behind the option; asked again there, and at the end
        return found

    parser._match_arguments_partial = patient  # type: ignore[assignment, method-assign]
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for one in set(action.choices.values()):
                in_any_order(one)
    return parser
