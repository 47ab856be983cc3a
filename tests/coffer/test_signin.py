"""The way in: a one-time code, a session that ends with the browser, and nothing for anybody else."""

import html
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from coffer import auth, signin
from coffer.middleware import Headers
from memory.services import facts, stores
from tests.processes import Machine

COOKIE = "coffer-session-80"
PRIVATE = (
    "/",
    "/stores/global",
    "/search?q=x",
    "/activity",
    "/health",
    "/nothing",
    "/admin/",
    "/admin/login/",
    "/mcp/",
)


@pytest.fixture
def client() -> Client:
    return Client(enforce_csrf_checks=True)


def test_without_a_session_every_page_only_says_how_to_get_in(client: Client) -> None:
    facts.remember(stores.provision("global"), "A private thing.", actor="user")
    answers = [client.get(address) for address in PRIVATE] + [client.post("/stores/global/rename", {"label": "x"})]
    for answer in answers:
        assert answer.status_code == 401
        assert b"coffer open" in answer.content
    assert len({answer.content for answer in answers}) == 1


def test_static_files_are_public_and_rest_has_its_own_token(client: Client) -> None:
    assert client.get("/static/memory/coffer.css").status_code == 200
    assert client.get("/api/v1/memory_stores").status_code == 401
    assert client.get("/api/v1/memory_stores").json()["error"]["code"] == "UNAUTHORIZED"


def test_a_session_is_no_token(client: Client) -> None:
    client.post("/sign-in", {"code": signin.issue()})
    assert client.get("/").status_code == 200
    assert client.get("/api/v1/memory_stores").status_code == 401


def test_the_file_s_form_signs_in_and_moves_on_without_a_redirect(client: Client) -> None:
    answer = client.post("/sign-in", {"code": signin.issue()}, headers={"Origin": "null"})
    assert answer.status_code == 200
    assert b'<meta http-equiv="refresh" content="0;url=/">' in answer.content
    cookie = answer.cookies[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["expires"], cookie["max-age"]) == (True, "Strict", "", "")
    assert client.get("/").status_code == 200
    assert client.get("/admin/").status_code == 200


def test_the_printed_link_signs_in_by_a_redirect(client: Client) -> None:
    answer = client.get("/sign-in", {"code": signin.issue()})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/").status_code == 200


def test_a_code_is_good_once_and_for_a_minute(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    code, late = signin.issue(), signin.issue()
    assert client.post("/sign-in", {"code": code}).status_code == 200
    for wrong in (code, "", "x", "\ud800", code[:-1]):
        answer = Client().post("/sign-in", {"code": wrong.encode("utf-8", "replace").decode()})
        assert answer.status_code == 401
        assert COOKIE not in answer.cookies
    now = signin.time.monotonic()
    monkeypatch.setattr(signin.time, "monotonic", lambda: now + signin.SECONDS + 1)
    assert Client().get("/sign-in", {"code": late}).status_code == 401


def test_a_code_has_256_bits_and_is_kept_as_a_hash_only() -> None:
    code = signin.issue()
    assert len(code) >= 43
    assert code not in repr(signin._codes)


def test_head_uses_no_code_up(client: Client) -> None:
    code = signin.issue()
    assert client.head(f"/sign-in?code={code}").status_code == 405
    assert client.get(f"/sign-in?code={code}").status_code == 302


def test_only_the_token_gets_a_code(api: Any, client: Client) -> None:
    assert client.post("/api/v1/daemon/sign_in_codes").status_code == 401
    answer = api.post("/daemon/sign_in_codes")
    assert answer.status_code == 201
    assert signin.redeem(answer.json()["code"])


def test_the_owner_has_no_password_and_is_made_once(client: Client) -> None:
    for _ in range(2):
        client.post("/sign-in", {"code": signin.issue()})
    owner = User.objects.get()
    assert owner.is_superuser
    assert not owner.has_usable_password()


def test_a_daemon_on_another_port_has_other_cookies(client: Client) -> None:
    client.post("/sign-in", {"code": signin.issue()}, SERVER_PORT="8765")
    assert "coffer-session-8765" in client.cookies
    assert client.get("/", SERVER_PORT="8765").status_code == 200
    assert client.get("/", SERVER_PORT="9999").status_code == 401


def test_every_answer_carries_the_policy(client: Client) -> None:
    client.post("/sign-in", {"code": signin.issue()})
    for address in (*PRIVATE, "/api/v1/docs", "/static/memory/coffer.css", "/api/v1/daemon/status"):
        headers = client.get(address).headers
        assert headers["Content-Security-Policy"] == Headers.POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
    assert "unsafe" not in Headers.POLICY
    assert client.get("/").headers["Cache-Control"] == "private, no-store"


def test_the_file_is_private_and_replaces_older_ones(home: Path) -> None:
    old = signin.write_page("http://127.0.0.1:8765/", "old")
    page = signin.write_page("http://127.0.0.1:8765/", 'a"<b>')
    assert not old.exists()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    text = page.read_text()
    assert 'action="http://127.0.0.1:8765/sign-in"' in text
    assert html.escape('a"<b>') in text
    assert "<button" in text


def test_a_used_file_is_removed(client: Client) -> None:
    code = signin.issue()
    page = signin.write_page("http://127.0.0.1/", code)
    client.post("/sign-in", {"code": code})
    assert not page.exists()


def test_coffer_open_starts_the_daemon_and_hands_the_browser_a_file(machine: Machine, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\n')
    browser.chmod(0o755)
    done = machine.coffer("open", BROWSER=str(browser))
    assert done.returncode == 0, done.stderr
    page = Path(seen.read_text().strip().removeprefix("file://"))
    code = re.search(r'name="code" value="([^"]+)"', page.read_text())
    assert code is not None
    assert code[1] not in done.stdout + seen.read_text()
    assert machine.daemon_file()["url"] + "sign-in" in page.read_text()


def test_without_a_browser_it_prints_the_link(machine: Machine) -> None:
    done = machine.coffer("open", BROWSER="false", PATH=os.defpath)
    assert done.returncode == 0, done.stderr
    printed = machine.coffer("open", "--print").stdout.strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/sign-in\?code=[\w-]{43}", printed)
    log = (machine.home / "logs" / "daemon.log").read_text()
    assert printed.partition("=")[2] not in log
    assert auth.token() not in log
