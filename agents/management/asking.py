"""A yes or no on the terminal."""

import sys

from django.core.management.base import CommandError


def confirm(question: str, *, yes: bool, otherwise: str) -> None:
    """Go on when the person says so or ``yes`` is set. Raises CommandError: nobody to ask, or the answer was no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"There is no terminal to ask on, so nothing was changed. {otherwise}")
    try:
        answer = input(f"{question} [y/N] ").strip().lower()
    except EOFError:
        answer = ""
    if answer not in ("y", "yes"):
        raise CommandError("Nothing was changed.")
