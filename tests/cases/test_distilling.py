"""Past sessions that become memory, as the handed cases meet them: what leaves the machine, and what is written once.

How the files themselves are read is in `test_sessions.py`.
"""

import json
import os
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agents.services import registration
from coffer import paths
from memory.models import Store
from memory.services import digest, facts, handoff, journal, rules, stores
from tests.cases.steps import INPUTS, call, coffer
from tests.fake_llm import FakeLlm
from tests.transcripts import conversations as talk
from tests.transcripts.conversations import identity, insight, insights, one_of_each_turn, shown, spoken
from transcripts import jobs
from transcripts.services import batch, homes, listing
from transcripts.services.batch import Result


def placed(case: str, repo: Path | str) -> Path:
    """The sessions of a case where Claude Code would have them, with a repository in place of their mark."""
    folder = talk.person() / ".claude" / "projects" / "-case"
    for path in sorted((INPUTS / case).rglob("*.jsonl")):
        target = folder / path.relative_to(INPUTS / case).as_posix().replace("/", "-")
        if path.parent.name == "subagents":
            target = folder / path.relative_to(INPUTS / case)
        if path.name.startswith("rollout-"):
            target = talk.person() / ".codex" / "sessions" / "2026" / "09" / "01" / path.name
        elif path.name.startswith("1111"):
            target = folder.with_name(f"-case-{path.parent.name}") / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        target.write_bytes(
            path.read_bytes().replace(b"@REPO@", str(repo).encode()).replace(b"@TOMORROW@", tomorrow.encode())
        )
    return folder


def distill(*agents: str) -> Result:
    return batch.run(batch.chosen([homes.of(agent) for agent in agents or ("claude_code",)]))


def store_of(repo: Path) -> Store:
    return stores.get(stores.locate(str(repo)).project.store)  # type: ignore[union-attr]


def sent(llm: FakeLlm) -> str:
    """All that left the machine."""
    return json.dumps([request.body for request in llm.requests], ensure_ascii=False)


def everything() -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(paths.home().rglob("*")) if path.is_file())


