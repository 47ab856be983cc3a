"""Made-up JSON texts in every style that people write: indents, line ends, comments, trailing commas, doubles."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["hooks", "a", "b", "größe", 'q"uote', "mcpServers", "SessionStart", "x.y", "", "a"])
SCALARS = st.sampled_from(
    [
        "0",
        "-1.50",
        "1e400",
        "12345678901234567890",
        "true",
        "false",
        "null",
        '""',
        '"ü🎉"',
        '"\\u00e9\\ud83d"',
        '"// no"',
        '"/* no */"',
        '"a, b: c"',
        '"{[\\n"',
    ]
)
COMMENTS = st.sampled_from(["", "", "", "/* c */", "// c", "/* c\n d */"])


@dataclass(frozen=True)
class Style:
    """How one text is written; ``strict`` is plain JSON."""

    indent: str
    newline: str
    strict: bool


STYLES = st.builds(
    Style, st.sampled_from(["  ", "    ", "\t", " ", ""]), st.sampled_from(["\n", "\r\n"]), st.booleans()
)


@st.composite
def texts(draw: st.DrawFn, *, hooks: bool = False) -> tuple[str, Style]:
    """A text with an object at its top, in which ``hooks``, where it is there, holds lists of hooks."""
    style = draw(STYLES)
    body = _object(draw, style, 0, hooks=hooks)
    before, after = (draw(st.sampled_from(["", style.newline, " "])) for _ in range(2))
    note = "" if style.strict else draw(st.sampled_from(["", f"// top{style.newline}"]))
    return f"{before}{note}{body}{after}", style


def _object(draw: st.DrawFn, style: Style, level: int, *, hooks: bool) -> str:
    names = draw(st.lists(NAMES, max_size=4))
    if hooks:
        names = [name for name in names if name != "hooks"] + ["hooks"] * draw(st.integers(0, 2))
    members = []
    for name in names:
        is_hooks = hooks and name == "hooks"
        value = _events(draw, style, level + 1) if is_hooks else _value(draw, style, level + 1)
        colon = draw(st.sampled_from([": ", ":", " : "]))
        members.append(f"{json.dumps(name, ensure_ascii=draw(st.booleans()))}{colon}{value}")
    return _container(draw, style, level, "{}", members)


def _events(draw: st.DrawFn, style: Style, level: int) -> str:
    members = []
    for event in draw(st.lists(st.sampled_from(["SessionStart", "SessionEnd", "Stop"]), max_size=3, unique=True)):
        groups = draw(st.integers(0, 3))
        items = [f'{{"hooks": [{{"type": "command", "command": "say {n}"}}]}}' for n in range(groups)]
        members.append(f'"{event}": {_container(draw, style, level + 1, "[]", items)}')
    return _container(draw, style, level, "{}", members)


def _value(draw: st.DrawFn, style: Style, level: int) -> str:
    shape = draw(st.sampled_from(["scalar", "scalar", "object", "list"]))
    if shape == "scalar" or level > 3:
        return draw(SCALARS)
    if shape == "object":
        return _object(draw, style, level, hooks=False)
    items = [_value(draw, style, level + 1) for _ in range(draw(st.integers(0, 3)))]
    return _container(draw, style, level, "[]", items)


def _container(draw: st.DrawFn, style: Style, level: int, marks: str, elements: list[str]) -> str:
    spread = draw(st.booleans())
    lead = f"{style.newline}{style.indent * (level + 1)}" if spread else draw(st.sampled_from(["", " "]))
    text = marks[0]
    for place, element in enumerate(elements):
        last = place == len(elements) - 1
        comma = "," if not last or (not style.strict and draw(st.booleans())) else ""
        text += f"{_comment(draw, style, spread)}{lead}{element}{comma}"
    text += _comment(draw, style, spread)
    end = (
        f"{style.newline}{style.indent * level}" if spread and draw(st.booleans()) else draw(st.sampled_from(["", " "]))
    )
    if text.rpartition(style.newline)[2].rpartition("*/")[2].count("// c") and not end.startswith(style.newline):
        end = style.newline
    return f"{text}{end}{marks[1]}"


def _comment(draw: st.DrawFn, style: Style, spread: bool) -> str:
    comment = "" if style.strict else draw(COMMENTS)
    if comment.startswith("//") and not spread:
        return ""
    return f" {comment}" if comment else ""


def hook(number: int) -> dict[str, Any]:
    """A hook of somebody else."""
    return {"hooks": [{"type": "command", "command": f"/usr/bin/say {number}", "timeout": 5}]}
