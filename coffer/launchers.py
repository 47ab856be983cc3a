"""How other programs start this installation: the scripts in COFFER_HOME/bin, which agents' configs name.

They hold absolute paths and every ``coffer up`` writes them again: when a checkout moves, no config has to change.
"""

import hashlib
import importlib.util
import shlex
import sys
from pathlib import Path

from coffer import fs, paths

PACKAGES = ("coffer", "memory", "transcripts", "agents", "gateway")
_LOADED = {".py", ".html", ".css", ".js", ".txt", ".svg"}  # what a running daemon may have in memory
# Name, module, and Python's flags: all are cut off from the environment (-I); the shim needs no site-packages (-S).
_SCRIPTS = (
    ("coffer", "coffer.cli", "-I"),
    ("coffer-hook", "agents.hook", "-IS"),
    ("coffer-mcp-shim", "gateway.shim", "-IS"),
)
# For sh this is one line; Python reads that line as a string. So paths may be long and hold spaces, which a #! line
# cannot, and the process list shows the script's name. When interpreter or code are gone, a hook ends without a word,
# for it must never disturb its agent; the others say so.
_TEMPLATE = """\
#!/bin/sh
'''test' -x {python} && exec {python} {flags} "$0" "$@"; {otherwise}
'''
# Written by `coffer up`; do not edit.
import os
import sys

os.environ.setdefault("COFFER_HOME", {home!r})
sys.path.append({root!r})
try:
    from {module} import main
except {error}:
    sys.exit({message!r})

sys.exit(main())
"""


def write() -> list[Path]:
    """Bring COFFER_HOME/bin up to date with this interpreter and this checkout; the scripts that exist now."""
    fs.ensure_dir(paths.launchers())
    return [_write(name, module, flags) for name, module, flags in _SCRIPTS if _exists(module)]


def root() -> Path:
    """The folder our packages lie in: a checkout, or site-packages."""
    return Path(__file__).resolve().parent.parent


def build() -> str:
    """A name for exactly this code under this interpreter; it differs after a pull, an upgrade or a move."""
    digest = hashlib.sha256(f"{sys.prefix}\n{sys.version}\n{root()}".encode())
    for folder in (*PACKAGES, "templates"):
        for file in sorted((root() / folder).rglob("*.*")):
            if file.suffix in _LOADED:
                digest.update(f"\n{file}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _write(name: str, module: str, flags: str) -> Path:
    path = paths.launchers() / name
    silent = name == "coffer-hook"
    python, code = (_gone(name, place) for place in (sys.executable, str(root())))
    text = _TEMPLATE.format(
        python=shlex.quote(sys.executable),
        flags=flags,
        otherwise="exit 0" if silent else f"echo {shlex.quote(python)} >&2; exit 1",
        root=str(root()),
        module=module,
        home=str(paths.home()),
        error="Exception" if silent else "ImportError",
        message=0 if silent else code,
    )
    if not path.exists() or path.read_bytes() != text.encode():
        fs.write(path, text.encode())
    path.chmod(0o755)
    return path


def _gone(name: str, place: str) -> str:
    return f"{name}: Coffer cannot be loaded from {place}; install it again, then run its `coffer up`."
