"""What the real programs tell their model about the tools."""

import json

import pytest

from gateway.tools import TOOLS
from tests.real_agents.conftest import Person


@pytest.mark.parametrize("agent", ["claude_code", "codex", "opencode"])
def test_every_word_about_the_tools_and_their_arguments_reaches_the_model(person: Person, agent: str) -> None:
    person.coffer("connect", "--yes")
    person.run(agent)
    offered = json.dumps([request.get("tools", []) for request in person.model.requests], ensure_ascii=False)
    for tool in TOOLS.values():
        texts = [tool.description, *(str(schema["description"]) for schema in tool.arguments.values())]
        assert [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] not in offered] == []
