"""The agents' real programs, from npm at fixed versions, kept in the environment that runs the tests.

``python -m tests.real_agents.programs`` downloads them beforehand.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("@anthropic-ai/claude-code@2.1.332", "@openai/codex@0.171.0", "opencode-ai@1.18.33")
NAMES = ("claude", "codex", "opencode")
PLACE = Path(sys.prefix) / "agents"
_SECONDS = 180.0


def folder() -> Path:
    """Where the programs are; a test without them is skipped and says why."""
    if reason := download():
        pytest.skip(reason)
    return PLACE / "node_modules" / ".bin"


def download() -> str:
    """Have the programs, downloaded at the first call; the reason why they cannot be had, or "" when they can."""
    PLACE.mkdir(exist_ok=True)
    stamp = PLACE / "installed"
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text(encoding="utf-8") == str(PACKAGES):
            return ""
        reason = _install()
        if not reason:
            stamp.write_text(str(PACKAGES), encoding="utf-8")
    return reason


def _install() -> str:
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed, so the agents cannot be had"
    # --force: the programs are native, whatever version of Node their packages ask for.
    command = [npm, "install", "--prefix", str(PLACE), "--no-audit", "--no-fund", "--no-save", "--force", *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"the agents could not be downloaded within {_SECONDS:.0f} s"
    if done.returncode or not all((PLACE / "node_modules" / ".bin" / name).exists() for name in NAMES):
        return f"the agents could not be downloaded: {done.stderr.strip()[-300:]}"
    return ""


if __name__ == "__main__":
    sys.stdout.write(f"{download() or f'The agents are in {PLACE}.'}\n")
