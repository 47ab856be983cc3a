"""Whether memory reaches each agent, from its files to the context of a session, and whether the rest is well."""

import os
import platform
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import django
from django.core import checks

from agents import config_files, link
from agents.kinds import Kind
from agents.models import Agent
from agents.services import attachments, connections, discovery, health, hooks, registration, rehearsal, trust
from agents.services.places import kind_of, place_of
from coffer import __version__, launchers, paths, registry
from coffer.errors import CofferError

_VERSION_SECONDS = 10.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. A note is neither well nor a problem; a problem comes with what to do."""

    subject: str
    name: str
    level: Literal["ok", "note", "warning", "error"]
    message: str
    remedy: str = ""

    @property
    def is_problem(self) -> bool:
        return self.level in ("warning", "error")

    @property
    def is_unconnected(self) -> bool:
        """Whether it says of an agent that it is not connected, and nobody asked for it: no problem."""
        return (self.name, self.level) == ("connection", "note")


def examine(name: str = "", *, cwd: str) -> Iterator[Check]:
    """Look at one agent, or at all of them and at Coffer itself, as it goes; ``cwd`` is the place of a played session.

    All are those that are known and those that are found on this machine. The hooks are really run, and start a daemon
    where none runs. An agent that is asked for by name and not connected is a problem. Raises NotFound and Invalid for
    a name that is no agent's or is not here.
    """
    agents = discovery.named([name], os.environ) if name else registration.listing()
    yield _daemon()
    yield _launchers()
    if not agents:
        yield Check("Agents", "connection", "error", "No agent is connected.", "Run `coffer connect`.")
    for agent in agents:
        yield from _agent(agent, cwd, asked=bool(name)) if agent.pk else _stranger(agent, asked=True)
    if not name:
        for agent in discovery.found(os.environ):
            if agent.pk is None:
                yield from _stranger(agent, asked=False)
        yield from _findings(agents)
        yield from _machine()


def _agent(agent: Agent, cwd: str, *, asked: bool) -> Iterator[Check]:
    kind, title = kind_of(agent.type), _title(agent)
    yield _place(agent, kind)
    if not kind.events:
        yield Check(title, "hook", "note", kind.note or "Coffer knows no hooks of it.")
        if attachments.files(agent, "mcp"):
            yield _tools(agent, title)
        return
    try:
        status = hooks.status(agent)
    except (CofferError, OSError) as error:
        yield Check(title, "hook", "error", f"its configuration cannot be looked at: {error}", "Mend that file.")
        return
    if not status.installed and not status.problems:
        yield _unconnected(agent, title, asked=asked)
        return
    for problem in status.problems:
        yield Check(title, "hook", "error", problem, f"Then run `coffer doctor {agent.name}` again.")
    if status.installed:
        yield Check(title, "hook", "ok", f"installed: {', '.join(_events(agent, kind))}")
        yield _tools(agent, title)
        if kind.trusted:
            yield _trust(agent, title)
        yield from _session(agent, kind, title, cwd)


def _stranger(agent: Agent, *, asked: bool) -> Iterator[Check]:
    """An agent that is on this machine and not registered; connecting it was never tried, or was refused."""
    title, state = kind_of(agent.type).title, connections.state(agent)
    connect = f"`coffer connect {agent.name}`"
    if refused := connections.refusal(agent):
        yield Check(title, "connection", "error", f"cannot be connected: {refused}", f"Mend that, then run {connect}.")
    elif state in ("connected", "partly"):
        told = "its files hold Coffer's entries, and Coffer does not know it"
        yield Check(title, "connection", "warning", told, f"Run {connect}.")
    elif state == "not connected":
        yield _not_connected(title, connect, asked=asked)
    else:
        yield Check(title, "agent", "note", kind_of(agent.type).note or "It is connected by hand.")


def _unconnected(agent: Agent, title: str, *, asked: bool) -> Check:
    """One that is registered, and whose hooks are not in its files: somebody's wish, unless they were put there."""
    connect = f"`coffer connect {agent.name}`"
    if refused := connections.refusal(agent):
        told = f"not connected, and cannot be: {refused}"
        return Check(title, "hook", "error", told, f"Mend that, then run {connect}.")
    if any(owner.name == agent.name and "hooks" in edited for owner, edited in config_files.owners().items()):
        told = "it was connected, and its hooks are gone from its files"
        return Check(title, "hook", "warning", told, f"Run {connect}, or `coffer disconnect {agent.name}`.")
    return _not_connected(title, connect, asked=asked)


def _not_connected(title: str, connect: str, *, asked: bool) -> Check:
    if asked:
        return Check(title, "connection", "error", "not connected", f"Run {connect}.")
    return Check(title, "connection", "note", f"not connected; {connect} does it.")


def _place(agent: Agent, kind: Kind) -> Check:
    folder = place_of(agent).folder
    found = _version(kind)
    program = found or f"{kind.program} is not on PATH; its part is played all the same"
    if not folder.is_dir():
        return Check(
            _title(agent),
            "agent",
            "warning",
            f"registered, but its folder {folder} is not there",
            f"Start {kind.title} once, or `coffer agent remove {agent.name}`.",
        )
    return Check(_title(agent), "agent", "ok", f"registered as {agent.name}, lives in {folder} ({program})")


