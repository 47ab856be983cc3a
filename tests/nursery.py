"""Processes that tests kill by the dozen, forked from one that has imported everything: each costs no start of its own.

The nursery has one thread, so that what it forks is whole. It takes a line of JSON on its standard input and answers
with one: ``start`` a child, or ``wait`` for its end.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Child:
    """A child of the nursery, used as ``subprocess.Popen`` is."""

    def __init__(self, nursery: "Nursery", pid: int, out: Path) -> None:
        self.pid, self.returncode = pid, 0
        self._nursery, self._out = nursery, out

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end; what it wrote. Kills it when that takes too long."""
        self.returncode = self._nursery.ask({"wait": self.pid}, timeout, self.kill)["code"]
        error = self._out.with_suffix(".err")
        return self._out.read_text(encoding="utf-8"), error.read_text(encoding="utf-8")


class Nursery:
    """The tests' end of the nursery."""

    def __init__(self) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._count = 0

    def start(self, verb: str, *arguments: str, folder: Path, **environment: str) -> Child:
        """A child in this test's environment that runs one of ``VERBS``; what it writes goes to files in a folder."""
        self._count += 1
        out = folder / f"child-{self._count}.out"
        env = {**os.environ, **environment}
        born = self.ask({"start": verb, "arguments": arguments, "env": env, "out": str(out)}, 60)
        return Child(self, born["pid"], out)

    def ask(self, request: dict[str, Any], seconds: float, give_up: Callable[[], None] | None = None) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request).encode() + b"\n")
        stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            late = not selector.select(seconds)
        if late and give_up is not None:
            give_up()
        answer: dict[str, Any] = json.loads(stdout.readline())
        assert not late, f"a child did not end in {seconds} s"
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=60)


def organize() -> None:
    """Organize the global store."""
    result = organizer.organize(stores.get("global"))
    sys.stdout.write(f"{result.status} {result.drained}\n")


def reorganize(name: str) -> None:
    """Reorganize a store."""
    result = reorganizer.reorganize(stores.get(name))
    sys.stdout.write(f"{result.status} {result.written} {result.superseded}\n")


def take_back(name: str, run: str) -> None:
    """Undo a pass over a store."""
    with suppress(MemoryNotFound):  # it had done nothing yet
        undo.undo(stores.get(name), run)


def merge(source: str, target: str, step: str) -> None:
    """Merge two stores, and be killed at the given step (0: never)."""
    _killed_at(int(step))
    merging.merge(source, target)


def unmerge(source: str, step: str) -> None:
    """Take a merge back, and be killed at the given step (0: never)."""
    _killed_at(int(step))
    merge_undo.undo(source)


def _killed_at(step: int) -> None:
    """End this process the hard way when it opens, links, renames or removes a file for the given time."""
    left = step

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "shutil.rmtree", "os.truncate"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb for verb in (organize, reorganize, take_back, merge, unmerge)
}


def _serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])}
        else:
            pid = os.fork()
            if not pid:
                _live(request)
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _live(request: dict[str, Any]) -> None:
    """The whole life of a child: it never returns."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(request["env"])
        out = Path(request["out"])
        for number, file in ((1, out), (2, out.with_suffix(".err"))):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        connections.settings["default"]["NAME"] = str(paths.database())
        db.prepare()
        VERBS[request["start"]](*request["arguments"])
        later.flush()
        code = 0
    except BaseException:  # told on stderr: the code of the nursery behind this must not run in a child
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import django

    django.setup()

    import langgraph.graph  # noqa: F401
    import openai  # noqa: F401
    from django.db import connections

    from coffer import db, later, paths
    from coffer.errors import MemoryNotFound
    from memory.services import merge as merging
    from memory.services import merge_undo, stores, undo
    from memory.services import organize as organizer
    from memory.services import reorg as reorganizer

    _serve()
