"""What the steps of a case are made of: an agent's calls, files dropped by hand, a foreign lock, other processes."""

import asyncio
import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coffer import paths
from coffer.errors import CofferError
from gateway import invocations
from gateway.caller import Caller
from gateway.tools import TOOLS

ROOT = Path(__file__).parents[2]
INPUTS = ROOT / "tests" / "fixtures" / "cases"


def call(tool: str, cwd: Path | str | None, *, agent: str = "claude_code", **arguments: Any) -> dict[str, Any]:
    """What an agent that was started in ``cwd`` is answered, a damaged database healed as the gateway does."""
    caller = Caller(None if cwd is None else str(cwd), agent, f"session-{agent}")
    return asyncio.run(invocations.run(TOOLS[f"coffer__{tool}"], caller, arguments)).content


def refused(tool: str, cwd: Path | str | None, **arguments: Any) -> CofferError:
    """The error that an agent is told."""
    with pytest.raises(CofferError) as caught:
        call(tool, cwd, **arguments)
    return caught.value


def hits(query: str, cwd: Path | str | None = None, **arguments: Any) -> list[str]:
    """The ids that recall gives for a query."""
    return [hit["id"] for hit in call("recall", cwd, query=query, **arguments)["hits"]]


def drop(relative: str, data: bytes | str, store: str = "global") -> Path:
    """Put a file into a store's folder, as an editor or a sync program would."""
    path = paths.store(store) / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def drop_case(case: str, store: str = "global") -> list[Path]:
    """Put the markdown inputs of a case into the inbox."""
    return [
        drop(f"knowledge/inbox/{path.name}", path.read_bytes(), store) for path in sorted((INPUTS / case).glob("*.md"))
    ]


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash: equal before and after means that nothing was touched."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@contextmanager
def foreign_lock() -> Iterator[None]:
    """Another program holds the database's write lock."""
    other = sqlite3.connect(paths.database(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block must not take longer."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


def eventually(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until something is so; fails after a while."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.01)
    return found


def start(verb: str, *arguments: str, before: list[str] | None = None, **environment: str) -> "subprocess.Popen[str]":
    """A process of ``tests/cases/worker.py`` in this test's home; ``before`` is put in front of its command line."""
    command = [*(before or []), sys.executable, str(ROOT / "tests" / "cases" / "worker.py"), verb, *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", seconds: float = 60.0) -> list[str]:
    """The lines that a worker wrote; it must have ended well."""
    out, error = process.communicate(timeout=seconds)
    assert process.returncode == 0, error
    return out.splitlines()


def coffer(*words: str, before: list[str] | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The command line as a person runs it."""
    return subprocess.run(
        [*(before or []), sys.executable, "-m", "coffer.cli", *words],
        cwd=environment.pop("cwd", str(ROOT)),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stranger() -> list[str]:
    """The words that run a program as somebody whom permissions stop; none are needed without root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed, and nothing stops root")
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run([*command, sys.executable, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("another user cannot run this Python")
    return command


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder in which nobody may write, and everybody may look."""
    every = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in every}
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid() and above != Path("/") and not above.stat().st_mode & stat.S_IXOTH:
            modes[above] = above.stat().st_mode
            above.chmod(modes[above] | 0o055)
    for path in every:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
