"""Open a file of memory in the person's editor, or show it in the file manager (FR-021).

Threats answered here (BC-149): a path that leads out of memory, by a link too; a name that a shell, an option parser
or a launcher would obey; a page that names a program. Only existing files and folders below a registered place are
passed on, resolved and absolute, in an argument list, to a program from the table of editors.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

from coffer import editors as table
from coffer import preferences, registry
from coffer.editors import Editor
from coffer.errors import ConfigInvalid, Forbidden, NotFound

PATIENCE = 0.5  # seconds in which an editor that cannot start has said so
_OPENED = {".md", ".yaml", ".yml", ".json", ".jsonl", ".txt", ".log"}  # what a launcher shows and never runs
_LAUNCHED = (".app", ".desktop", ".bundle", ".workflow", ".command")  # what it would run, as a folder too
_KEPT_NAMES = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"} | {
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "WSL_DISTRO_NAME", "WSL_INTEROP"),
}
_KEPT_PREFIXES = ("LC_", "XDG_")


def editors() -> list[Editor]:
    """The editors of this machine, to choose from by id."""
    return table.installed()


def open_file(path: str | Path, *, editor: str | None = None) -> Editor:
    """Open a file or folder in the editor of that id, else in the preferred one; says which it was.

    Raises Forbidden for what is not memory's, NotFound, and ConfigInvalid for an editor that is not there or fails.
    """
    found = _checked(path)
    if found.is_file() and found.suffix.lower() not in _OPENED:
        raise Forbidden("Only text files of memory are opened; use reveal for others.")
    chosen, command = _chosen(editor)
    _start([*command, str(found)], chosen.name)
    return chosen


def reveal(path: str | Path) -> Path:
    """Show a file or folder in the file manager; returns the folder that opens. Raises as ``open_file``."""
    found = _checked(path)
    folder = found if found.is_dir() else found.parent
    command = table.command(table.DEFAULT)
    if command is None:
        raise ConfigInvalid(f"No file manager was found on this machine; the folder is {folder}.")
    arguments = ["-R", str(found)] if sys.platform == "darwin" else [str(folder)]
    _start([*command, *arguments], "The file manager")
    return folder


def _checked(given: str | Path) -> Path:
    """The real path of an existing file or folder below a registered place."""
    path = Path(given)
    try:
        if not path.is_absolute() or "\0" in str(given):
            raise _outside()
        found = path.resolve()
        places = [place.resolve() for place in registry.openable()]
    except (OSError, RuntimeError, ValueError):  # names too long, links in a circle
        raise _outside() from None
    if not any(place == found or place in found.parents for place in places):
        raise _outside()
    if found.name.lower().endswith(_LAUNCHED):
        raise Forbidden("Programs and launchers are not opened, wherever they lie.")
    if not (found.is_file() or found.is_dir()):
        raise NotFound(f"{found.name} is not there; reload the page.")
    return found


def _outside() -> Forbidden:
    return Forbidden("Only files and folders of memory can be opened; give an absolute path below one of its folders.")


def _chosen(editor: str | None) -> tuple[Editor, list[str]]:
    """The editor asked for, else the preferred one; without any preference the first that there is."""
    wanted = editor or preferences.get("preferred_editor")
    command = table.command(wanted)
    if command is not None:
        return Editor(wanted, table.name_of(wanted)), command
    there = table.installed()
    if not there:
        raise ConfigInvalid("No editor with a window was found on this machine; copy the path instead.")
    if editor is None and wanted == table.DEFAULT:
        return there[0], table.command(there[0].id) or []
    names = ", ".join(one.id for one in there)
    raise ConfigInvalid(f"The editor {wanted[:60]!r} is not installed here; choose one of {names}.")


def _start(command: list[str], name: str) -> None:
    """Start a program that outlives us, knows nothing of our environment, and is reaped when it ends."""
    kept = {key: value for key, value in os.environ.items() if key in _KEPT_NAMES or key.startswith(_KEPT_PREFIXES)}
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=nothing, cwd="/", env=kept, start_new_session=True
        )
    except OSError as error:
        raise ConfigInvalid(f"{name} could not be started ({error.strerror}); choose another editor.") from error
    try:
        code = process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name="coffer-editor", daemon=True).start()
        return
    if code != 0:
        raise ConfigInvalid(f"{name} ended at once with code {code}; choose another editor, or copy the path.")
