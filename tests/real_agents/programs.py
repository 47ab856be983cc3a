"""The agents' real programs, from npm at fixed versions, kept in the environment that runs the tests."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("@anthropic-ai/claude-code@2.1.332", "@openai/codex@0.171.0", "opencode-ai@1.18.33")
NAMES = ("claude", "codex", "opencode")
_SECONDS = 100.0


def folder() -> Path:
    """Where the programs are, downloaded at the first call; a test without them is skipped and says why."""
    place = Path(sys.prefix) / "agents"
    place.mkdir(exist_ok=True)
    stamp = place / "installed"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != str(PACKAGES):
            _install(place)
            stamp.write_text(str(PACKAGES), encoding="utf-8")
    return place / "node_modules" / ".bin"


def _install(place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so the agents cannot be had")
    # --force: the programs are native, whatever version of Node their packages ask for.
    command = [npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", "--no-save", "--force", *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the agents could not be downloaded within {_SECONDS:.0f} s")
    if done.returncode or not all((place / "node_modules" / ".bin" / name).exists() for name in NAMES):
        pytest.skip(f"the agents could not be downloaded: {done.stderr.strip()[-300:]}")
