"""``coffer status``."""

import json
import sys
from dataclasses import asdict
from typing import Any

import django
from django.core.management.base import BaseCommand, CommandParser

from coffer import env, lifecycle, paths, registry
from coffer.errors import ConfigInvalid
from coffer.registry import Finding

NOT_RUNNING = 3  # as systemctl says it


class Command(BaseCommand):
    help = "Say whether the daemon runs, where, since when, and how everything is"
    requires_system_checks = []
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="list the settings too that have their defaults")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        state, findings = lifecycle.state(), _findings()
        if options["json"]:
            self.stdout.write(json.dumps(_as_dict(state, findings), indent=2))
        else:
            lines = [*_daemon_lines(state), *_port_lines(state), _database_line(), *_health_lines(findings)]
            self.stdout.write("\n".join([*lines, *_setting_lines(whole=options["all"])]))
        if state.condition != "running":
            sys.exit(NOT_RUNNING)


def _as_dict(state: lifecycle.State, findings: list[Finding]) -> dict[str, Any]:
    return {
        "running": state.condition == "running",
        **asdict(state),
        "home": str(paths.home()),
        "database": {"path": str(paths.database()), "bytes": _database_bytes()},
        "settings": [
            {"name": one.name, "value": _shown(one.name), "source": env.source(one.name)} for one in env.SETTINGS
        ],
        "findings": [asdict(finding) for finding in findings],
    }


def _daemon_lines(state: lifecycle.State) -> list[str]:
    if state.condition == "stopped":
        return ["Coffer is not running; `coffer up` starts it."]
    if state.condition == "silent":
        return [f"Coffer's daemon (process {state.pid}) does not answer: it is starting, or `coffer down` must end it."]
    return [f"Coffer {state.version} is running at {state.url} since {state.started_at} (process {state.pid})."]


def _port_lines(state: lifecycle.State) -> list[str]:
    """Why the daemon listens elsewhere than the setting says, or that the setting says nothing it could use."""
    try:
        wanted = env.number("COFFER_PORT", most=65535)
    except ConfigInvalid as error:
        return [f"error: {error}"]
    if state.port is None or wanted in (0, state.port):
        return []
    return [f"It listens on {state.port} because port {wanted} was taken when it started."]


def _database_line() -> str:
    size = _database_bytes()
    return f"Database: {paths.database()} ({'not there yet' if size is None else f'{size / 1e6:.1f} MB'})"


def _setting_lines(*, whole: bool) -> list[str]:
    """The settings that somebody has set, or all, each with where it comes from."""
    shown = [one for one in env.SETTINGS if whole or env.source(one.name) != "default"]
    width = max((len(one.name) for one in shown), default=0)
    lines = [f"  {one.name:<{width}}  {_shown(one.name)}  ({env.source(one.name)})" for one in shown]
    left = len(env.SETTINGS) - len(shown)
    told = f"{left} settings have their defaults; --all lists them."
    return [*(["Settings:", *lines] if lines else []), *([told] if left else [])]


def _health_lines(findings: list[Finding]) -> list[str]:
    return [f"{finding.level}: {finding.subject}: {finding.message}" for finding in findings]


def _findings() -> list[Finding]:
    """What the apps find; nothing is asked of a home that was never used, for asking would make its database."""
    if not paths.database().exists():
        return []
    try:
        django.setup()
        return registry.health()
    except Exception as error:
        return [Finding("error", "health checks", f"they could not run ({type(error).__name__}).")]


def _database_bytes() -> int | None:
    try:
        return paths.database().stat().st_size
    except OSError:
        return None


def _shown(name: str) -> str:
    """A setting's value, but never a key."""
    value = env.text(name)
    return "(set)" if value and name.endswith(("_KEY", "_TOKEN", "_SECRET")) else value
