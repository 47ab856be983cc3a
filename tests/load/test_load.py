"""Many clients at once, and a database that somebody else holds."""

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from coffer import paths
from memory.services import facts, stores
from tests.processes import Machine, Shim, eventually
from tests.rounds import rounds

CLIENTS = 8


def _tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": f"coffer__{name}", "arguments": {"scope": "global", **arguments}}


def _content(answer: dict[str, Any]) -> dict[str, Any]:
    assert not answer["result"].get("isError"), answer["result"]["content"]
    content: dict[str, Any] = answer["result"]["structuredContent"]
    return content


@pytest.mark.hold
def test_eight_clients_that_write_at_once_lose_and_double_nothing(machine: Machine, tmp_path: Path) -> None:
    each = rounds(100)
    shims = [_started(machine, tmp_path) for _ in range(CLIENTS)]
    for number, shim in enumerate(shims):
        for count in range(each):
            shim.send("tools/call", _tool("remember", text=f"Client {number} wrote fact {count}."), count)
    answers = [_content(shim.answer(count, 120)) for shim in shims for count in range(each)]
    assert len({answer["id"] for answer in answers}) == CLIENTS * each
    files = list((paths.memory() / "global" / "knowledge" / "inbox").glob("*.md"))
    assert len(files) == CLIENTS * each
    assert facts.newest([stores.get("global")])[1] == CLIENTS * each
    assert list((paths.memory() / "global").rglob("*.tmp")) == []


@pytest.mark.hold
def test_a_foreign_write_lock_delays_no_recall_and_loses_no_fact(machine: Machine, tmp_path: Path) -> None:
    seconds = 8 if rounds(8) == 8 else 3
    shim = _started(machine, tmp_path)
    _content(shim.ask("tools/call", _tool("remember", text="Known before the lock: walrus."), "before"))
    other = sqlite3.connect(paths.database(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ends = time.monotonic() + seconds
    saved = []
    while time.monotonic() < ends:
        began = time.monotonic()
        hits = _content(shim.ask("tools/call", _tool("recall", query="walrus"), "recall"))["hits"]
        assert time.monotonic() - began < 2
        assert any("Known before the lock" in hit["text"] for hit in hits)
        text = f"Written under the lock: narwhal number {len(saved)}."
        saved.append(_content(shim.ask("tools/call", _tool("remember", text=text), "remember")))
        assert Path(saved[-1]["path"]).exists()
    found = _content(shim.ask("tools/call", _tool("recall", query="narwhal"), "late"))["hits"]
    assert any("narwhal" in hit["text"] for hit in found)
    assert "locked" not in json.dumps(found)
    other.execute("ROLLBACK")
    other.close()
    eventually(lambda: facts.newest([stores.get("global")])[1] == len(saved) + 1)


def _started(machine: Machine, tmp_path: Path) -> Shim:
    cwd = tmp_path / "plain"
    cwd.mkdir(exist_ok=True)
    shim = machine.shim(cwd=cwd)
    shim.hello()
    return shim
