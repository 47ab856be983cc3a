"""One git process: without the caller's GIT_* variables, a prompt or a network, for a second at most."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from coffer.errors import ScopeUnresolved

LIMIT_SECONDS = 1.0

# Set after stripping. The last two keep a partial clone from fetching what it lacks: looking never dials out.
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}


class Answer(NamedTuple):
    """What git said; `stderr` is only ever matched against known phrases, it may hold a token (BC-082)."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output without its final line end."""
        return os.fsdecode(self.stdout.removesuffix(b"\n"))


def git(*arguments: str, cwd: Path, **variables: str) -> Answer:
    """Run one git command in `cwd`; ScopeUnresolved when git is missing or does not answer in time."""
    command = [_executable(), *arguments]
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ScopeUnresolved(f"git could not be started in {shown(cwd)}: {error.strerror}.") from None
    with process:
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            _end(process)
            raise ScopeUnresolved(
                f"git did not answer within {LIMIT_SECONDS:g} s in {shown(cwd)}; run `git status` there to see why."
            ) from None
    return Answer(process.returncode, stdout, stderr)


def shown(path: str | Path) -> str:
    """A path for a message: bytes that are no UTF-8 would make the whole message impossible to send."""
    return os.fsencode(path).decode("utf-8", "replace")


def _executable() -> str:
    # Relative entries of PATH are left out: below a foreign repository they would run that repository's own `git`.
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = shutil.which("git", path=os.pathsep.join(entry for entry in entries if os.path.isabs(entry)))
    if found is None:
        raise ScopeUnresolved(
            "git was not found on PATH, so the project of this folder is unknown; install git, or put it on PATH."
        )
    return found


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
    return kept | _FIXED | variables


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started; the pipes are closed unread, as a stray grandchild may hold them open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