def test_bc_002_half_a_character_in_a_session_stops_no_call(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(one_of_each_turn)
    placed("BC-002", repo)
    assert [report.outcome for report in distill().reports] == ["distilled"]
    assert "gate word okapi" in sent(fake_llm)


def test_bc_044_keys_of_any_form_leave_neither_in_a_question_nor_in_a_file(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(lambda request: insights(insight("Keys", shown(request)[:200])))
    forms = {
        "api_key: {}": "sk-sp-MADEUP1234567890.abcdefgh1234567890_XYZ-0987654321",
        "TOKEN={}": "m0-MADEUPabcdefghijklmnopqrstuvwxyz012345",
        'secret = "{}"': "MADE+/abc/def+ghi==",
        '{"client_secret":"{}"}': "MADE~abc.def_ghi-0123456789",
        "pwd='{}'": "MADE up with spaces 99",
        "deploy --token {}": "MADEUPtok.aaa.bbb.ccc",
        "//registry.example.org/:_authToken={}": "MADEUP-0a1b2c3d-4e5f",
        "AccountKey={}": "MADEUPabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ==",
    }
    lines = [form.replace("{}", secret) for form, secret in forms.items()]
    talk.claude(repo, lines[0], "noted", "\n".join(lines), "noted too")
    distill()
    for secret in forms.values():
        assert secret not in sent(fake_llm)
        assert secret[-12:] not in sent(fake_llm)
        assert secret.encode() not in everything()
    assert "deploy --token [token removed]" in sent(fake_llm)


def test_bc_046_words_about_keys_reach_the_model_as_they_are(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(insights())
    lines = [
        "No Firebase API key in the build at all.",
        "apiKey: import.meta.env.VITE_FIREBASE_API_KEY,",
        "fixed in commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "token bucket limit = 500 per minute",
        "password policy: at least 12 characters",
        "Bearer of bad news: the build is red",
    ]
    talk.claude(repo, *lines)
    (report,) = distill().reports
    assert spoken(fake_llm.requests[0]) == lines
    assert report.removed == []


def test_bc_048_no_output_of_a_tool_leaves_the_machine_or_is_kept(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(one_of_each_turn)
    placed("BC-048", repo)
    (report,) = distill().reports
    assert report.session.message_count == 4
    assert len(spoken(fake_llm.requests[0])) == 4
    assert "CANARY" not in sent(fake_llm)
    assert b"CANARY" not in everything()


def test_bc_049_each_message_of_a_rollout_is_asked_about_once(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(one_of_each_turn)
    placed("BC-049", repo)
    distill("codex")
    assert spoken(fake_llm.requests[0]) == [
        "Add a retry to the uploader", "Added three tries with backoff.", "Make the backoff configurable",
    ]  # fmt: skip
    assert "CANARY" not in sent(fake_llm)
    (entry, *_) = journal.recent(store_of(repo), 9)
    assert entry.session == "22222222-2222-4222-8222-000000000001"


def test_bc_064_paths_of_other_machines_are_skipped_wherever_the_daemon_stands(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    placed("BC-064", repo)
    result = distill()
    assert sorted(report.reason for report in result.reports) == [
        "it records no working directory",
        "path is not on this machine: .",
        "path is not on this machine: /c/Users/dev/app",
        "path is not on this machine: C:\\Users\\dev\\app",
        "path is not on this machine: c:/Users/dev/app",
    ]
    assert fake_llm.requests == []
    assert not (paths.memory() / "projects").exists()
    found = listing.page([homes.of("claude_code")], listing.Wanted(project="C:\\Users\\dev\\app"))
    assert found.total == 1


def test_bc_066_a_session_that_records_an_alias_is_of_the_same_project(
    repo: Path, fake_llm: FakeLlm, tmp_path: Path
) -> None:
    fake_llm.always(one_of_each_turn)
    (tmp_path / "alias").symlink_to(repo.parent)
    talk.claude(tmp_path / "alias" / repo.name, "question", "answer")
    talk.claude(f"{repo}/", "where do releases go", "into the bucket", session=identity(2))
    distill()
    assert len(journal.recent(store_of(repo), 9)) == 4
    assert len(stores.names_on_disk()) == 1


@pytest.mark.parametrize("inside", [".git", ".git/refs"])
def test_bc_078_a_session_inside_of_git_s_own_folder_makes_no_store(repo: Path, fake_llm: FakeLlm, inside: str) -> None:
    talk.claude(repo / inside, "question", "answer")
    (report,) = distill().reports
    assert report.outcome in ("skipped", "nothing")
    assert report.store in ("", stores.locate(str(repo)).project.store)  # type: ignore[union-attr]
    assert stores.names_on_disk() == []


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_bc_093_the_day_of_an_entry_is_the_utc_date_of_its_session(repo: Path, fake_llm: FakeLlm, zone: str) -> None:
    fake_llm.always(insights(insight("Seen near midnight")))
    path = talk.claude(repo, "question", "answer")
    text = path.read_text()
    for record in (json.loads(line) for line in text.splitlines()):
        text = text.replace(record["timestamp"], "2026-10-24T23:59:59.900Z")
    path.write_text(text)
    done = coffer("distill", "claude_code", TZ=zone, **fake_llm.environment)
    assert done.returncode == 0, done.stderr
    (day,) = journal.days(store_of(repo))
    assert day.period == "2026-10-24"
    assert f"<!-- 2026-10-24T23:59:59Z claude_code:{identity(1)} -->" in day.text


def test_bc_096_a_session_from_the_future_is_swept_when_its_file_has_settled(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(insights(insight("Seen")))
    registration.add("claude_code")
    placed("BC-096", repo)
    files = list((talk.person() / ".claude" / "projects").rglob("*.jsonl"))
    assert jobs.sweep() == "swept"
    assert fake_llm.requests == [], "written a moment ago"
    past = datetime.now(UTC) - timedelta(hours=1)
    for path in files:
        os.utime(path, (past.timestamp(), past.timestamp()))
    assert jobs.sweep() == "swept"
    assert fake_llm.requests
    today = datetime.now(UTC).date().isoformat()
    assert all(day.period <= today for day in journal.days(store_of(repo)))


def test_bc_101_the_cost_of_a_sweep_is_what_is_new(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_DISTILL_PER_PASS", "1000")
    fake_llm.always(one_of_each_turn)
    registration.add("claude_code")
    files = [
        talk.claude(repo, f"question {number}", f"answer {number}", session=identity(number)) for number in range(40)
    ]
    jobs.sweep()
    assert len(fake_llm.requests) == 40
    for _ in range(4):
        jobs.sweep()
    assert len(fake_llm.requests) == 40
    talk.say(files[7], repo, "one turn more", ago=timedelta(minutes=30))
    jobs.sweep()
    assert [shown(request) for request in fake_llm.requests[40:]] == ["User: one turn more"]


def test_bc_125_a_session_is_distilled_while_it_is_written(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(one_of_each_turn)
    path = talk.claude(repo, "turn 0 部署 🚀", "turn 1 部署 🚀")
    whole = path.read_bytes()
    written = threading.Event()

    def append() -> None:
        for number in range(2, 60):
            line = whole.splitlines()[number % 2].replace(b"turn %d" % (number % 2), b"turn %d" % number)
            line = line.replace(f'{identity(1)}-{number % 2}"'.encode(), f'{identity(1)}-{number}"'.encode())
            line = line.replace(b"msg_000001_1", b"msg_000001_%d" % number) + b"\n"
            inside = line.find("部".encode()) + 1
            for piece in (line[:inside], line[inside:]):
                with path.open("ab") as file:
                    file.write(piece)
        written.set()

    writer = threading.Thread(target=append)
    writer.start()
    while not written.is_set():
        (report,) = distill().reports
        assert report.outcome in ("distilled", "nothing", "done"), report.reason
    writer.join()
    distill()
    said = "\n".join(shown(request) for request in fake_llm.requests)
    assert [said.count(f"turn {number} 部署 🚀") for number in range(60)] == [1] * 60
    path.write_bytes(whole.replace(b"turn", b"new"))
    distill()
    assert spoken(fake_llm.requests[-1]) == ["new 0 部署 🚀", "new 1 部署 🚀"]


def test_bc_127_what_a_resumed_session_repeats_becomes_no_second_entry(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(one_of_each_turn)
    placed("BC-127", repo)
    distill()
    assert len(journal.recent(store_of(repo), 99)) == 15
    parent = ("old question", "old answer")
    talk.codex(repo, *parent, session="22222222-2222-4222-8222-000000000002", ago=timedelta(hours=2))
    fork = next((INPUTS / "BC-127" / "codex").glob("*.jsonl"))
    target = talk.person() / ".codex" / "sessions" / "2026" / "11" / "01" / fork.name
    target.write_bytes(fork.read_bytes().replace(b"@REPO@", str(repo).encode()))
    before = len(fake_llm.requests)
    distill("codex")
    said = [turn for request in fake_llm.requests[before:] for turn in spoken(request)]
    assert sorted(said) == ["new answer after the fork", "new question after the fork", "old answer", "old question"]
    entries = len(journal.recent(store_of(repo), 99))
    distill("claude_code", "codex")
    assert len(journal.recent(store_of(repo), 99)) == entries == 19


def test_bc_133_memory_does_not_echo_itself(repo: Path, fake_llm: FakeLlm) -> None:
    """Five rounds: what a session begins with stands in its file, and the next one begins with what came of it."""
    fake_llm.always(lambda asked: insights(*(insight(turn, f"{turn}.") for turn in spoken(asked) if "News" in turn)))
    place = stores.locate(str(repo))
    store = stores.for_writing(place, "project")
    rules.append(store, "ECHO_CANARY_RULE holds always.")
    facts.remember(store, "ECHO_CANARY_FACT is so.", actor="agent")
    handoff.save(place, "ECHO_CANARY_HANDOFF goes on.")
    placed("BC-133", repo)
    distill()
    sizes = []
    for number in range(5):
        told = digest.session(stores.locate(str(repo)), 9_900).text
        assert "ECHO_CANARY_RULE" in told
        recalled = json.dumps(call("recall", repo, query="canary"))
        path = talk.claude(repo, f"News of round {number}", "ok", session=identity(100 + number))
        lines = path.read_text().splitlines()
        attached = {"type": "hook_success", "stdout": told}
        result = [{"type": "tool_result", "tool_use_id": "t", "content": recalled}]
        more = [
            {"type": "attachment", "uuid": f"a{number}", "attachment": attached, "sessionId": path.stem},
            {"type": "user", "uuid": f"b{number}", "message": {"role": "user", "content": result}},
            {"type": "user", "uuid": f"c{number}", "message": {"role": "user", "content": told}},
        ]
        path.write_text("\n".join([*map(json.dumps, more), *lines]) + "\n")
        distill()
        sizes.append(len(journal.recent(store, 99)))
    assert "ECHO_CANARY" not in sent(fake_llm)
    assert sizes == [sizes[0] + number for number in range(5)]
    assert "ECHO_CANARY" not in "".join(day.text for day in journal.days(store))


def test_bc_150_ids_of_sessions_lead_nowhere(repo: Path, fake_llm: FakeLlm, make_repo: Callable[..., Path]) -> None:
    fake_llm.always(insights(insight("Seen")))
    path = talk.codex(repo, "question", "answer", session=identity(5))
    path.write_text(path.read_text().replace(identity(5), "../../../outside <!-- x"))
    distill("codex")
    (entry,) = journal.recent(store_of(repo), 9)
    assert entry.session == "../../../outside <!-- x"
    assert not (paths.home().parent / "outside").exists()
    shutil.rmtree(paths.home() / "logs", ignore_errors=True)
    assert distill("codex").reports[0].outcome == "done"
