"""``coffer engine …``: the model that tidies and distills, which is none until you connect one."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer import connections, console, llm
from coffer.arguments import Verbs
from coffer.connections import FEATURES, Connection
from coffer.text import visible_line

_FIRST_NAME = "default"


class Command(BaseCommand):
    help = "Connect a model that tidies memory and distills sessions, and test it"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verb = Verbs(parser).add
        verb("show", self.show, "Show what is connected, what it may do, and what is left of the day.")
        one = verb("set", self.set, "Save a connection, or change the one of that name.")
        one.add_argument("--name", help="which connection; without it the default one")
        one.add_argument("--base-url", help="address of an OpenAI-compatible endpoint, such as https://host/v1")
        one.add_argument("--model", help="the model's name, as the endpoint spells it")
        key = one.add_mutually_exclusive_group()
        key.add_argument("--key-env", metavar="NAME", help="variable of config.env or the environment with the key")
        key.add_argument("--key-keyring", metavar="SERVICE/USER", help="entry of the system keyring with the key")
        key.add_argument("--no-key", action="store_true", help="the endpoint needs none")
        one.add_argument("--default", action="store_true", dest="is_default", help="use this connection")
        one.add_argument("--allow", action="append", choices=FEATURES, default=[], help="what may be sent there")
        one.add_argument("--deny", action="append", choices=FEATURES, default=[], help="what may not")
        one = verb("test", self.test, "Call a connection once, and say what answered.")
        one.add_argument("name", nargs="?", help="which connection; without it the one in use")
        verb("remove", self.remove, "Forget a connection.").add_argument("name")

    def handle(self, *, run: Callable[..., None], **options: Any) -> None:
        run(**options)

    def show(self, *, as_json: bool, **_: Any) -> None:
        found = [connections.described(one) for one in connections.listing()]
        left, last = llm.remaining(), llm.calls(limit=1, offset=0)[0]
        findings = list(llm.health())
        value = {
            "connections": found,
            "budget": asdict(left),
            "last_call": {"outcome": last[0].outcome, "at": last[0].at} if last else None,
            "findings": [asdict(finding) for finding in findings],
        }
        lines = [*map(_line, found), *(f"{finding.level}: {finding.message}" for finding in findings)]
        lines.append(
            f"Left of today: {left.calls} of {left.limit_calls} calls, {left.tokens} of {left.limit_tokens} tokens."
        )
        console.answer(self, value, _lines(lines), as_json=as_json)

    def set(self, *, as_json: bool, name: str | None, **options: Any) -> None:
        fields = _fields(options)
        before = _existing(name)
        address = fields["base_url"] or (before.base_url if before else "")
        fields.update(self._consent(before, address, fields) if sys.stdin.isatty() and not as_json else {})
        if before is not None:
            saved = connections.change(before.id, **fields)
        else:
            if not fields["base_url"] or not fields["model"]:
                raise CommandError("A new connection needs --base-url and --model.")
            saved = connections.add(name or _FIRST_NAME, **{**fields, "key": fields["key"] or ""})
        row = connections.described(saved)
        console.answer(self, row, _lines([f"Saved. {_line(row)}", *connections.advice(saved)]), as_json=as_json)

    def test(self, *, as_json: bool, name: str | None, **_: Any) -> None:
        connection = connections.named(name) if name else connections.in_use()
        if connection is None:
            raise CommandError("No model is connected; `coffer engine set` connects one.")
        trial = llm.test(connection)
        said = [f"It says: {trial.said}"] if trial.said else []
        console.answer(self, asdict(trial), _lines([trial.message, *said]), as_json=as_json)
        if not trial.ok:
            sys.exit(1)

    def remove(self, *, as_json: bool, name: str, **_: Any) -> None:
        connections.remove(connections.named(name).id)
        console.answer(self, {"removed": name}, f"Forgot {name}.", as_json=as_json)

    def _consent(self, before: Connection | None, address: str, fields: dict[str, Any]) -> dict[str, bool]:
        """Ask for each use that nobody has decided about, when a connection first leads off this machine."""
        if not address or (before is not None and not fields["base_url"]):
            return {}
        there = connections.at(address)
        if there.local:
            return {}
        open_uses = [feature for feature in FEATURES if fields[f"allow_{feature}"] is None]
        for feature in open_uses:
            self.stdout.write(there.sends()[feature])
        return {f"allow_{feature}": console.agrees(f"Allow it to {feature}?") for feature in open_uses}


def _existing(name: str | None) -> Connection | None:
    saved = [one for one in connections.listing() if one.id]
    if name is None:
        return next((one for one in saved if one.is_default), None)
    return next((one for one in saved if one.name == name), None)


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """What the flags say about a connection; None for what they leave open."""
    key = None
    if options["key_env"]:
        key = f"env:{options['key_env']}"
    elif options["key_keyring"]:
        key = f"keyring:{options['key_keyring']}"
    elif options["no_key"]:
        key = "none"
    if both := {*options["allow"]} & {*options["deny"]}:
        raise CommandError(f"{min(both)} cannot be allowed and denied at once.")
    uses = {
        f"allow_{feature}": True if feature in options["allow"] else False if feature in options["deny"] else None
        for feature in FEATURES
    }
    return {
        "base_url": options["base_url"],
        "model": options["model"],
        "key": key,
        "is_default": options["is_default"] or None,
        **uses,
    }


def _line(row: dict[str, Any]) -> str:
    uses = [feature for feature in FEATURES if row[f"allow_{feature}"]]
    state = "in use" if row["in_use"] else "default" if row["is_default"] else "not used"
    key = f"key from {row['key']}{'' if row['key_found'] else ' (missing)'}" if row["key"] else "no key"
    return (
        f"{row['name']}: {row['model']} at {row['base_url']}, {state}, {key}, may {' and '.join(uses) or 'do nothing'}."
    )


def _lines(texts: Sequence[str]) -> str:
    """One line each, whatever an endpoint or a name holds."""
    return "\n".join(map(visible_line, texts))
