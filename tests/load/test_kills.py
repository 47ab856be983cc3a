"""Saved means saved: kill -9 at random moments, and every confirmed fact is whole, listed and recalled."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from coffer import paths
from memory.files import markdown
from memory.services import facts, recall, stores
from tests.processes import Machine, Shim, alive, eventually
from tests.rounds import rounds


@pytest.mark.hold
def test_a_daemon_killed_while_it_remembers_loses_no_confirmed_fact(machine: Machine, tmp_path: Path) -> None:
    rng = random.Random(7)
    cwd = tmp_path / "plain"
    cwd.mkdir()
    shim = machine.shim(cwd=cwd)
    shim.hello()
    confirmed: dict[str, str] = {}
    for number in range(rounds(200)):
        confirmed |= _remember_until_killed(machine, shim, f"round{number}", rng.random() * 0.3)
    assert len(confirmed) >= rounds(200)
    _everything_is_there(confirmed)
    shim.process.terminate()
    machine.coffer("down")
    eventually(lambda: not machine.processes(), 15)  # the workers of killed daemons end by themselves


def _remember_until_killed(machine: Machine, shim: Shim, mark: str, seconds: float) -> dict[str, str]:
    """Send facts without waiting for answers, kill the daemon meanwhile; the facts that were confirmed."""
    pid = _daemon(machine, shim, mark)
    texts = {
        f"{mark}-{count}": f"The marker is {mark}x{count}. {'word ' * 200}end{mark}x{count}" for count in range(20)
    }
    for identity, text in texts.items():
        arguments = {"name": "coffer__remember", "arguments": {"text": text, "scope": "global"}}
        shim.send("tools/call", arguments, identity)
    time.sleep(seconds)  # the random moment itself
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid))
    answers = {identity: shim.answer(identity, 60) for identity in texts}
    saved = {
        key: answer for key, answer in answers.items() if "result" in answer and not answer["result"].get("isError")
    }
    return {answer["result"]["structuredContent"]["id"]: texts[key].rstrip() for key, answer in saved.items()}


def _daemon(machine: Machine, shim: Shim, mark: str) -> int:
    """The pid of a daemon that has just answered."""
    shim.ask("tools/call", {"name": "coffer__recall", "arguments": {"query": "x", "scope": "global"}}, f"{mark}-warm")
    return int(machine.daemon_file()["pid"])


def _everything_is_there(confirmed: dict[str, str]) -> None:
    store = stores.get("global")
    inbox = paths.memory() / "global" / "knowledge" / "inbox"
    pages = {path: markdown.parse(path.read_bytes()) for path in inbox.glob("*.md")}
    assert [path.name for path, page in pages.items() if page.problems or not _is_whole(page.body)] == []
    on_disk = {page.meta["id"]: page.body for page in pages.values()}
    assert {key: on_disk.get(key) for key in confirmed} == confirmed
    listed, total = facts.newest([store], limit=len(pages))
    assert total == len(pages)
    assert set(confirmed) <= {fact.id for fact in listed}
    for key, text in confirmed.items():
        marker = re.findall(r"round\d+x\d+", text)[0]
        assert key in {hit.id for hit in recall.recall([store], marker)}, json.dumps(text[:40])


def _is_whole(body: str) -> bool:
    """Begins and ends with the same marker."""
    found = re.findall(r"round\d+x\d+", body)
    return len(found) == 2 and found[0] == found[1] and body.endswith(found[1])
