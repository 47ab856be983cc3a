"""The command line: help, errors in one line, and the three commands around the daemon."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coffer import __version__, cli, lifecycle
from coffer.errors import NotFound
from tests.processes import Machine


def test_help_lists_our_commands_in_groups_and_none_of_djangos(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "Everyday\n  up  " in text
    assert "migrate" not in text
    assert "Other" not in text, "give the new command a place in cli.GROUPS"


def test_every_command_has_its_line_of_help() -> None:
    listed = cli.commands()
    assert {"up", "down", "status", "memory"} <= {name for name, _ in listed}
    assert all(text for _, text in listed)


def test_help_and_version_need_no_django() -> None:
    code = "import sys; from coffer import cli; cli.main(['--help']); cli.main(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"coffer {__version__}" in done.stdout
    assert "django" not in done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(("typed", "hint"), [("statsu", "Did you mean `coffer status`?"), ("zzz", "lists them")])
def test_an_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str], typed: str, hint: str) -> None:
    assert cli.main([typed]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (NotFound("There is no such store; `coffer memory list` shows them."), 1, "coffer: There is no such store; "),
        (ValueError("my secret note"), 1, "coffer: something went wrong inside (ValueError at "),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, told: str
) -> None:
    def fail() -> bool:
        raise error

    monkeypatch.setattr(lifecycle, "down", fail)
    assert cli.main(["down"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert "".join(lines).startswith(told)
    assert len(lines) == bool(told)
    assert "secret" not in str(lines)


def test_a_wrong_setting_is_one_line_too(machine: Machine) -> None:
    done = machine.coffer("memory", "list", COFFER_LOG_LEVEL="LOUD")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("coffer: COFFER_LOG_LEVEL is 'LOUD'")
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_leaves_early_is_no_error(machine: Machine) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-P", "-m", "coffer.cli", "--help"]
    process = machine.popen(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 141


def test_status_of_a_home_that_was_never_used_says_so_and_makes_nothing(machine: Machine, tmp_path: Path) -> None:
    new = tmp_path / "new"
    done = machine.coffer("status", COFFER_HOME=str(new))
    assert done.returncode == 3
    assert done.stdout.startswith("Coffer is not running; `coffer up` starts it.")
    assert machine.coffer("down", COFFER_HOME=str(new)).stdout == "Coffer was not running.\n"
    assert not new.exists()


def test_up_prints_what_one_needs_next_and_changes_nothing_the_second_time(machine: Machine) -> None:
    first = machine.coffer("up").stdout
    about = machine.daemon_file()
    assert f"started at {about['url']}" in first
    assert f'export PATH="{machine.home}/bin:$PATH"' in first
    assert "already running" in machine.coffer("up").stdout
    assert machine.daemon_file() == about

    (machine.home / "config.env").write_text("COFFER_MAX_FACT_CHARS=9000\n", encoding="utf-8")
    short = machine.coffer("status").stdout
    assert "\n  COFFER_MAX_FACT_CHARS  9000  (config.env)\n" in short
    assert "COFFER_AUTOSTART" not in short
    assert "COFFER_AUTOSTART " in machine.coffer("status", "--all").stdout
    told = json.loads(machine.coffer("status", "--json").stdout)
    assert told["running"] is True
    assert told["pid"] == about["pid"]
    sources = {one["name"]: (one["value"], one["source"]) for one in told["settings"]}
    assert sources["COFFER_MAX_FACT_CHARS"] == ("9000", "config.env")
    assert sources["COFFER_AUTOSTART"] == ("1", "default")
    assert all(finding["level"] in ("ok", "warning", "error") for finding in told["findings"])


def test_up_replaces_a_daemon_of_other_code(machine: Machine) -> None:
    old = machine.up()
    (machine.home / "daemon.json").write_text(json.dumps({**old, "build": "of an older pull"}), encoding="utf-8")
    assert "restarted at" in machine.coffer("up").stdout
    assert machine.daemon_file()["pid"] != old["pid"]
    assert len(machine.processes("coffer.daemon")) == 1


def test_a_home_that_cannot_be_is_one_sentence(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.touch()
    for words in (("memory", "list"), ("connect", "--dry-run"), ("up",)):
        done = machine.coffer(*words, COFFER_HOME=str(file))
        assert (done.returncode, done.stderr) == (
            1,
            f"coffer: {file} is in the way: a folder belongs there; move it away.\n",
        )
        done = machine.coffer(*words, COFFER_HOME="/proc/nope/coffer")
        assert done.returncode == 1
        assert done.stderr.startswith("coffer: /proc/nope/coffer cannot be made (")


@pytest.mark.parametrize("word", ["status", "up", "doctor"])
def test_a_relative_home_folder_is_named_as_such(machine: Machine, word: str) -> None:
    done = machine.coffer(word, COFFER_HOME="", HOME="somewhere")
    assert (done.returncode, done.stderr) == (
        1,
        "coffer: HOME is 'somewhere', a relative path; give an absolute one.\n",
    )


def test_a_traceback_is_shown_wherever_the_option_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bool:
        raise ValueError

    monkeypatch.setattr(lifecycle, "down", fail)
    for words in (["--traceback", "down"], ["down", "--traceback"]):
        with pytest.raises(ValueError):
            cli.main(words)


def test_status_names_a_port_that_is_none(machine: Machine) -> None:
    stopped = machine.coffer("status", COFFER_PORT="abc").stdout
    machine.up()
    for told in (stopped, machine.coffer("status", COFFER_PORT="abc").stdout):
        assert "error: COFFER_PORT is 'abc'; it must be a whole number." in told
        assert "was taken" not in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_that_cannot_be_written_is_told_in_one_line(machine: Machine) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-P", "-m", "coffer.cli", "status"]
        done = subprocess.run(
            command, env=machine.env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, "coffer: the output cannot be written (No space left on device).\n")
