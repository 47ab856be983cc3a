"""Sessions as programs and people see them: REST, command line, pages, admin."""

import io
import json
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django_q.models import OrmQ

from coffer import desktop, later, registry, signin
from coffer.errors import Forbidden, NoModel
from memory.models import Store
from memory.services import journal, recall, stores
from tests.cases.steps import coffer
from tests.conftest import Api
from tests.fake_llm import FakeLlm, fail
from tests.transcripts import conversations as talk
from tests.transcripts.conversations import identity, insight, insights, shown
from transcripts.models import Distilled, Sweep
from transcripts.services import listing

FACT = "The cache lives ten minutes"


@pytest.fixture
def site() -> Client:
    client = Client()
    client.force_login(signin.owner())
    return client


def store_of(repo: Path) -> Store:
    return stores.get(stores.locate(str(repo)).project.store)  # type: ignore[union-attr]


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def told(response: Any) -> str:
    """A page's words."""
    assert response.status_code == 200, response.content
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def error(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.acceptance(spec="007-memory", scenario="browse an agent's transcript history with title, search, and sort")
def test_sessions_are_browsed_over_rest(api: Api) -> None:
    first = talk.claude("/work/app", "Fix the parser", "done", session=identity(1), ago=timedelta(days=2))
    talk.claude("/work/app", "Rename it", "done", "more", "ok", session=identity(2), title="Rename uploader")
    talk.claude("/work/other", "Release", "done", session=identity(3), ago=timedelta(days=1))
    answer = api.get("/agents/claude_code/transcripts").json()
    assert answer.keys() == {"sessions", "total", "limit", "offset", "problems"}
    assert (answer["total"], answer["limit"], answer["offset"], answer["problems"]) == (3, 100, 0, [])
    assert [one["title"] for one in answer["sessions"]] == ["Rename uploader", "Release", "Fix the parser"]
    row = answer["sessions"][2]
    assert row.keys() == {
        "session_id", "title", "project_path", "message_count", "started_at", "last_activity_at", "source_path",
    }  # fmt: skip
    assert (row["session_id"], row["project_path"], row["message_count"]) == (identity(1), "/work/app", 2)
    assert row["source_path"] == str(first)
    assert row["started_at"] < row["last_activity_at"]

    def found(query: str) -> list[str]:
        return [one["session_id"][-1] for one in api.get(f"/agents/claude_code/transcripts?{query}").json()["sessions"]]

    assert found("q=uploader") == ["2"]
    assert found("q=other") == ["3"]
    assert found("project=/work/app&sort=started_at&order=asc") == ["1", "2"]
    assert found("sort=message_count") == ["2", "3", "1"]
    assert found(f"started_after={quote(row['started_at'])}&started_before={quote(row['last_activity_at'])}") == ["1"]
    assert found("limit=1&offset=1") == ["3"]


def test_what_makes_no_sense_is_refused_over_rest(api: Api, repo: Path) -> None:
    path = "/agents/claude_code/transcripts"
    for query in ("limit=0", "limit=501", "offset=-1", "sort=title", "order=up", "started_after=soon"):
        assert error(api.get(f"{path}?{query}")) == (422, "INVALID"), query
    assert error(api.get("/agents/nobody/transcripts")) == (400, "UNSUPPORTED_AGENT_TYPE")
    answer = api.get("/agents/cursor/transcripts")
    assert error(answer) == (400, "UNSUPPORTED_AGENT_TYPE")
    assert "no working directory" in answer.json()["error"]["message"]
    assert error(api.post(f"{path}/distill", {})) == (409, "NO_MODEL_CONFIGURED")
    assert error(api.post("/agents/cursor/transcripts/distill", {})) == (400, "UNSUPPORTED_AGENT_TYPE")


@pytest.mark.acceptance(spec="007-memory", scenario="distill-transcript-to-memory")
def test_sessions_are_distilled_over_rest_and_recalled(api: Api, repo: Path, fake_llm: FakeLlm, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    path = talk.claude(repo, f"How long does the cache live? My token is {secret}.", "Ten minutes.")
    canary = {"type": "tool_result", "tool_use_id": "t", "content": "CANARY of a file"}
    with path.open("a") as file:
        file.write(json.dumps({"type": "user", "uuid": "u", "message": {"role": "user", "content": [canary]}}) + "\n")
    talk.claude(str(tmp_path), "elsewhere", "indeed", session=identity(2))
    fake_llm.always(insights(insight(FACT, "The cache lives ten minutes, as agreed.", "When tuning it")))
    dry = api.post("/agents/claude_code/transcripts/distill", {"session_id": identity(1), "dry_run": True}).json()
    found = {"session_id": identity(1), "name": FACT, "description": "When tuning it"}
    assert dry["insights"] == [{**found, "body": "The cache lives ten minutes, as agreed."}]
    assert (dry["journal_entries"], dry["masked"]) == ([], {"github-token": 1})
    assert not Distilled.objects.exists()
    answer = api.post("/agents/claude_code/transcripts/distill", {"dry_run": False}).json()
    assert answer.keys() == {
        "insights", "journal_entries", "skipped", "masked", "known", "calls", "tokens", "remaining", "stopped",
    }  # fmt: skip
    (entry,) = answer["journal_entries"]
    assert entry["id"] == f"journal/{entry['period']}"
    assert (entry["session_id"], entry["store"]) == (identity(1), store_of(repo).name)
    (skipped,) = answer["skipped"]
    assert skipped["session_id"] == identity(2)
    assert "is not inside a git work tree" in skipped["reason"]
    sent = json.dumps([request.body for request in fake_llm.requests])
    assert secret not in sent
    assert "CANARY" not in sent
    (day,) = journal.days(store_of(repo))
    assert "CANARY" not in day.text
    assert f"claude_code:{identity(1)} -->" in day.text
    (hit,) = recall.recall([store_of(repo)], "how long does the cache live")
    assert hit.id == entry["id"]
    again = api.post("/agents/claude_code/transcripts/distill", {"session_id": identity(1)}).json()
    assert again["skipped"] == [{"session_id": identity(1), "reason": "already distilled"}]


def test_a_session_or_a_project_is_distilled_alone(api: Api, repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(insights())
    for number in range(3):
        talk.claude(repo if number else "/nowhere", f"question {number}", "answer", session=identity(number))
    path = "/agents/claude_code/transcripts/distill"
    assert api.post(path, {"session_id": identity(1)}).json()["calls"] == 1
    assert api.post(path, {"project_path": str(repo)}).json()["calls"] == 1
    assert error(api.post(path, {"session_id": "../../x"})) == (404, "TRANSCRIPT_SESSION_NOT_FOUND")
    assert error(api.post(path, {"session_id": "x", "project_path": "/x"})) == (422, "INVALID")
    assert error(api.post(path, {"session": "x"})) == (422, "INVALID")
    fake_llm.always(fail(503))
    talk.claude(repo, "question 3", "answer", session=identity(3))
    stopped = api.post(path, {"session_id": identity(3)}).json()
    assert stopped["skipped"][0]["reason"]


def test_distilling_is_queued_for_who_does_not_wait(api: Api, repo: Path, fake_llm: FakeLlm) -> None:
    talk.claude(repo, "question", "answer")
    path = "/agents/claude_code/transcripts/distill?wait=false"
    for body in ({"session_id": identity(1)}, {"project_path": str(repo), "since": "2026-01-01T00:00:00Z"}):
        answer = api.post(path, body)
        assert (answer.status_code, answer.json()) == (202, {"status": "queued"})
    queued = [(one.task["func"], tuple(one.task["args"])) for one in OrmQ.objects.order_by("id")]
    assert queued == [
        ("transcripts.jobs.distill_session", ("claude_code", identity(1))),
        ("transcripts.jobs.distill_past", (["claude_code"], str(repo), "2026-01-01T00:00:00+00:00")),
    ]
    assert fake_llm.requests == []


def test_an_estimate_is_had_over_rest(api: Api, repo: Path) -> None:
    talk.claude(repo, "question", "answer")
    answer = api.get(f"/agents/claude_code/transcripts/estimate?project_path={quote(str(repo))}").json()
    assert (answer["sessions"], answer["calls"], answer["skipped"]) == (1, 1, {})
    assert answer["calls_left_today"] == 300
    assert api.get("/agents/claude_code/transcripts/estimate?since=2099-01-01").json()["calls"] == 0


def test_sessions_are_listed_on_the_command_line(repo: Path) -> None:
    talk.claude("/work/app", "Fix the \x1b[31mparser", "done", session=identity(1), ago=timedelta(days=2))
    talk.codex("/work/app", "Release", "done")
    out = run("transcript", "list")
    assert re.search(rf"claude_code  {identity(1)}  2d   2         /work/app  Fix the \[U\+001B\]\[31mparser", out)
    assert "2 of 2 sessions" in out
    found = json.loads(run("transcript", "list", "codex", "--search", "release", "--json"))
    assert (found["total"], found["sessions"][0]["agent"], found["problems"]) == (1, "codex", [])
    assert json.loads(run("transcript", "list", "--since", "2099-01-01", "--json"))["total"] == 0
    with pytest.raises(CommandError, match="is no date"):
        run("transcript", "list", "--since", "soon")


def test_distilling_on_the_command_line_reports_what_it_did(repo: Path, fake_llm: FakeLlm) -> None:
    talk.claude(repo, "question with password: hunter2-9x!", "answer", session=identity(1))
    talk.claude("/nowhere", "question", "answer", session=identity(2))
    estimate = run("distill", "--all", "--estimate")
    assert estimate.startswith("1 session to distill: 1 call of the model, about ")
    assert "Today's budget still allows 300 calls" in estimate
    assert "1 session: path is not on this machine: /nowhere" in estimate
    assert fake_llm.requests == []
    fake_llm.always(insights(insight(FACT)))
    dry = run("transcript", "distill", "claude_code", "--project", str(repo), "--dry-run")
    assert f"({identity(1)})" in dry
    assert f"  {FACT}\n    {FACT}." in dry
    assert "1 insight from 1 session; nothing was written." in dry
    assert "Taken out before anything was sent: 1 × password." in dry
    done = run("distill", "--agent", "claude_code")
    assert done.startswith("1 insight from 1 session into the journals of 1 project.")
    again = json.loads(run("distill", "--all", "--json"))
    assert {one["reason"].partition(":")[0] for one in again["skipped"]} == {
        "already distilled", "path is not on this machine",
    }  # fmt: skip


def test_what_goes_wrong_on_the_command_line_is_said_and_the_exit_code_tells_it(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, why in (
        ([], "Say which sessions"),
        (["--session", "x"], "together with its agent"),
        (["codex", "--agent", "cursor"], "one agent"),
    ):
        with pytest.raises(CommandError, match=why):
            run("distill", *words)
    fake_llm.always("nonsense")
    talk.claude(repo, "question", "answer")
    with pytest.raises(SystemExit):
        run("distill", "--all")
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "1")
    with pytest.raises(SystemExit):
        call_command("distill", "--all")
    assert "It ended early: The day's limit for models is used up" in capsys.readouterr().out
    for name in fake_llm.environment:
        monkeypatch.delenv(name)
    with pytest.raises(NoModel):
        run("distill", "--all")


def test_a_bar_stands_on_a_terminal_alone(repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fake_llm.always(insights())
    talk.claude(repo, "question", "answer", title="About caches")
    for stream, shown_on in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        run("distill", "--all", "--dry-run")
        assert ("0/1 About caches" in stream.getvalue()) is shown_on


def test_the_program_itself_lists_and_distills(repo: Path, fake_llm: FakeLlm) -> None:
    talk.claude(repo, "question", "answer")
    fake_llm.always(insights(insight(FACT)))
    done = coffer("distill", "claude_code", **fake_llm.environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 insight from 1 session" in done.stdout
    nothing = coffer("transcript", "list", "cursor")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr.startswith("coffer: Cursor's transcripts record no working directory")


def test_the_page_lists_searches_filters_and_pages(site: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(site.get("/sessions"))
    assert "The agents on this machine have no sessions yet." in said or "No agent is known yet." in said
    for number in range(5):
        talk.claude(
            f"/work/app{number % 2}", f"Prompt {number}", "answer", session=identity(number),
            ago=timedelta(days=number * 10, hours=1),
        )  # fmt: skip
    said = told(site.get("/sessions"))
    assert "5 sessions." in said
    assert "None is distilled: no model is connected" in said
    assert said.index("Prompt 0") < said.index("Prompt 4")
    assert "/work/app0 (3)" in said
    assert '<a href="/sessions" aria-current="page">Sessions</a>' in site.get("/sessions").content.decode()
    assert "1 session with this filter." in told(site.get("/sessions?q=prompt+3"))
    assert "2 sessions with this filter." in told(site.get("/sessions?project=/work/app1"))
    assert "1 session with this filter." in told(site.get("/sessions?days=7"))
    assert "No session matches this filter." in told(site.get("/sessions?q=zzz&agent=codex"))
    assert told(site.get("/sessions?days=x&sort=x&offset=x")) == said
    monkeypatch.setattr("transcripts.views.SHOWN", 2)
    page = site.get("/sessions?offset=2&sort=started_at+asc")
    assert "5 sessions; 2 are shown, from 3 on." in told(page)
    for link in ("?sort=started_at+asc&amp;offset=4", "?sort=started_at+asc"):
        assert f'href="{link}"' in page.content.decode()


def test_what_cannot_be_read_stands_on_the_page(site: Client) -> None:
    path = talk.codex("/work/app", "Prompt")
    path.with_name("rollout-2026-11-01T09-00-00-11111111-1111-4111-8111-000000000009.jsonl.zst").write_bytes(b"no zstd")
    said = told(site.get("/sessions"))
    assert "1 thing could not be read" in said
    assert "the file cannot be read: not valid zstd" in said


def test_a_session_has_a_page_that_previews_and_distills(site: Client, repo: Path, fake_llm: FakeLlm) -> None:
    path = talk.claude(repo, "password: hunter2-9x!", "ok", title='"><img src=x onerror=alert(1)>')
    page = site.get(f"/session?agent=claude_code&id={identity(1)}")
    said = told(page)
    assert "<img" not in page.content.decode()
    assert "not distilled" in said
    assert str(path) in said
    fake_llm.always(insights(insight("<b>Bold</b> claim", "It is <script>alert(1)</script> so.")))
    preview = site.post("/session/preview", {"agent": "claude_code", "id": identity(1)})
    assert "<b>" not in preview.content.decode()
    assert "<script>alert" not in preview.content.decode()
    said = told(preview)
    assert "Preview 1 insight" in said
    assert "Taken out before it was sent: 1 × password." in said
    assert not Distilled.objects.exists()
    answer = site.post("/session/distill", {"agent": "claude_code", "id": identity(1)}, follow=True)
    assert "will be distilled in the background" in told(answer)
    (queued,) = OrmQ.objects.all()
    assert tuple(queued.task["args"]) == ("claude_code", identity(1))
    from transcripts import jobs

    jobs.distill_session(*queued.task["args"])
    said = told(site.get(f"/session?agent=claude_code&id={identity(1)}"))
    assert "1 insight" in said
    assert "the journal of its project" in said
    assert "1 insight" in told(site.get("/sessions"))
    assert site.get("/session?agent=claude_code&id=nobody").status_code == 404
    assert site.get("/session?agent=cursor&id=x").status_code == 400
    assert site.get("/session/distill").status_code == 405


def test_the_past_is_distilled_from_a_page_that_says_what_it_costs(
    site: Client, repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.claude(repo, "question", "answer", session=identity(1))
    talk.claude("/nowhere", "question", "answer", session=identity(2))
    said = told(site.get("/sessions/distill?agent=claude_code&days=30"))
    assert "To distill 1 session" in said
    assert "1 session: path is not on this machine: /nowhere" in said
    assert "active within the last 30 days" in said
    answer = site.post("/sessions/distill", {"agent": "claude_code", "days": "30", "project": ""}, follow=True)
    assert "will be distilled in the background" in told(answer)
    (queued,) = OrmQ.objects.all()
    agents, project, since = queued.task["args"]
    assert (agents, project, bool(since)) == (["claude_code"], "", True)
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "0")
    assert "There is nothing to distill" in told(site.get("/sessions/distill?agent=claude_code&project=/nowhere"))
    assert site.get("/sessions/distill?agent=nobody").status_code == 404


def test_a_file_of_a_session_is_revealed_and_nothing_beside_it(monkeypatch: pytest.MonkeyPatch, site: Client) -> None:
    path = talk.claude("/work/app", "Prompt")
    beside = path.with_name("secrets.json")
    beside.write_text("{}")
    site.get("/sessions")
    assert path in registry.openable()
    assert path in listing.places()
    started: list[list[str]] = []
    monkeypatch.setattr(desktop, "_start", lambda command, name: started.append(command))
    monkeypatch.setattr(desktop.table, "command", lambda name: ["files"])
    desktop.reveal(path)
    assert started
    with pytest.raises(Forbidden):
        desktop.reveal(beside)


def test_the_admin_shows_the_ledger_and_tries_again(site: Client, repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always("nonsense")
    talk.claude(repo, "question", "answer")
    call_command_fails = pytest.raises(SystemExit)
    with call_command_fails:
        run("distill", "--all")
    later.flush()
    row = Distilled.objects.get()
    page = told(site.get(reverse("admin:transcripts_distilled_changelist")))
    assert identity(1) in page
    assert "cannot be used" in page
    asked = site.get(reverse("admin:transcripts_distilled_act", args=["again"]), {"key": str(row.pk)})
    assert identity(1) in told(asked)
    answer = site.post(
        reverse("admin:transcripts_distilled_act", args=["again"]), {"keys": json.dumps([str(row.pk)])}, follow=True
    )
    assert "1 sessions will be distilled" in told(answer)
    assert OrmQ.objects.count() == 1
    row.refresh_from_db()
    assert (row.failures, row.next_try_at) == (0, None)
    from django.utils import timezone

    Sweep.objects.create(started_at=timezone.now(), finished_at=timezone.now(), stopped="The endpoint is away.")
    assert "The endpoint is away." in told(site.get(reverse("admin:transcripts_sweep_changelist")))
    assert "The endpoint is away." in told(site.get("/sessions"))


def test_conversations_are_shown_to_a_model_and_to_nobody_else(site: Client, repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(insights())
    talk.claude(repo, "Prompt", "CANARY of an answer")
    for address in ("/sessions", f"/session?agent=claude_code&id={identity(1)}", "/sessions/distill"):
        assert "CANARY" not in site.get(address).content.decode()
    site.post("/session/preview", {"agent": "claude_code", "id": identity(1)})
    assert "CANARY" in shown(fake_llm.requests[0])
