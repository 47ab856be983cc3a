"""The scripts in COFFER_HOME/bin."""

import subprocess
import sys
from pathlib import Path

import pytest

from coffer import __version__, launchers


def run(path: Path, *words: str, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [str(path), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload]


def test_a_launcher_is_written_for_every_script_whose_module_exists(home: Path) -> None:
    written = launchers.write()
    assert {"coffer", "coffer-mcp-shim"} <= {path.name for path in written}
    assert sorted(written) == sorted((home / "bin").iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o755 for path in written)


def test_a_launcher_works_whatever_environment_and_folder_it_is_called_from(home: Path, tmp_path: Path) -> None:
    launchers.write()
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')", encoding="utf-8")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "COFFER_HOME": str(home)}
    env |= {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere", "PYTHONSTARTUP": "/nowhere"}
    done = run(home / "bin" / "coffer", "--version", env=env, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"coffer {__version__}\n", "")
    assert run(home / "bin" / "coffer-mcp-shim", "--help", env=env, cwd=tmp_path).returncode == 0


def test_interpreter_and_checkout_may_lie_in_folders_with_odd_names(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / 'it\'s a $HOME "folder"'
    odd.mkdir()
    (odd / "python").symlink_to(sys.executable)
    (odd / "checkout").symlink_to(launchers.root())
    monkeypatch.setattr(sys, "executable", str(odd / "python"))
    monkeypatch.setattr(launchers, "root", lambda: odd / "checkout")
    launchers.write()
    done = run(home / "bin" / "coffer-mcp-shim", "--help")
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, "usage: coffer-mcp-shim [--agent NAME]")


@pytest.mark.parametrize("gone", ["python", "checkout"])
def test_when_the_installation_is_gone_a_hook_is_silent_and_the_others_say_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    odd = tmp_path / "it's a $HOME `folder`"
    (odd / "checkout" / "coffer").mkdir(parents=True)
    (odd / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(odd / "python"))
    monkeypatch.setattr(launchers, "root", lambda: odd / "checkout")
    monkeypatch.setattr(launchers, "_SCRIPTS", [(name, module, "-IS") for name, module, _ in launchers._SCRIPTS])
    launchers.write()
    (odd / gone).rename(tmp_path / "elsewhere")
    done = run(home / "bin" / "coffer-hook", "--agent", "codex", "--event", "SessionStart")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("coffer", "coffer-mcp-shim"):
        done = run(home / "bin" / name, "--help")
        assert (done.returncode, done.stdout) == (1, "")
        told = f"{name}: Coffer cannot be loaded from {odd / gone}; install it again, then run its `coffer up`.\n"
        assert done.stderr == told


def test_a_launcher_that_is_right_already_is_left_alone(home: Path) -> None:
    before = [path.stat().st_ino for path in launchers.write()]
    assert [path.stat().st_ino for path in launchers.write()] == before


def test_the_build_changes_with_the_code_and_with_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "root", lambda: tmp_path)
    (tmp_path / "memory").mkdir()
    module = tmp_path / "memory" / "facts.py"
    module.write_text("a = 1", encoding="utf-8")
    first = launchers.build()
    module.touch()
    (tmp_path / "memory" / "facts.pyc").write_bytes(b"cache")
    assert launchers.build() == first
    module.write_text("a = 2", encoding="utf-8")
    assert launchers.build() != first
