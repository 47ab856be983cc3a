"""The TOML editor: comments, order and line ends stay, and what comes out is what was meant."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.config_files import entries
from agents.config_files.documents import PlainDocument
from agents.config_files.json_text import Unreadable
from agents.config_files.toml_document import TomlDocument
from agents.kinds import KINDS, ConfigFile

PLACE = KINDS["codex"].place("", Path("/home/dev"), {})
MCP = KINDS["codex"].files(PLACE, "codex", Path("/opt/coffer/bin"), prompt_context=False)[1]
OFF = KINDS["codex"].without_native_memory(PLACE)
TEXTS = [
    "",
    "\n",
    "# only a comment\n",
    'model = "x"',
    'model = "x"\n\n',
    'model = "x"\r\n\r\n[features]\r\nmemories = true\r\n',
    "[mcp_servers]\n\n[features]\n",
    '[mcp_servers.a]\ncommand = "1"\n\n[z]\nq = 1\n',
    '[mcp_servers.a]\ncommand = "1"\n\n[z]\nq = 1\n\n[mcp_servers.b]\ncommand = "2"\n',
    'mcp_servers = { a = { command = "x" } }\n',
    'mcp_servers.a.command = "x"\nfeatures.memories = true\n',
    "features = {}\nmcp_servers = {}\n",
    '[hooks.state]\n\n[hooks.state."/a:b:0:0"]\ntrusted_hash = "sha256:x"\n',
    '[[profiles]]\nname = "a"\n\n[[profiles]]\nname = "b"\n',
    "[features] # mine\nmemories = false # off\n\n[memories]\nuse_memories = true\nx = 1979-05-27T07:32:00Z\n",
]


def change(text: str, file: ConfigFile) -> tuple[str, entries.Records]:
    document = TomlDocument(text)
    records = entries.make(document, file, {})
    return document.text, records


def undo(text: str, file: ConfigFile, records: entries.Records) -> str:
    document = TomlDocument(text)
    entries.unmake(document, file, records, records)
    return document.text


def meant(text: str, file: ConfigFile) -> Any:
    plain = PlainDocument(tomllib.loads(text))
    entries.make(plain, file, {})
    return plain.data()


@pytest.mark.parametrize("file", [MCP, OFF], ids=["mcp", "native memory"])
@pytest.mark.parametrize("text", TEXTS)
def test_ours_is_added_and_everything_else_stays(text: str, file: ConfigFile) -> None:
    after, _ = change(text, file)
    assert tomllib.loads(after) == meant(text, file)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in after.splitlines() if line.startswith("#")
    ]
    assert ("\r\n" in text) == ("\r\n" in after)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text
    assert change(after, file) == (after, {})


@pytest.mark.parametrize("file", [MCP, OFF], ids=["mcp", "native memory"])
@pytest.mark.parametrize("text", TEXTS)
def test_what_was_added_goes_again_but_for_a_blank_line_at_the_end(text: str, file: ConfigFile) -> None:
    after, records = change(text, file)
    back = undo(after, file, records)
    assert back.rstrip("\r\n") == text.rstrip("\r\n")
    assert tomllib.loads(back) == tomllib.loads(text)


NAMES = st.sampled_from(["model", "features", "memories", "mcp_servers", "a.b", "ü", "coffer", "x"])
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 5), st.sampled_from(["", "x # y", "[t]", 'q"', "ü"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from([MCP, OFF]), st.booleans())
def test_whatever_the_file_holds_it_is_edited_as_meant_or_not_at_all(
    data: dict[str, Any], file: ConfigFile, inline: bool
) -> None:
    text = _written(data, inline=inline)
    assert tomllib.loads(text) == data
    try:
        after, records = change(text, file)
    except entries.Refused:
        return
    assert tomllib.loads(after) == meant(text, file)
    assert tomllib.loads(undo(after, file, records)) == data


def _written(data: dict[str, Any], *, inline: bool) -> str:
    """Plain data as TOML, its tables on lines of their own or inline."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in data.items() if inline or not isinstance(value, dict)]
    for key, value in data.items():
        if isinstance(value, dict) and not inline:
            lines += ["", f"[{_key(key)}]  # {len(value)}", *(f"{_key(k)} = {_value(v)}" for k, v in value.items())]
    return "\n".join([*lines, ""])


def _key(key: str) -> str:
    return f'"{key}"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    return str(value)


def test_an_own_server_that_differs_is_replaced_where_it_stands() -> None:
    text = '[mcp_servers.coffer]\ncommand = "/old/coffer-mcp-shim"\n\n[z]\nq = 1\n'
    after, records = change(text, MCP)
    assert records == {}
    assert after.index("[mcp_servers.coffer]") < after.index("[z]")
    assert tomllib.loads(after)["mcp_servers"]["coffer"]["command"] == "/opt/coffer/bin/coffer-mcp-shim"


def test_absent_and_false_are_kept_apart() -> None:
    text = "[features]\nmemories = false\n\n[memories]\ngenerate_memories = true\n"
    after, records = change(text, OFF)
    assert tomllib.loads(after)["memories"] == {"generate_memories": False, "use_memories": False}
    assert undo(after, OFF, records) == text


def test_what_cannot_be_read_is_named_by_line_and_column() -> None:
    with pytest.raises(Unreadable) as caught:
        TomlDocument('model = "x"\n[features\n')
    assert caught.value.line == 2
