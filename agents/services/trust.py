"""Whether Codex runs our hooks: it skips those that a person has not trusted, without a word.

``ask`` starts Codex's own server, which takes seconds, and keeps what it says the hooks' hashes are. From then on
``known`` tells from files alone, until our hooks change, because Codex writes what it trusts into config.toml.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import poll
from typing import Any

from agents.kinds import ConfigFile, is_ours
from agents.models import Agent
from agents.services.places import kind_of, place_of

SECONDS, _GRACE = 20.0, 3.0
_HELLO = {"clientInfo": {"name": "coffer", "title": "Coffer", "version": "1"}, "capabilities": {}}


@dataclass(frozen=True)
class _Hook:
    key: str
    hash: str


def known(agent: Agent) -> bool | None:
    """Whether every hook of ours is trusted, as files say; None when no trust is needed or it was never asked for."""
    if not kind_of(agent.type).trusted or not agent.trust or agent.trust.get("ours") != _digest(agent):
        return None
    states = _states(agent)
    return all(_is_trusted(states.get(key), wanted) for key, wanted in agent.trust.get("hashes", {}).items())


def ask(agent: Agent, *, seconds: float = SECONDS) -> bool | None:
    """The same as Codex itself says it; None when its program is not there or does not answer in time."""
    if not kind_of(agent.type).trusted:
        return None
    ours, hooks = _digest(agent), _listed(agent, seconds)
    if not ours or not hooks:
        return None
    agent.trust = {"ours": ours, "hashes": {hook.key: hook.hash for hook in hooks}}
    Agent.objects.filter(name=agent.name).update(trust=agent.trust)
    return known(agent)


def leftovers(agent: Agent) -> list[ConfigFile]:
    """What Codex has written down about hooks of ours, which is of no use to it once they are gone."""
    if not kind_of(agent.type).trusted:
        return []
    folder = place_of(agent).folder
    ours = {f"{_snake(event)}:{place}:{hook}" for event, place, hook in _ours(agent)}
    keys = []
    for key in _states(agent):
        path, *position = key.rsplit(":", 3)
        if ":".join(position) in ours and Path(path).resolve() == (folder / "hooks.json").resolve():
            keys.append(("hooks", "state", key))
    return [ConfigFile(folder / "config.toml", "toml", "hooks", leftovers=tuple(keys))] if keys else []


def _listed(agent: Agent, seconds: float) -> list[_Hook]:
    """Our hooks as Codex sees them."""
    program = shutil.which(kind_of(agent.type).program)
    if program is None:
        return []
    requests = (
        {"id": 1, "method": "initialize", "params": _HELLO},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(place_of(agent).person)]}},
    )
    with suppress(OSError, ValueError, LookupError, TypeError):
        with subprocess.Popen(
            [program, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(agent),
            cwd=place_of(agent).person,
            start_new_session=True,
        ) as process:
            try:
                answer = _answer(process, requests, time.monotonic() + seconds)
            finally:
                _end(process)
        hooks = [hook for folder in answer["data"] for hook in folder["hooks"]]
        return [_Hook(str(hook["key"]), str(hook["currentHash"])) for hook in hooks if is_ours(hook)]
    return []


def _answer(process: "subprocess.Popen[bytes]", requests: tuple[dict[str, Any], ...], deadline: float) -> Any:
    """What the last request is answered."""
    if process.stdin is None or process.stdout is None:
        raise ValueError
    process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    process.stdin.flush()
    for line in _lines(process.stdout.fileno(), deadline):
        message = json.loads(line)
        if message.get("id") == requests[-1]["id"]:
            return message["result"]
    raise ValueError


def _lines(handle: int, deadline: float) -> Iterator[bytes]:
    """Lines as they come, until the deadline."""
    waiting, rest = poll(), b""
    waiting.register(handle)
    while (left := deadline - time.monotonic()) > 0 and waiting.poll(left * 1000):
        chunk = os.read(handle, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It ends by itself when nobody talks to it any more; a launcher around it may not pass a signal on."""
    with suppress(OSError, AttributeError):
        process.stdin.close()  # type: ignore[union-attr]
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(agent: Agent) -> dict[str, str]:
    kind, place = kind_of(agent.type), place_of(agent)
    kept = {name: value for name, value in os.environ.items() if name != kind.variable}
    moved = {kind.variable: str(place.folder)} if place.overridden else {}
    return {**kept, "HOME": str(place.person), **moved}


def _states(agent: Agent) -> dict[str, Any]:
    """What Codex has written down about hooks."""
    with suppress(OSError, ValueError, AttributeError):
        data = tomllib.loads((place_of(agent).folder / "config.toml").read_text(encoding="utf-8-sig"))
        found = data.get("hooks", {}).get("state", {})
        return found if isinstance(found, dict) else {}
    return {}


def _is_trusted(state: object, wanted: str) -> bool:
    return isinstance(state, dict) and state.get("trusted_hash") == wanted and state.get("enabled") is not False


def _digest(agent: Agent) -> str:
    """A hash of our hooks and their places: what is known of others is known no more. "" when there are none."""
    ours = _ours(agent)
    return hashlib.sha256(json.dumps(sorted(ours.items())).encode()).hexdigest() if ours else ""


def _ours(agent: Agent) -> dict[tuple[str, int, int], str]:
    """Our hooks by event, place of the group, and place in it."""
    found = {}
    with suppress(OSError, ValueError, AttributeError, LookupError, TypeError):
        data = json.loads((place_of(agent).folder / "hooks.json").read_text(encoding="utf-8-sig"))
        for event, groups in data["hooks"].items():
            for place, group in enumerate(groups):
                for number, hook in enumerate(group["hooks"]):
                    if is_ours(hook):
                        found[event, place, number] = json.dumps([group.get("matcher"), hook], sort_keys=True)
    return found


def _snake(event: str) -> str:
    """``session_start`` for ``SessionStart``, as Codex names events in its keys."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
