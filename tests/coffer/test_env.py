"""Settings: the environment wins over config.env, which wins over the default."""

from pathlib import Path

import pytest

from coffer import env
from coffer.errors import ConfigInvalid


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (env.number("COFFER_PORT"), env.source("COFFER_PORT")) == (8765, "default")
    (home / "config.env").write_text("# mine\nexport COFFER_PORT = '9000'\n")
    assert (env.number("COFFER_PORT"), env.source("COFFER_PORT")) == (9000, "config.env")
    monkeypatch.setenv("COFFER_PORT", "9001")
    assert (env.number("COFFER_PORT"), env.source("COFFER_PORT")) == (9001, "environment")


def test_a_change_of_the_file_is_seen(home: Path) -> None:
    (home / "config.env").write_text("COFFER_AUTOSTART=0\n")
    assert env.flag("COFFER_AUTOSTART") is False
    (home / "config.env").write_text("COFFER_AUTOSTART=yes\n")
    assert env.flag("COFFER_AUTOSTART") is True


@pytest.mark.parametrize(("value", "word"), [("80x", "whole number"), ("-1", "between"), ("99999999999", "between")])
def test_a_wrong_number_is_named(monkeypatch: pytest.MonkeyPatch, value: str, word: str) -> None:
    monkeypatch.setenv("COFFER_PORT", value)
    with pytest.raises(ConfigInvalid, match=f"COFFER_PORT.*{word}"):
        env.number("COFFER_PORT")


def test_a_wrong_flag_or_choice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_AUTOSTART", "perhaps")
    monkeypatch.setenv("COFFER_LOG_LEVEL", "loud")
    with pytest.raises(ConfigInvalid, match="COFFER_AUTOSTART"):
        env.flag("COFFER_AUTOSTART")
    with pytest.raises(ConfigInvalid, match="COFFER_LOG_LEVEL"):
        env.choice("COFFER_LOG_LEVEL", ("INFO",))


def test_a_relative_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_HOME", "somewhere")
    with pytest.raises(ConfigInvalid, match="relative"):
        env.home()


def test_a_broken_line_of_the_file_is_named(home: Path) -> None:
    (home / "config.env").write_text("COFFER_PORT=9000\nnonsense\n")
    with pytest.raises(ConfigInvalid, match="line 2"):
        env.text("COFFER_PORT")


def test_a_secret_may_lie_in_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "value").write_text("DEBUG\n")
    monkeypatch.setenv("COFFER_LOG_LEVEL_FILE", str(home / "value"))
    assert env.secret("COFFER_LOG_LEVEL") == "DEBUG"
    (home / "value").unlink()
    with pytest.raises(ConfigInvalid, match="COFFER_LOG_LEVEL_FILE"):
        env.secret("COFFER_LOG_LEVEL")
