"""What is said of each agent, and when it is a warning on every page."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from agents.models import Agent, Delivery
from agents.services import attachments, health, hooks, registration, trust
from agents.services.places import place_of
from coffer import later, launchers, pages, registry, signin


def connected(name: str) -> Agent:
    agent = registration.add(name)
    place_of(agent).folder.mkdir(parents=True, exist_ok=True)
    attachments.attach(agent, "hooks", "mcp")
    return agent


def delivered(agent: str, event: str = "SessionStart", *, days: float = 0, session: str = "", **fields: object) -> None:
    at = timezone.now() - timedelta(days=days)
    values = {"bytes": 3_140, "items": 12, "outcome": "delivered", **fields}
    Delivery.objects.create(agent=agent, event=event, session=session, at=at, **values)


def troubles(agent: Agent) -> str:
    return "\n".join(f"{one.message} {one.step}" for one in health.of(agent).troubles)


@pytest.fixture(autouse=True)
def launchers_are_there(home: Path) -> None:
    launchers.write()


def test_the_line_tells_when_memory_last_reached_an_agent() -> None:
    agent = connected("claude_code")
    assert health.of(agent).line == "connected, and no session has begun since"
    delivered("claude_code", days=5 / 1440)
    assert health.of(agent).line == "memory last reached it 5 minutes ago (3.1 kB, 12 items)"
    hooks.uninstall(agent)
    assert health.of(agent).line.endswith("(3.1 kB, 12 items); its hook is not installed now")
    assert health.of(registration.add("codex")).line == "not connected"
    assert "not connected. `coffer connect codex` does it." in [one.message for one in health.findings()]
    assert "tools only" in health.of(registration.add("hermes")).line
    assert troubles(agent) == ""


def test_a_second_agent_of_a_kind_is_told_apart(tmp_path: Path) -> None:
    registration.add("codex")
    second = registration.add("codex", name="codex_work", folder=str(tmp_path))
    assert health.of(second).title == "Codex (codex_work)"


def test_an_untrusted_hook_is_a_warning_with_the_step_to_take() -> None:
    agent = connected("codex")
    assert troubles(agent) == ""  # not known: Codex was never asked
    group = json.loads((place_of(agent).folder / "hooks.json").read_text())
    assert group["hooks"]["SessionStart"]
    agent.trust = {"ours": trust._digest(agent), "hashes": {"key": "sha256:1"}}
    agent.save()
    assert "not trusted yet" in troubles(agent)
    assert "/hooks" in troubles(agent)
    (place_of(agent).folder / "config.toml").write_text('[hooks.state.key]\ntrusted_hash = "sha256:1"\n')
    assert troubles(agent) == ""


def test_capture_has_stopped_when_three_settled_sessions_left_no_sign() -> None:
    agent = connected("claude_code")
    for number in range(2):
        delivered("claude_code", days=3, session=f"s-{number}")
    delivered("claude_code", days=3, session="s-0")  # the same one, resumed
    for number in range(5):
        delivered("claude_code", days=0.5, session=f"today-{number}")
    assert troubles(agent) == ""
    delivered("claude_code", days=2, session="s-3")
    assert "Capture has stopped: 3 sessions began" in troubles(agent)
    delivered("claude_code", "SessionEnd", days=1.5, session="s-3", outcome="skipped")
    assert troubles(agent) == ""


@pytest.mark.parametrize("sign", ["SessionEnd", "Sweep"])
def test_a_capture_of_any_kind_says_that_it_works(sign: str) -> None:
    agent = connected("codex")
    for number in range(9):
        delivered("codex", days=3, session=f"s-{number}")
    assert "Capture has stopped" in troubles(agent)
    delivered("codex", sign, days=2.5, outcome="queued")
    assert "Capture has stopped" not in troubles(agent)


@pytest.mark.parametrize("name", ["opencode", "claude_code"])
def test_no_wolf_is_cried_without_an_event_for_the_end_or_after_a_disconnect(name: str) -> None:
    agent = connected(name)
    for number in range(20):
        delivered(name, days=9, session=f"s-{number}")
    if name == "claude_code":
        hooks.uninstall(agent)
    assert troubles(agent) == ""


def test_a_failed_delivery_is_a_warning_until_one_arrives() -> None:
    agent = connected("claude_code")
    delivered("claude_code", days=1)
    delivered("claude_code", outcome="failed", bytes=0, items=0)
    assert "failed" in troubles(agent)
    assert "1 day ago" in health.of(agent).line
    delivered("claude_code")
    assert troubles(agent) == ""


def test_a_session_that_began_without_memory_is_told_until_one_gets_it(home: Path) -> None:
    agent = connected("claude_code")
    connected("codex")
    (home / "logs").mkdir(exist_ok=True)
    stamp = (timezone.now() - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    noted = [
        f"{stamp} SessionStart 'claude_code' no answer within 1.8 s",
        f"{stamp} SessionEnd 'codex' no answer within 0.9 s",
        f"{stamp} Check 'codex' no answer within 1.8 s",
    ]
    (home / "logs/hook.log").write_text("\n".join(noted) + "\n", encoding="utf-8")
    told = troubles(agent)
    assert "A session began without memory 2 hours ago: no answer within 1.8 s. `coffer up` starts" in told
    assert troubles(registration.get("codex")) == ""
    delivered("claude_code", days=1)
    assert troubles(agent) == told
    delivered("claude_code")
    assert troubles(agent) == ""


@pytest.mark.parametrize(
    "noted",
    [
        b"\xff\x00" * 100_000,
        b"2026-13-45T99:99:99Z SessionStart 'claude_code' no answer\n",
        b"SessionStart 'claude_code'\n\n2026-01-01T00:00:00Z SessionStart 'claude_code'",
    ],
)
def test_a_log_of_hooks_that_is_broken_is_passed_over(home: Path, noted: bytes) -> None:
    agent = connected("claude_code")
    (home / "logs").mkdir(exist_ok=True)
    (home / "logs/hook.log").write_bytes(noted)
    assert troubles(agent) == ""
    (home / "logs/hook.log").unlink()
    (home / "logs/hook.log").mkdir()
    assert troubles(agent) == ""


def test_what_an_agent_cannot_take_is_told() -> None:
    agent = registration.add("hermes")
    delivered("hermes")
    assert "takes nothing from a hook" in troubles(agent)
    cursor = connected("cursor")
    Agent.objects.filter(name="cursor").update(prompt_context=True)
    cursor.refresh_from_db()
    assert "takes none" in troubles(cursor)


def test_a_configuration_that_cannot_be_read_is_told() -> None:
    agent = connected("claude_code")
    (place_of(agent).folder / "settings.json").write_text('{"hooks": ')
    assert "settings.json" in troubles(agent)
    assert health.findings()


def test_findings_are_one_line_for_each_agent_and_one_for_each_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    connected("claude_code")
    delivered("claude_code", outcome="failed")
    registration.add("codex")
    monkeypatch.setenv("COFFER_BUNDLE_BYTES", "99999")
    found = [(one.level, one.subject) for one in health.findings()]
    assert found == [
        ("warning", "session context"),
        ("ok", "Claude Code"),
        ("warning", "Claude Code"),
        ("ok", "Codex"),
    ]
    assert [one for one in registry.health() if one.subject == "Codex"]


def test_a_warning_shows_on_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    connected("claude_code")
    delivered("claude_code", outcome="failed")
    monkeypatch.setattr(pages, "_health", None)
    client = Client()
    client.force_login(signin.owner())
    for address in ("/", "/search", "/agents", "/activity"):
        assert "1 thing needs a look" in client.get(address).content.decode()
    assert "The last session got nothing" in client.get("/health").content.decode()


def test_rows_that_were_dropped_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(health.findings()) == []
    monkeypatch.setattr(later, "_dropped", 3)
    assert [one.message for one in health.findings()] == ["3 rows were dropped while the database was locked."]
