"""The list of scenarios and the marked tests agree, both ways, and the list is the specification's."""

import ast
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
LIST = runpy.run_path(str(Path(__file__).with_name("requirements.py")))


def marked() -> Iterator[tuple[str, str]]:
    """(specification, scenario) of every acceptance marker in the test files."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "acceptance":
                values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
                yield values["spec"], values["scenario"]


def test_every_marked_scenario_is_listed_as_covered_or_changed() -> None:
    built = {scenario.name for scenario in LIST["SCENARIOS"] if scenario.status != "open"}
    assert {scenario for spec, scenario in marked()} <= built
    assert {spec for spec, _ in marked()} == {LIST["SPEC"]}


def test_every_covered_or_changed_scenario_has_a_marked_test() -> None:
    built = {scenario.name for scenario in LIST["SCENARIOS"] if scenario.status != "open"}
    assert built - {scenario for _, scenario in marked()} == set()


def test_open_and_changed_scenarios_say_why() -> None:
    explained = [scenario for scenario in LIST["SCENARIOS"] if scenario.status != "covered"]
    assert [scenario.name for scenario in explained if not scenario.reason] == []


def test_the_list_is_the_specifications() -> None:
    shared = os.environ.get("COFFER_SHARED")
    if not shared:
        pytest.skip("COFFER_SHARED does not name the folder with the specification")
    text = next(Path(shared, "sources").glob("004_*.txt")).read_text(encoding="utf-8")
    names = re.findall(r"^Scenario: (.*)$", text, re.MULTILINE)
    assert [scenario.name for scenario in LIST["SCENARIOS"]] == names
