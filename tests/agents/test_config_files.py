"""Edits of agents' files on a real disk: links, modes, crashes, races, and the way back."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agents import config_files
from agents.config_files import journal
from agents.kinds import ConfigFile
from agents.link import ROOT
from coffer.errors import Conflict, Invalid
from tests.agents.edits import OWNER, attach, detach, files, fingerprint, hooks_file
from tests.rounds import rounds

USER = '{\n    "alpha": 1,\n    "hooks": {\n        "Stop": []\n    },\n    "zeta": null\n}\n'


@pytest.fixture
def folder(home: Path) -> Path:
    """The agent's folder in the person's home."""
    path = home.parent / "person" / ".claude"
    path.mkdir()
    return path


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("before", [USER, "{}", "{ }\r\n", "\ufeff{}\n", "", " \n", '{"a": [1, 2]}', "{\n}\n"])
def test_a_file_nobody_changed_since_comes_back_byte_for_byte(folder: Path, before: str) -> None:
    path = folder / "settings.json"
    path.write_bytes(before.encode())
    attach(*files(folder))
    assert path.read_bytes() != before.encode()
    assert [edit.changes for edit in attach(*files(folder))] == [False, False]
    detach(*files(folder))
    assert fingerprint(folder).keys() == {"settings.json"}
    assert path.read_bytes() == before.encode()


def test_files_and_folders_that_were_made_go_again(home: Path) -> None:
    person = home.parent / "person"
    found = files(person / "deep" / "opencode", "opencode")
    attach(*found)
    assert (person / "deep/opencode/plugin/coffer.js").exists()
    detach(*found)
    config_files.tidy(OWNER.name)
    assert fingerprint(person) == {}


def test_folders_that_others_use_since_stay(home: Path) -> None:
    person = home.parent / "person"
    found = files(person / "opencode", "opencode")
    attach(*found)
    (person / "opencode/plugin/mine.js").write_text("", encoding="utf-8")
    detach(*found)
    config_files.tidy(OWNER.name)
    assert fingerprint(person).keys() == {"opencode/plugin/mine.js"}


def test_what_the_person_changed_since_stays_when_our_entries_go(folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text(USER, encoding="utf-8")
    attach(*files(folder))
    path.write_text(path.read_text(encoding="utf-8").replace('"alpha": 1', '"alpha": 2, "mine": [3]'), encoding="utf-8")
    detach(*files(folder))
    assert path.read_text(encoding="utf-8") == USER.replace('"alpha": 1', '"alpha": 2, "mine": [3]')


def test_a_file_of_ours_in_which_the_agent_wrote_since_keeps_only_that(folder: Path) -> None:
    mcp = files(folder)[1]
    attach(mcp)
    grown = {"numStartups": 3, **written(mcp.path)}
    mcp.path.write_text(json.dumps(grown), encoding="utf-8")
    detach(mcp)
    assert written(mcp.path) == {"numStartups": 3}


def test_backups_and_journal_lie_in_the_home_and_are_private(home: Path, folder: Path) -> None:
    (folder / "settings.json").write_text(USER, encoding="utf-8")
    attach(hooks_file(folder))
    place = home / "backups" / "agents"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    backups = [path for path in place.iterdir() if path.name != "edits.jsonl"]
    assert [path.read_text(encoding="utf-8") for path in backups] == [USER]
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}


def test_without_the_journal_our_entries_are_still_found(home: Path, folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text('{"a": 1}', encoding="utf-8")
    attach(*files(folder))
    shutil.rmtree(home / "backups")
    detach(*files(folder))
    assert written(path) == {"a": 1}


def test_a_backup_that_is_gone_or_was_changed_is_not_relied_upon(home: Path, folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text(USER, encoding="utf-8")
    attach(hooks_file(folder))
    for backup in (home / "backups" / "agents").glob("*settings.json"):
        backup.write_text("{}", encoding="utf-8")
    detach(hooks_file(folder))
    assert path.read_text(encoding="utf-8") == USER


def test_entries_of_an_older_installation_are_replaced_where_they_stand(folder: Path) -> None:
    path = folder / "settings.json"
    attach(hooks_file(folder, launchers=Path("/old place/bin")))
    data = written(path)
    data["hooks"]["SessionStart"].append({"hooks": [{"type": "command", "command": "echo mine"}]})
    path.write_text(json.dumps(data), encoding="utf-8")
    attach(hooks_file(folder))
    groups = written(path)["hooks"]["SessionStart"]
    assert [group["hooks"][0]["command"].split(" --")[0] for group in groups] == [
        "/opt/coffer/bin/coffer-hook",
        "echo mine",
    ]
    detach(hooks_file(folder))
    assert written(path) == {"hooks": {"SessionStart": [groups[1]]}}


def test_prompt_hooks_come_and_go_with_their_switch(folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text('{"hooks": {}}', encoding="utf-8")
    attach(hooks_file(folder, prompts=True))
    assert set(written(path)["hooks"]) == {"SessionStart", "SessionEnd", "UserPromptSubmit"}
    attach(hooks_file(folder))
    assert set(written(path)["hooks"]) == {"SessionStart", "SessionEnd"}
    detach(hooks_file(folder))
    assert path.read_text(encoding="utf-8") == '{"hooks": {}}'


def test_500_foreign_hooks_keep_their_places(folder: Path) -> None:
    path = folder / "settings.json"
    foreign = [{"hooks": [{"type": "command", "command": f"say {n}", "timeout": n}]} for n in range(500)]
    path.write_text(json.dumps({"hooks": {"SessionStart": foreign}}, indent=2), encoding="utf-8")
    before = path.read_bytes()
    attach(hooks_file(folder))
    assert written(path)["hooks"]["SessionStart"][:500] == foreign
    assert len(written(path)["hooks"]["SessionStart"]) == 501
    detach(hooks_file(folder))
    assert path.read_bytes() == before


def test_a_foreign_server_of_our_name_is_not_overwritten(folder: Path) -> None:
    mcp = files(folder)[1]
    mcp.path.write_text('{"mcpServers": {"coffer": {"command": "/usr/bin/other"}}}', encoding="utf-8")
    with pytest.raises(Invalid, match=r"mcpServers\.coffer is another program's; rename or remove it first"):
        attach(mcp)
    detach(mcp)
    assert written(mcp.path) == {"mcpServers": {"coffer": {"command": "/usr/bin/other"}}}


def test_a_foreign_plugin_of_our_name_is_not_overwritten(folder: Path) -> None:
    plugin = files(folder, "opencode")[0]
    plugin.path.parent.mkdir()
    plugin.path.write_text("export const Other = 1\n", encoding="utf-8")
    with pytest.raises(Invalid, match="is another program's"):
        attach(plugin)
    detach(plugin)
    assert plugin.path.read_text(encoding="utf-8") == "export const Other = 1\n"


def test_a_file_under_another_name_that_the_agent_reads_is_used(folder: Path) -> None:
    mcp = files(folder, "opencode")[1]
    (folder / "opencode.jsonc").write_text('{\n  // mine\n  "model": "x",\n}\n', encoding="utf-8")
    attach(mcp)
    assert not mcp.path.exists()
    assert '  // mine\n  "model": "x",\n  "mcp": {' in (folder / "opencode.jsonc").read_text(encoding="utf-8")
    detach(mcp)
    assert (folder / "opencode.jsonc").read_text(encoding="utf-8") == '{\n  // mine\n  "model": "x",\n}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n  "a": 1,\n}', r"settings\.json, line 2, column 9: a comma before the closing bracket"),
        (b'{\n  // mine\n  "a": 1\n}', r"settings\.json, line 2, column 3: a comment"),
        (b'{"a": }', r"line 1, column 7: expected a value"),
        (b"[]", "its top level is not an object"),
        (b'{"hooks": []}', "hooks is not an object"),
        (b'{"hooks": {"SessionStart": {}}}', r"hooks\.SessionStart is not a list"),
        ('{"a": 1}'.encode("utf-16"), "is UTF-16"),
        (b'{\n "a": "\xff"}', "line 2, column 8: this is not UTF-8"),
    ],
)
def test_what_the_agent_could_not_read_either_is_refused(folder: Path, content: bytes, message: str) -> None:
    path = folder / "settings.json"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=message):
        attach(hooks_file(folder))
    assert path.read_bytes() == content
    assert fingerprint(folder).keys() == {"settings.json"}


def test_links_are_followed_and_stay_links(folder: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text(USER, encoding="utf-8")
    (dotfiles / "claude.json").chmod(0o640)
    (dotfiles / "way").symlink_to("claude.json")
    (folder / "settings.json").symlink_to(dotfiles / "way")
    before = fingerprint(tmp_path)
    attach(hooks_file(folder))
    assert (folder / "settings.json").is_symlink()
    assert (dotfiles / "way").is_symlink()
    assert "coffer-hook" in (dotfiles / "claude.json").read_text(encoding="utf-8")
    assert stat.S_IMODE((dotfiles / "claude.json").stat().st_mode) == 0o640
    detach(hooks_file(folder))
    after = fingerprint(tmp_path)
    assert {name: after[name] for name in before if "coffer/" not in name} == {
        name: found for name, found in before.items() if "coffer/" not in name
    }


def test_a_hard_link_keeps_its_inode(folder: Path, tmp_path: Path) -> None:
    path, other = folder / "settings.json", tmp_path / "claude.json"
    path.write_text(USER, encoding="utf-8")
    os.link(path, other)
    attach(hooks_file(folder))
    assert path.stat().st_ino == other.stat().st_ino
    assert "coffer-hook" in other.read_text(encoding="utf-8")
    detach(hooks_file(folder))
    assert path.stat().st_ino == other.stat().st_ino
    assert other.read_text(encoding="utf-8") == USER


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.9, 1.0])
def test_an_edit_in_place_that_was_cut_off_is_put_right_by_the_next(folder: Path, tmp_path: Path, cut: float) -> None:
    path = folder / "settings.json"
    path.write_text(USER, encoding="utf-8")
    os.link(path, tmp_path / "claude.json")
    attach(hooks_file(folder))
    before, after = USER.encode(), path.read_bytes()
    place = int(len(after) * cut)
    path.write_bytes(after[:place] + before[place:])
    attach(hooks_file(folder))
    assert path.read_bytes() == after
    detach(hooks_file(folder))
    assert path.read_bytes() == before
    place = int(len(before) * cut)
    path.write_bytes(before[:place] + after[place:])  # as if that had been cut off too
    detach(hooks_file(folder))
    assert path.read_bytes() in (before, after)
    detach(hooks_file(folder))
    assert path.read_bytes() == before


def _refused(path: Path, how: str, tmp_path: Path) -> None:
    if how == "dangling link":
        path.symlink_to(tmp_path / "gone.json")
    elif how == "ring of links":
        path.symlink_to(path)
    elif how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "read-only":
        path.write_text("{}", encoding="utf-8")
        path.chmod(0o400)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("dangling link", r"is a link to .*gone\.json, which does not exist; mend or remove the link"),
        ("ring of links", "mend or remove the link"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("read-only", "is read-only; it is not changed"),
    ],
)
def test_what_is_not_a_file_of_ours_to_write_is_refused(folder: Path, tmp_path: Path, how: str, message: str) -> None:
    path = folder / "settings.json"
    _refused(path, how, tmp_path)
    with pytest.raises(Invalid, match=message):
        config_files.plan(OWNER, hooks_file(folder))
    assert len(list(folder.iterdir())) == 1
    assert not (tmp_path / "gone.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text("{}", encoding="utf-8")
    os.chown(path, 12345, -1)
    with pytest.raises(Invalid, match="belongs to another user"):
        config_files.plan(OWNER, hooks_file(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file another group")
def test_mode_and_group_stay(folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text("{}", encoding="utf-8")
    os.chown(path, -1, 12345)
    path.chmod(0o664)
    attach(hooks_file(folder))
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o664, 12345)


def test_a_file_that_changed_after_the_plan_is_planned_anew(folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text("{}", encoding="utf-8")
    planned = config_files.plan(OWNER, hooks_file(folder))
    path.write_text('{"new": 1}', encoding="utf-8")
    config_files.apply(planned)
    assert written(path)["new"] == 1
    assert "coffer-hook" in path.read_text(encoding="utf-8")


def test_a_file_that_changes_right_before_the_rename_is_never_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "settings.json"
    path.write_text("{}", encoding="utf-8")
    note, seen = journal.note, []

    def changed_by_the_agent(*arguments: Any, **options: Any) -> None:
        note(*arguments, **options)
        seen.append(None)
        path.write_text(json.dumps({"written": len(seen)}), encoding="utf-8")

    monkeypatch.setattr(journal, "note", changed_by_the_agent)
    with pytest.raises(Conflict, match="changes all the time"):
        attach(hooks_file(folder))
    assert written(path) == {"written": len(seen)}
    assert fingerprint(folder).keys() == {"settings.json"}


def test_twenty_at_once_make_one_entry(folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text(USER, encoding="utf-8")
    threads = [threading.Thread(target=attach, args=(hooks_file(folder),)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written(path)["hooks"]["SessionStart"]) == 1
    detach(hooks_file(folder))
    assert path.read_text(encoding="utf-8") == USER


@pytest.mark.hold
@pytest.mark.parametrize("hard", [False, True])
def test_kill_9_leaves_the_file_as_it_was_or_as_it_should_be(folder: Path, tmp_path: Path, hard: bool) -> None:
    path, file = folder / "settings.json", hooks_file(folder)
    path.write_text(USER, encoding="utf-8")
    if hard:
        os.link(path, tmp_path / "claude.json")
    allowed = {USER.encode(), config_files.plan(OWNER, file).after}
    env = {**os.environ, "PYTHONPATH": ROOT}
    for count in range(rounds(100)):
        command = [sys.executable, "-m", "tests.agents.edit_worker", str(folder)]
        worker = subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep((count * 7 % 50) / 1000)  # another moment each time
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        assert hard or path.read_bytes() in allowed
        attach(file)
        assert path.read_bytes() in allowed
        assert fingerprint(folder).keys() == {"settings.json"}
    detach(file)
    assert path.read_text(encoding="utf-8") == USER


def test_a_cut_off_line_of_the_journal_is_read_over(home: Path, folder: Path) -> None:
    path = folder / "settings.json"
    path.write_text(USER, encoding="utf-8")
    attach(hooks_file(folder))
    with (home / "backups/agents/edits.jsonl").open("ab") as file:
        file.write(b'{"owner": {"name": "cl')
    detach(hooks_file(folder))
    assert path.read_text(encoding="utf-8") == USER


def test_a_file_that_is_gone_is_nothing_to_undo(folder: Path) -> None:
    attach(hooks_file(folder))
    (folder / "settings.json").unlink()
    assert not any(edit.changes for edit in detach(hooks_file(folder)))
    assert config_files.owners() == {}


def test_a_file_that_is_not_needed_is_left_to_whoever_has_one(folder: Path) -> None:
    npmrc = next(file for file in files(folder, "opencode") if file.optional)
    npmrc.path.write_text("registry=https://npm.example.org\n", encoding="utf-8")
    assert not attach(npmrc)[0].changes
    npmrc.path.unlink()
    attach(npmrc)
    assert "fetch-retries=0\n" in npmrc.path.read_text(encoding="utf-8")
    with npmrc.path.open("a", encoding="utf-8") as file:
        file.write("registry=https://npm.example.org\n")
    assert not attach(npmrc)[0].changes
    detach(npmrc)
    assert npmrc.path.read_text(encoding="utf-8") == "registry=https://npm.example.org\n"


def test_the_diff_shows_what_changes(folder: Path) -> None:
    (folder / "settings.json").write_text('{\n  "a": 1\n}', encoding="utf-8")
    diff = config_files.plan(OWNER, hooks_file(folder)).diff()
    assert f"--- {folder}/settings.json\n+++ {folder}/settings.json\n" in diff
    assert '-  "a": 1\n' in diff
    assert "\\ No newline at end of file\n" in diff


def test_two_files_of_one_path_are_planned_one_upon_the_other(folder: Path) -> None:
    found = files(folder, "gemini_cli")
    assert len({file.path for file in found}) == 1
    pending: config_files.Pending = {}
    first, second = (config_files.plan(OWNER, file, pending) for file in found)
    assert second.before == first.after
    attach(*found)
    detach(*found)
    assert not found[0].path.exists()


def test_only_one_purpose_can_be_undone(folder: Path) -> None:
    hooks, mcp = files(folder, "gemini_cli")
    attach(hooks, mcp)
    detach(hooks)
    assert set(written(hooks.path)) == {"mcpServers"}
    attach(hooks)
    detach(mcp)
    assert set(written(hooks.path)) == {"hooks"}
    detach(hooks)
    assert not hooks.path.exists()


def owners_of(found: list[ConfigFile]) -> dict[str, set[str]]:
    return {owner.name: purposes for owner, purposes in config_files.owners().items()}


def test_the_journal_knows_who_is_connected(folder: Path) -> None:
    found = files(folder)
    attach(*found)
    assert owners_of(found) == {"claude_code": {"hooks", "mcp"}}
    detach(found[0])
    assert owners_of(found) == {"claude_code": {"mcp"}}
    detach(found[1])
    assert owners_of(found) == {}
