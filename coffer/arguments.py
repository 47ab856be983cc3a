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
