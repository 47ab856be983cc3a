"""``coffer agent …``: the agents that Coffer knows, and their switches."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from agents.management import plans
from agents.models import Agent
from agents.services import connections, hooks, native_memory, registration
from agents.services.hooks import HookStatus
from agents.services.places import kind_of, place_of
from coffer import console
from coffer.arguments import Verbs

_SAID = {True: "yes", False: "no", None: "-"}


class Command(BaseCommand):
    help = "List, add and remove agents, and switch their hooks and their own memory"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = Verbs(parser)

        def verb(name: str, run: Callable[..., None], text: str, *, agent: bool = True) -> ArgumentParser:
            one = verbs.add(name, run, text)
            if agent:
                one.add_argument("name", help="the agent, as `coffer agent list` names it")
            return one

        verb("list", self.list, "List the agents, and whether each is connected.", agent=False)
        one = verb("add", self.add, "Register an agent, such as a second one of a kind; then connect it.", agent=False)
        one.add_argument("type", help="its kind, such as claude_code")
        one.add_argument("--name", default="", help="its name; the kind's unless given")
        one.add_argument("--folder", default="", help="the folder of its configuration; the usual one unless given")
        one = verb("remove", self.remove, "Disconnect an agent and forget it.")
        one.add_argument("--yes", action="store_true", help="do not ask")
        one = verb("hooks", self.hooks, "Show an agent's hooks, or install or uninstall them.")
        one.add_argument("action", nargs="?", choices=("install", "uninstall"), help="only show them unless given")
        one.add_argument("--prompts", choices=("on", "off"), help="whether memory is also added to prompts it matches")
        one = verb("native-memory", self.native_memory, "Show an agent's own memory, or switch it off and on again.")
        one.add_argument("switch", nargs="?", choices=("on", "off"), help="only show it unless given")

    def handle(self, *, run: Callable[..., None], **options: Any) -> None:
        run(**options)

    def list(self, *, as_json: bool, **_: Any) -> None:
        rows = [_row(agent) for agent in registration.listing()]
        table = [(row["name"], row["title"], row["state"], plans.short(Path(row["folder"]))) for row in rows]
        text = console.table(("NAME", "AGENT", "STATE", "FOLDER"), table) if table else "No agent is known yet."
        hint = "`coffer connect` connects what it finds; `coffer doctor` looks whether memory arrives."
        console.answer(self, {"agents": rows, "total": len(rows)}, f"{text}\n{hint}", as_json=as_json)

    def add(self, *, type: str, name: str, folder: str, as_json: bool, **_: Any) -> None:
        agent = registration.add(type, name=name, folder=folder)
        told = (
            f"{agent.name} lives in {plans.short(place_of(agent).folder)}; `coffer connect {agent.name}` connects it."
        )
        console.answer(self, _row(agent), told, as_json=as_json)

    def remove(self, *, name: str, yes: bool, as_json: bool, **_: Any) -> None:
        agent = registration.get(name)
        console.confirm(f"Disconnect and forget {name}?", yes=yes, otherwise="--yes removes it without asking.")
        registration.remove(agent.name)
        console.answer(self, {"removed": name}, f"{name} is disconnected and forgotten.", as_json=as_json)

    def hooks(self, *, name: str, action: str | None, prompts: str | None, as_json: bool, **_: Any) -> None:
        agent = registration.get(name)
        if prompts is not None:
            agent = registration.change(name, prompt_context=prompts == "on")
        if action == "install":
            status = hooks.install(agent)
        elif action == "uninstall":
            status = hooks.uninstall(agent)
        else:
            status = hooks.status(agent)
        console.answer(
            self, {**asdict(status), "prompts": agent.prompt_context}, _hooks_text(agent, status), as_json=as_json
        )

    def native_memory(self, *, name: str, switch: str | None, as_json: bool, **_: Any) -> None:
        agent = registration.get(name)
        if switch is not None:
            agent = registration.change(name, disable_native_memory=switch == "off")
        title, off = kind_of(agent.type).title, native_memory.is_off(agent)
        supported, by_coffer = kind_of(agent.type).native_memory, agent.disable_native_memory
        if not supported:
            text = f"Coffer knows no switch of {title}'s own memory."
        elif off:
            text = f"{title}'s own memory is off, {'by Coffer' if by_coffer else 'in its own configuration'}."
        else:
            text = f"{title}'s own memory is left as it is."
        console.answer(
            self, {"name": name, "supported": supported, "off": off, "by_coffer": by_coffer}, text, as_json=as_json
        )


def _row(agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "type": agent.type,
        "title": kind_of(agent.type).title,
        "folder": str(place_of(agent).folder),
        "state": connections.state(agent),
        "disable_native_memory": agent.disable_native_memory,
        "prompt_context": agent.prompt_context,
    }


def _hooks_text(agent: Agent, status: HookStatus) -> str:
    if not status.supported:
        return f"{kind_of(agent.type).title} has no hooks that Coffer knows. {kind_of(agent.type).note}"
    rows = {
        "installed": _SAID[status.installed],
        "trusted": _SAID[status.trusted],
        "prompts": "on" if agent.prompt_context else "off",
        "last fired": status.last_fired_at,
        "command": status.command,
    }
    return "\n".join([console.pairs(rows), *status.problems])
