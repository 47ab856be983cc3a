"""The console script ``coffer``: Django's commands under another name, with our own help and one-line errors."""

import ast
import difflib
import importlib
import logging
import os
import sys
from argparse import SUPPRESS
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agents.link import NoDaemon
from coffer import __version__, env, fs, logs, paths
from coffer.arguments import in_any_order
from coffer.errors import CofferError, where
from coffer.launchers import PACKAGES, root

if TYPE_CHECKING:
    from django.core.management.base import BaseCommand

GROUPS = (
    ("Everyday", ("up", "down", "status", "open", "doctor", "connect", "disconnect", "demo")),
    ("Memory", ("memory", "project", "organize", "merge", "backup", "restore")),
    ("Agents and sessions", ("agent", "transcript", "distill", "engine")),
    ("Developing Coffer", ("docs", "eval", "bench")),
)
_WITHOUT_DJANGO = ("up", "down", "status")  # they handle processes; setting Django up takes longer than their work
_DJANGO_OPTIONS = (
    "version",
    "verbosity",
    "settings",
    "pythonpath",
    "traceback",
    "no_color",
    "force_color",
    "skip_checks",
)
_USAGE_ERROR, _FAILED, _INTERRUPTED, _NOBODY_READS = 2, 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code: 0, 1 for an error told in one line, 2 for a wrong command line."""
    words, traceback = _without_traceback(list(sys.argv[1:] if arguments is None else arguments))
    try:
        return _answered(words, traceback=traceback)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _speak_to_nobody()
        return _NOBODY_READS


def _answered(words: list[str], *, traceback: bool) -> int:
    """The exit code once all output is out; a failure when it did not get there."""
    try:
        code = _run(words, traceback=traceback)
    except SystemExit:
        if _flushed():
            raise
        return _FAILED
    return code if _flushed() else _FAILED


def _flushed() -> bool:
    """Whether the output went where it was to go; if not, that is told."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _speak_to_nobody()
        sys.stderr.write(f"coffer: the output cannot be written ({error.strerror}).\n")
        return False
    return True


def _speak_to_nobody() -> None:
    """Let go of an output that takes no more: else the flush at exit complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def commands() -> list[tuple[str, str]]:
    """Our commands, group by group, each with its line of help."""
    return [row for _, rows in _grouped() for row in rows]


def _without_traceback(words: list[str]) -> tuple[list[str], bool]:
    """A command line without ``--traceback``, which may stand anywhere before ``--``, and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word != "--traceback"]
    return [*options, *words[end:]], len(options) < end


def _run(words: list[str], *, traceback: bool) -> int:
    match words:
        case [] | ["-h" | "--help" | "help"]:
            sys.stdout.write(_help())
            return 0
        case ["--version" | "version"]:
            sys.stdout.write(f"coffer {__version__}\n")
            return 0
        case ["help", name, *_]:
            words = [name, "--help"]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coffer.settings")
    try:
        return _dispatch(words[0], words[1:])
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        if traceback:
            raise
        sys.stderr.write(f"coffer: {_sentence(error)}\n")
        return getattr(error, "returncode", _FAILED)


def _dispatch(name: str, words: list[str]) -> int:
    from django.core.management import get_commands  # noqa: PLC0415 - help and version need no Django

    ours = _files()
    if name not in _WITHOUT_DJANGO:
        fs.ensure_home()  # else whatever needs it first fails in words of its own
        _set_up_django()
    if name in ours:
        module = ".".join(ours[name].relative_to(root()).with_suffix("").parts)
    elif not name.startswith("-") and name in get_commands():
        module = f"{get_commands()[name]}.management.commands.{name}"
    else:
        return _unknown(name, ours)
    return _execute(importlib.import_module(module).Command(), name, words, ours=name in ours)


def _set_up_django() -> None:
    import django  # noqa: PLC0415 - as above

    django.setup()
    if env.source("COFFER_LOG_LEVEL") == "default":
        for name in ("", *logs.OURS):
            logging.getLogger(name).setLevel(logging.ERROR)  # what is worth a line in a log is noise in a terminal


def _execute(command: "BaseCommand", name: str, words: list[str], *, ours: bool) -> int:
    from django.core.management.base import handle_default_options  # noqa: PLC0415 - as above

    command._called_from_command_line = True  # type: ignore[attr-defined]
    parser = in_any_order(command.create_parser("coffer", name))
    if ours:
        for action in parser._actions:
            if action.dest in _DJANGO_OPTIONS:
                action.help = SUPPRESS
    options = vars(parser.parse_args(words))
    options["skip_checks"] = True
    given = options.pop("args", ())
    handle_default_options(parser.parse_args(words))
    if getattr(command, "needs_database", ours):
        from coffer import db  # noqa: PLC0415 - needs Django to be set up

        db.prepare()
        try:
            command.execute(*given, **options)
        except Exception as error:
            if not db.damaged(error):
                raise
            db.recover()  # from the files; then once more, as the daemon does
            command.execute(*given, **options)
    else:
        command.execute(*given, **options)
    return 0


def _sentence(error: Exception) -> str:
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415 - as above
    from django.core.management.base import CommandError  # noqa: PLC0415
    from django.db import DatabaseError  # noqa: PLC0415

    if isinstance(error, CofferError | CommandError | ImproperlyConfigured | NoDaemon):
        return str(error)
    if isinstance(error, DatabaseError):
        what = f"Coffer's database in {paths.home()} cannot be used now ({error})"
        return f"{what}; look at its free space, its permissions and the limits of this shell."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}; look at free space and permissions."
    return f"something went wrong inside ({where(error)}); the same command with --traceback shows all of it."


def _unknown(name: str, ours: dict[str, Path]) -> int:
    close = difflib.get_close_matches(name, ours, n=1)
    hint = f"Did you mean `coffer {close[0]}`?" if close else "`coffer --help` lists them."
    sys.stderr.write(f"coffer: there is no command {name!r}. {hint}\n")
    return _USAGE_ERROR


def _help() -> str:
    lines = ["usage: coffer COMMAND …", "", "One memory for all the coding agents on this machine.", ""]
    for title, rows in _grouped():
        lines += [title, *(f"  {name:<12} {text}".rstrip() for name, text in rows), ""]
    return "\n".join([*lines, "`coffer COMMAND --help` tells more; `coffer --version` the version.", ""])


def _grouped() -> list[tuple[str, list[tuple[str, str]]]]:
    found = _files()
    named = {name for _, names in GROUPS for name in names}
    groups = [*GROUPS, ("Other", tuple(name for name in found if name not in named))]
    listed = [(title, [(name, _one_line(found[name])) for name in names if name in found]) for title, names in groups]
    return [(title, rows) for title, rows in listed if rows]


def _files() -> dict[str, Path]:
    """Our commands and the files they are in."""
    files = (file for package in PACKAGES for file in (root() / package / "management" / "commands").glob("[a-z]*.py"))
    return {file.stem: file for file in sorted(files)}


def _one_line(file: Path) -> str:
    """A command's ``help``, read from its source: importing them all would take seconds."""
    with suppress(OSError, SyntaxError):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if names == ["help"]:
                    return str(node.value.value)
    return ""


if __name__ == "__main__":
    sys.exit(main())
