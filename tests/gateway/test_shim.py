"""The shim as a process: between a client on pipes and a daemon, a stand-in where that is to misbehave."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.fake_daemon import FakeDaemon, Reply
from tests.processes import HELLO, Machine, Shim, eventually

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "gemini-cli", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def daemon(machine: Machine) -> Iterator[FakeDaemon]:
    """A stand-in that no shim may replace by a real one."""
    machine.env["COFFER_AUTOSTART"] = "0"
    fake = FakeDaemon(machine.home)
    yield fake
    fake.close()


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def test_the_handshake_and_every_request_say_who_calls_and_from_where(
    machine: Machine, daemon: FakeDaemon, tmp_path: Path
) -> None:
    place = tmp_path / "ein Ördner %41"
    place.mkdir()
    machine.env["CLAUDE_CODE_SESSION_ID"] = "session-7"
    shim = machine.shim(cwd=place)
    assert shim.hello()["result"]["protocolVersion"] == "2025-06-18"
    assert shim.ask("tools/list", {})["result"] == {}
    eventually(lambda: daemon.calls("notifications/initialized"))
    first, listing = daemon.calls("initialize")[0], daemon.calls("tools/list")[0]
    assert first.body["params"]["_meta"]["coffer/cwd"] == str(place)
    for seen in (first, listing):
        assert unquote(seen.headers["x-coffer-cwd"]) == str(place)
        assert seen.headers["x-coffer-cwd"].isascii()
        assert seen.headers["x-coffer-agent"] == "test_client"
        assert seen.headers["x-coffer-session"] == "session-7"
        assert "application/json" in seen.headers["accept"]
    assert "mcp-protocol-version" not in first.headers
    assert listing.headers["mcp-protocol-version"] == "2025-06-18"
    assert listing.line == b'{"jsonrpc": "2.0", "method": "tools/list", "params": {}, "id": 1}'


@pytest.mark.parametrize("arguments", [("--agent", "claude-code"), ("--agent=claude-code",)])
def test_the_agent_flag_wins_over_the_clients_own_name(
    machine: Machine, daemon: FakeDaemon, arguments: tuple[str, ...]
) -> None:
    machine.shim(*arguments).hello()
    assert daemon.calls("initialize")[0].headers["x-coffer-agent"] == "claude_code"


def test_a_request_of_the_2026_era_gets_the_headers_that_repeat_its_envelope(
    machine: Machine, daemon: FakeDaemon
) -> None:
    shim = machine.shim()
    shim.ask("server/discover", {"_meta": MODERN}, 1)
    shim.ask("tools/call", {"name": "coffer__recall", "_meta": MODERN}, 2)
    discover, recall = daemon.calls("server/discover")[0].headers, daemon.calls("tools/call")[0].headers
    assert discover["mcp-protocol-version"] == recall["mcp-protocol-version"] == "2026-07-28"
    assert (discover["mcp-method"], recall["mcp-method"]) == ("server/discover", "tools/call")
    assert recall["mcp-name"] == "coffer__recall"
    assert recall["x-coffer-agent"] == "gemini_cli"


def test_a_line_of_another_alphabet_arrives_and_returns_byte_for_byte(machine: Machine, daemon: FakeDaemon) -> None:
    shim = machine.shim()
    line = '{"jsonrpc":"2.0","id":"é","method":"x","params":{"t":"\\ud83d\\ude00 – 記憶 \\\\ud83d"}}'.encode()
    shim.write(line)
    assert shim.answer("é")["result"] == {"t": "😀 – 記憶 \\ud83d"}
    assert daemon.calls("x")[0].line == line


def test_bc041_long_lines_pass_whole_and_a_huge_one_gets_an_error(machine: Machine, daemon: FakeDaemon) -> None:
    shim = machine.shim()
    emoji = json.dumps("😀" * 8192)
    shim.write(b'{"id":1,"method":"x","params":{"text":%s}}' % emoji.encode())
    assert shim.answer(1)["result"] == {"text": "😀" * 8192}
    assert shim.ask("x", {"text": "y" * 160_000}, 2)["result"]["text"] == "y" * 160_000

    shim.write(b'{"method":"x","params":{"text":"%s"},"id":3}' % (b"z" * 5_000_000))
    refused = shim.answer(3)
    assert "at most 4194304 are taken" in refused["error"]["message"]
    assert len(daemon.calls("x")) == 2
    assert shim.ask("x", {"text": "still here"}, 4)["result"] == {"text": "still here"}


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b'[{"id":1,"method":"x"}]', b'{"a":"\xff"}', b"[" * 100_000])
def test_a_line_that_is_no_message_is_answered_and_the_session_goes_on(
    machine: Machine, daemon: FakeDaemon, line: bytes
) -> None:
    shim = machine.shim()
    shim.write(b"\r\n" + line)
    assert shim.answer(None)["error"]["code"] == -32700
    assert shim.ask("x", {"a": 1}, 2)["result"] == {"a": 1}


def test_a_slow_call_holds_up_no_other(machine: Machine, daemon: FakeDaemon) -> None:
    release = threading.Event()

    def script(body: Any) -> Reply | None:
        slow = body["method"] == "slow"
        return Reply(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % body["id"], after=release) if slow else None

    daemon.script = script
    shim = machine.shim()
    for number in range(20):
        shim.send("slow", {}, 100 + number)
    assert shim.ask("quick", {"a": 1}, 1)["result"] == {"a": 1}
    release.set()
    assert {shim.answer(100 + number)["id"] for number in range(20)} == {*range(100, 120)}


def cut_off(daemon: FakeDaemon) -> None:
    daemon.script = lambda body: Reply(hang_up=True) if body["method"] == "tools/call" else None


def test_a_call_that_may_have_run_is_not_sent_twice(machine: Machine, daemon: FakeDaemon) -> None:
    cut_off(daemon)
    shim = machine.shim()
    shim.hello()
    answer = shim.ask("tools/call", call("coffer__remember", text="once"), 2)
    assert "may or may not be done" in answer["error"]["message"]
    assert "before you send it again" in answer["error"]["message"]
    assert len(daemon.calls("tools/call")) == 1


def test_a_read_that_was_cut_off_is_tried_once_more(machine: Machine, daemon: FakeDaemon) -> None:
    cut_off(daemon)
    shim = machine.shim()
    answer = shim.ask("tools/call", call("coffer__recall", query="x"), 2)
    assert "went away while it worked on tools/call; try again" in answer["error"]["message"]
    assert len(daemon.calls("tools/call")) == 2


def test_after_a_restart_the_next_call_finds_the_new_daemon_and_repeats_the_handshake(machine: Machine) -> None:
    machine.env["COFFER_AUTOSTART"] = "0"
    first = FakeDaemon(machine.home)
    shim = machine.shim()
    shim.hello()
    shim.ask("tools/call", call("coffer__remember", text="a"), 2)
    first.close()

    second = FakeDaemon(machine.home)
    try:
        answer = shim.ask("tools/call", call("coffer__remember", text="b"), 4)
        assert answer["result"]["arguments"] == {"text": "b"}
        shim.ask("x", {}, 5)
        assert [seen.body["method"] for seen in second.seen if seen.body] == ["initialize", "tools/call", "x"]
    finally:
        second.close()


def test_a_refusal_that_is_no_mcp_becomes_an_error_of_the_request(machine: Machine, daemon: FakeDaemon) -> None:
    refusals = {
        1: Reply(b'{"error": {"code": "UNAUTHORIZED", "message": "Send the token."}}', status=401),
        2: Reply(b"<html>", status=502, content_type="text/html"),
        3: Reply(b'{"jsonrpc": "2.0", "id": null,\n "error": {"code": -32600, "message": "Odd."}}', status=400),
        4: Reply(b'{"jsonrpc": "2.0", "id": 4, "error": {"code": -32601, "message": "Unknown."}}', status=404),
    }
    daemon.script = lambda body: refusals[body["id"]]
    shim = machine.shim()
    told = [shim.ask("x", {}, number)["error"]["message"] for number in refusals]
    assert told == ["Send the token.", "Coffer's daemon answered with status 502.", "Odd.", "Unknown."]


def test_an_answer_as_an_event_stream_is_understood(machine: Machine, daemon: FakeDaemon) -> None:
    events = b': ping\r\n\r\nevent: message\r\ndata: {"jsonrpc":"2.0","id":1,\r\ndata: "result":{"a":1}}\r\n\r\n'
    daemon.script = lambda body: Reply(events, content_type="text/event-stream")
    assert machine.shim().ask("x", {}, 1)["result"] == {"a": 1}


def test_a_cancelled_request_is_let_go_without_an_answer(machine: Machine, daemon: FakeDaemon) -> None:
    release = threading.Event()
    daemon.script = lambda body: Reply(b"{}", after=release) if body["method"] == "slow" else None
    shim = machine.shim()
    shim.send("slow", {}, 1)
    eventually(lambda: daemon.calls("slow"))
    shim.send("notifications/cancelled", {"requestId": 1})
    assert shim.process.stdin is not None
    shim.process.stdin.close()
    assert shim.process.wait(timeout=10) == 0
    assert shim.silent()
    release.set()


def test_at_the_end_of_stdin_what_is_under_way_is_still_answered(machine: Machine, daemon: FakeDaemon) -> None:
    release = threading.Event()
    daemon.script = lambda body: Reply(b'{"jsonrpc":"2.0","id":1,"result":{}}', after=release)
    shim = machine.shim()
    shim.send("slow", {}, 1)
    assert shim.process.stdin is not None
    shim.process.stdin.close()
    eventually(lambda: daemon.calls("slow"))
    assert shim.process.poll() is None
    release.set()
    assert shim.answer(1)["result"] == {}
    assert shim.process.wait(timeout=10) == 0


def test_a_whole_conversation_written_at_once_is_answered_in_the_negotiated_version(
    machine: Machine, daemon: FakeDaemon
) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    done = subprocess.run(
        [machine.home / "bin" / "coffer-mcp-shim"],
        env=machine.env,
        input="\n".join(json.dumps(line) for line in lines),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {1, 2}
    assert done.stderr == ""
    assert daemon.calls("tools/list")[0].headers["mcp-protocol-version"] == "2025-06-18"


def test_bc117_a_shim_ends_with_its_client_however_that_goes(machine: Machine, daemon: FakeDaemon) -> None:
    shims = [machine.shim() for _ in range(4)]
    for shim in shims:
        shim.hello()
    assert shims[0].process.stdin is not None
    shims[0].process.stdin.close()
    shims[1].process.terminate()
    shims[2].process.send_signal(signal.SIGINT)
    assert shims[0].process.wait(timeout=10) == 0
    assert shims[1].process.wait(timeout=10) == -signal.SIGTERM
    assert shims[2].process.wait(timeout=10) == -signal.SIGINT
    assert shims[3].process.poll() is None
    for shim in shims[:3]:
        assert shim.process.stderr is not None
        assert shim.process.stderr.read() == b""


def test_bc117_a_shim_ends_when_only_its_stdout_is_closed(machine: Machine, daemon: FakeDaemon) -> None:
    reader, writer = os.pipe()
    process = machine.popen(
        [str(machine.home / "bin" / "coffer-mcp-shim")], stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    process.stdin.write(json.dumps({"id": 1, "method": "x"}).encode() + b"\n")
    process.stdin.flush()
    assert os.read(reader, 100).endswith(b"\n")
    os.close(reader)
    assert process.wait(timeout=10) == 0


def test_bc010_a_removed_working_directory_is_still_named(machine: Machine, daemon: FakeDaemon, tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    script = 'cd "$1" && rmdir "$1" && exec "$2"'
    launcher = str(machine.home / "bin" / "coffer-mcp-shim")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    shim = Shim(machine.popen(["sh", "-c", script, "sh", str(place), launcher], **pipes))
    assert "result" in shim.hello()
    assert unquote(daemon.calls("initialize")[0].headers["x-coffer-cwd"]) == str(place)


def test_bc038_a_proxy_in_the_environment_changes_nothing(machine: Machine, daemon: FakeDaemon) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        machine.env[name] = "http://127.0.0.1:9"
    assert "result" in machine.shim().hello()


def test_without_a_daemon_the_handshake_is_refused_with_the_reason(machine: Machine) -> None:
    machine.env["COFFER_AUTOSTART"] = "0"
    shim = machine.shim()
    refusal = shim.hello()["error"]
    assert refusal["message"].endswith("start it with `coffer up`.")
    assert "COFFER_AUTOSTART=0" in shim.ask("tools/list", {}, 2)["error"]["message"]


def test_odd_arguments_get_the_usage_on_stderr(machine: Machine) -> None:
    launcher = str(machine.home / "bin" / "coffer-mcp-shim")
    for arguments, code in ((["--what"], 2), (["--agent"], 2), (["--help"], 0)):
        done = subprocess.run([launcher, *arguments], env=machine.env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("usage: coffer-mcp-shim [--agent NAME]")


def test_bc116_bc117_ten_shims_at_once_share_one_real_daemon_that_can_be_restarted_under_them(
    machine: Machine,
) -> None:
    shims = [machine.shim("--agent", f"agent-{number}") for number in range(10)]
    for shim in shims:
        shim.send("initialize", HELLO, "hello")
    for shim in shims:
        assert shim.answer("hello")["result"]["serverInfo"]["name"] == "coffer"
    assert len(machine.processes("coffer.daemon")) == 1
    names = {tool["name"] for tool in shims[0].ask("tools/list", {}, 1)["result"]["tools"]}
    assert {"coffer__recall", "coffer__remember", "coffer__resume"} <= names

    os.kill(machine.daemon_file()["pid"], signal.SIGKILL)
    for shim in shims:
        shim.send("tools/list", {}, 2)
    for shim in shims:
        assert "result" in shim.answer(2)
    eventually(lambda: len(machine.processes("coffer.daemon")) == 1)


def test_bc011_a_git_environment_does_not_mix_two_repositories(machine: Machine, make_repo: Any) -> None:
    ours = make_repo("ours", remote="git@git.example.org:acme/ours.git")
    theirs = make_repo("theirs", remote="git@git.example.org:acme/theirs.git")
    machine.env |= {"GIT_DIR": str(theirs / ".git"), "GIT_WORK_TREE": str(theirs)}
    shim = machine.shim(cwd=ours)
    shim.hello()
    saved = shim.ask("tools/call", call("coffer__remember", text="The build needs Go 1.22."), 2)["result"]
    assert saved["structuredContent"]["project"]["root"] == str(ours)
