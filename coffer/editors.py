"""The editors of this machine, known by id: what a file opens in is chosen from this table, never by a command line."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

DEFAULT = "default"


@dataclass(frozen=True)
class Editor:
    """An editor that is installed here."""

    id: str
    name: str


@dataclass(frozen=True)
class _Kind:
    """An editor with a window of its own: its programs, what they are given before the path, its bundle on macOS."""

    id: str
    name: str
    programs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    bundle: str = ""


_KINDS = (
    _Kind("code", "Visual Studio Code", ("code",), bundle="Visual Studio Code"),
    _Kind("codium", "VSCodium", ("codium",), bundle="VSCodium"),
    _Kind("cursor", "Cursor", ("cursor",), bundle="Cursor"),
    _Kind("windsurf", "Windsurf", ("windsurf",), bundle="Windsurf"),
    _Kind("zed", "Zed", ("zed", "zeditor"), bundle="Zed"),
    _Kind("subl", "Sublime Text", ("subl",), bundle="Sublime Text"),
    _Kind("idea", "IntelliJ IDEA", ("idea",), bundle="IntelliJ IDEA"),
    _Kind("pycharm", "PyCharm", ("pycharm",), bundle="PyCharm"),
    _Kind("webstorm", "WebStorm", ("webstorm",), bundle="WebStorm"),
    _Kind("goland", "GoLand", ("goland",), bundle="GoLand"),
    _Kind("gvim", "Vim with a window", ("gvim", "mvim"), ("-f",), bundle="MacVim"),
    _Kind("emacs", "Emacs", ("emacsclient",), ("--create-frame", "--no-wait", "--alternate-editor=emacs"), "Emacs"),
    _Kind("kate", "Kate", ("kate",)),
    _Kind("gedit", "gedit", ("gedit",)),
    _Kind("gnome-text-editor", "GNOME Text Editor", ("gnome-text-editor",)),
    _Kind(DEFAULT, "The system's choice", ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview")),
)
IDS = tuple(kind.id for kind in _KINDS)

# The daemon may have been started with a short PATH.
_MORE_FOLDERS = ("/usr/local/bin", "/opt/homebrew/bin", "/snap/bin", "~/.local/bin")


def installed() -> list[Editor]:
    """The editors found here, in the order of the table."""
    return [Editor(kind.id, kind.name) for kind in _KINDS if _command(kind) is not None]


def name_of(editor: str) -> str:
    return next((kind.name for kind in _KINDS if kind.id == editor), editor)


def command(editor: str) -> list[str] | None:
    """What starts an editor, to be followed by an absolute path; None when it is unknown or not installed."""
    return next((_command(kind) for kind in _KINDS if kind.id == editor), None)


def find(program: str) -> str | None:
    """The absolute path of a program; relative folders of PATH are not looked into."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *map(os.path.expanduser, _MORE_FOLDERS)]
    return shutil.which(program, path=os.pathsep.join(folder for folder in folders if os.path.isabs(folder)))


def _command(kind: _Kind) -> list[str] | None:
    for program in kind.programs:
        if (path := find(program)) is not None:
            return [path, *kind.arguments]
    if sys.platform == "darwin" and kind.bundle:
        for folder in (Path("/Applications"), Path.home() / "Applications"):
            if (folder / f"{kind.bundle}.app").is_dir():
                return ["/usr/bin/open", "-a", str(folder / f"{kind.bundle}.app")]
    return None
