"""The parts of docs/ that the program itself knows: settings, routes, tools and commands.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; a test fails when it is out of date.
"""

import re
from collections.abc import Callable
from pathlib import Path

from coffer import cli, env
from coffer.api import api
from gateway.tools import TOOLS

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings() -> str:
    rows = [f"| `{one.name}` | `{one.default}` | {one.help} |" for one in env.SETTINGS]
    return "\n".join(["| setting | default | what it does |", "|---|---|---|", *rows])


def routes() -> str:
    rows = []
    for path, methods in sorted(api.get_openapi_schema()["paths"].items()):
        for method, route in methods.items():
            rows.append(f"| {method.upper()} | `{path.removeprefix('/api/v1')}` | {route['summary']} |")
    return "\n".join(["| verb | path | what it does |", "|---|---|---|", *rows])


def tools() -> str:
    rows = []
    for tool in TOOLS.values():
        arguments = [f"`{name}`" if name in tool.required else f"`{name}?`" for name in tool.arguments]
        rows.append(f"| `{tool.name}` | {', '.join(arguments) or '-'} | {tool.description} |")
    return "\n".join(["| tool | arguments | when to use it |", "|---|---|---|", *rows])


def commands() -> str:
    rows = [f"| `coffer {name}` | {text} |" for name, text in cli.commands()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


PARTS: dict[str, Callable[[], str]] = {"settings": settings, "routes": routes, "tools": tools, "commands": commands}


def refreshed(text: str) -> str:
    """A page with its generated parts as the program would write them now."""
    return _PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}\n{match[3]}", text)


def pages() -> list[Path]:
    return sorted([*DOCS.rglob("*.md"), DOCS.parent / "README.md"])