def _tools(agent: Agent, title: str) -> Check:
    try:
        if attachments.stands(agent, "mcp"):
            return Check(title, "tools", "ok", "the MCP server is in its configuration")
    except (CofferError, OSError) as error:
        return Check(title, "tools", "error", f"its configuration cannot be looked at: {error}", "Mend that file.")
    remedy = connections.refusal(agent) or f"Run `coffer connect {agent.name}`."
    return Check(title, "tools", "error", "the MCP server is not in its configuration", remedy)


def _trust(agent: Agent, title: str) -> Check:
    trusted = trust.ask(agent)
    if trusted is None:
        trusted = trust.known(agent)
    if trusted:
        return Check(title, "trust", "ok", "its hooks are trusted")
    if trusted is None:
        return Check(title, "trust", "note", f"{kind_of(agent.type).program} could not be asked whether it trusts them")
    return Check(
        title,
        "trust",
        "error",
        "its hooks are not trusted, and it skips them without a word",
        f"Start {kind_of(agent.type).title}, type /hooks and trust Coffer's entries.",
    )


def _session(agent: Agent, kind: Kind, title: str, cwd: str) -> Iterator[Check]:
    """A session that is played: the hook fires in time, and what it says arrives whole in the agent's own form."""
    played = rehearsal.play(agent, cwd)
    if played.fault:  # once more: a daemon that was just started takes longer over its first answer
        played = rehearsal.play(agent, cwd)
    left = rehearsal.PROMISED - played.seconds
    if played.fault:
        yield Check(title, "session", "error", f"its hook was run, and {played.fault}", _why())
        return
    yield Check(
        title,
        "session",
        "ok" if left > 0 else "error",
        f"its hook answered in {played.seconds:.2f} s, {max(left, 0):.2f} s before its limit",
        "" if left > 0 else "This machine is too busy just now; try again.",
    )
    size = len(played.text.encode())
    if not played.whole:
        yield Check(title, "context", "error", f"{size} bytes arrived, and not all of it", _why())
    elif size > kind.limit:
        told = f"{size} bytes arrived, and {kind.title} cuts what is over {kind.limit}"
        yield Check(title, "context", "error", told, "Set COFFER_BUNDLE_BYTES to less.")
    else:
        yield Check(title, "context", "ok", f"{size} of at most {kind.limit} bytes arrived whole")


def _daemon() -> Check:
    connection = link.connect()
    if connection is not None:
        connection.close()
        about = link.read_daemon_file() or {}
        if about.get("build") == launchers.build():
            return Check("Daemon", "daemon", "ok", f"running on port {connection.port}, and of this code")
        return Check("Daemon", "daemon", "warning", "the one that runs is of other code", "Run `coffer up`.")
    if holder := link.lock_holder():
        return Check(
            "Daemon", "daemon", "error", f"process {holder} does not answer", "Run `coffer down`, then `coffer up`."
        )
    try:
        link.ensure().close()
    except link.NoDaemon as error:
        return Check("Daemon", "daemon", "error", str(error), "Until it runs, nothing reaches an agent.")
    return Check("Daemon", "daemon", "note", "it was down, and was started as an agent's next session would have done")


def _launchers() -> Check:
    missing = [name for name in ("coffer-hook", "coffer-mcp-shim") if shutil.which(paths.launchers() / name) is None]
    if missing:
        told = f"{' and '.join(missing)} cannot be run from {paths.launchers()}"
        return Check("Daemon", "launchers", "error", told, "Run `coffer up`.")
    return Check("Daemon", "launchers", "ok", f"the commands that agents run are in {paths.launchers()}")


def _findings(agents: list[Agent]) -> Iterator[Check]:
    """What the apps say of themselves, but for the agents, which were just looked at."""
    titles = {health.of(agent).title for agent in agents}
    for finding in registry.health():
        if finding.subject not in titles:
            yield Check("Coffer", finding.subject, finding.level, finding.message)


def _machine() -> Iterator[Check]:
    ours = [message for message in checks.run_checks() if (message.id or "").startswith("coffer.")]
    for message in ours:
        level: Literal["warning", "error"] = "error" if message.is_serious() else "warning"
        yield Check("Coffer", "permissions", level, str(message.msg), str(message.hint or ""))
    if not ours:
        yield Check("Coffer", "permissions", "ok", f"{paths.home()} and the secrets in it are yours alone")
    versions = f"Coffer {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    yield Check("Coffer", "versions", "ok", f"{versions}, Django {django.get_version()}")


def _title(agent: Agent) -> str:
    return health.of(agent).title


def _events(agent: Agent, kind: Kind) -> list[str]:
    return [event for event in kind.events if event != "UserPromptSubmit" or agent.prompt_context]


def _version(kind: Kind) -> str:
    """What the agent's own program calls its version; empty when it is not there."""
    program = shutil.which(kind.program)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "(does not tell its version)"
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    return lines[0].strip()[:80] or "(does not tell its version)"


def _why() -> str:
    return f"The last line of {paths.logs() / 'hook.log'} may say why; `coffer up`, then try again."
