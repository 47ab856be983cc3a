"""Preferences: known names, allowed values, and which source decides."""

from pathlib import Path

import pytest

from coffer import preferences
from coffer.errors import ConfigInvalid, Conflict, Invalid
from coffer.models import AuditEntry, Preference
from tests.conftest import Api


def test_without_a_choice_the_default_holds() -> None:
    assert preferences.all() == {"preferred_editor": "default"}
    assert preferences.fixed_by("preferred_editor") == ""


def test_a_choice_holds_until_another_one() -> None:
    preferences.set("preferred_editor", "zed")
    preferences.set("preferred_editor", "code", actor="agent")
    assert preferences.get("preferred_editor") == "code"
    assert list(AuditEntry.objects.values_list("event", "ref", "actor")) == [
        ("preference_set", "preferred_editor", "agent"),
        ("preference_set", "preferred_editor", "user"),
    ]


@pytest.mark.parametrize("value", ["code --wait", "sh -c id", "/usr/bin/my editor", "", "vi", "x" * 10_000])
def test_bc_149_a_command_line_is_no_editor(value: str) -> None:
    with pytest.raises(Invalid, match="cannot be"):
        preferences.set("preferred_editor", value)
    assert not Preference.objects.exists()


@pytest.mark.parametrize("verb", [preferences.get, preferences.fixed_by])
def test_an_unknown_name_is_refused(verb: object) -> None:
    with pytest.raises(Invalid, match="no preference"):
        verb("theme")  # type: ignore[operator]


def test_a_setting_decides_and_says_where_it_stands(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preferences.set("preferred_editor", "zed")
    (home / "config.env").write_text("COFFER_PREFERRED_EDITOR=code\n")
    assert preferences.get("preferred_editor") == "code"
    with pytest.raises(Conflict, match=r"config\.env"):
        preferences.set("preferred_editor", "subl")
    monkeypatch.setenv("COFFER_PREFERRED_EDITOR", "subl")
    assert preferences.get("preferred_editor") == "subl"
    assert preferences.fixed_by("preferred_editor") == "environment"
    monkeypatch.setenv("COFFER_PREFERRED_EDITOR", "sh -c id")
    with pytest.raises(ConfigInvalid, match="COFFER_PREFERRED_EDITOR"):
        preferences.get("preferred_editor")


def test_a_value_that_is_no_longer_known_gives_way_to_the_default() -> None:
    Preference.objects.create(name="preferred_editor", value="an editor of former times")
    assert preferences.get("preferred_editor") == "default"


def test_preferences_over_rest(api: Api) -> None:
    assert api.get("/preferences").json() == {"preferred_editor": "default"}
    assert api.patch("/preferences", {"preferred_editor": "zed"}).json() == {"preferred_editor": "zed"}
    assert api.patch("/preferences", {}).json() == {"preferred_editor": "zed"}
    for body in ({"preferred_editor": "sh -c id"}, {"theme": "dark"}, {"preferred_editor": 7}, []):
        answer = api.patch("/preferences", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID")
    assert api.get("/preferences").json() == {"preferred_editor": "zed"}
