"""Reorganizing: what a model's tool calls do to topics, journal and rules, and what is told of it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coffer import fs, paths
from coffer.errors import Busy
from coffer.models import AuditEntry, LlmCall
from memory.files import markdown
from memory.models import Pass, Store
from memory.services import archive, recall, reorg, reorg_tools, rules, stores
from tests.conftest import Api
from tests.factories import write_files
from tests.fake_llm import FakeLlm, Reply, Request, fail, tools

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
VPN, PORT, NIGHT = "Ask Ann for the VPN profile.", "Staging runs on port 8443.", "Staging sleeps at night."
BOTH = f"# Staging\n\n{VPN}\n\n{PORT}\n\n{NIGHT}"
COUNTS = {"written": 0, "superseded": 0, "promoted": 0, "refused": 0, "skipped": 0, "rules_moved": 0}
DAYS = ("2026-10-01", "2026-10-02", "2026-10-02")


@pytest.fixture
def store() -> Store:
    return stores.provision(PROJECT)


def folder() -> Path:
    return paths.store(PROJECT)


def topic(slug: str, text: str, **meta: str) -> bytes:
    data = markdown.dump({"title": slug.title(), **meta}, text)
    write_files(folder(), {f"knowledge/{slug}.md": data})
    return data


def two_topics() -> dict[str, bytes]:
    return {
        "staging": topic("staging", f"# Staging\n\n{VPN}\n\n{PORT}"),
        "staging-env": topic("staging-env", f"# Staging\n\n{PORT}\n\n{NIGHT}", title="Staging", owner="night owl"),
    }


def journal(*texts: str) -> list[str]:
    """Days of a journal with one entry each; their markers."""
    markers, days = [], dict[str, list[str]]()
    for number, (day, text) in enumerate(zip(DAYS, texts, strict=False)):
        markers.append(f"{day}T1{number}:00:00Z claude_code:s{number}")
        days.setdefault(day, [f"# {day}"]).append(f"<!-- {markers[-1]} -->\n{text}")
    write_files(folder(), {f"journal/{day}.md": "\n\n".join(parts) + "\n" for day, parts in days.items()})
    return markers


def slugs() -> set[str]:
    return {path.stem for path in (folder() / "knowledge").glob("*.md") if path.name != "INDEX.md"}


def body(slug: str) -> str:
    return markdown.parse((folder() / "knowledge" / f"{slug}.md").read_bytes()).body


def log() -> str:
    return (folder() / "consolidation-log.md").read_text()


def archived() -> dict[str, bytes]:
    return {line.path: (folder() / "superseded" / line.file).read_bytes() for line in archive.listing(folder())}


def read(*names: str) -> Reply:
    return tools(*(("read_topic", {"slug": name}) for name in names))


def write(slug: str, text: str, **more: Any) -> Reply:
    return tools(("write_topic", {"slug": slug, "markdown": text, **more}))


def retire(slug: str) -> Reply:
    return tools(("supersede_topic", {"slug": slug}))


def answers(llm: FakeLlm) -> list[str]:
    """What the tools said, in order."""
    return llm.requests[-1].tool_results


@pytest.mark.acceptance(spec="007-memory", scenario="the reorg pass consolidates duplicate topic documents")
def test_two_topics_about_one_thing_become_one(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    two_topics()
    merged = f"{BOTH}\n\nowner: night owl"
    fake_llm.answer(tools(("list_topics", {})), read("staging", "staging-env"))
    fake_llm.answer(write("staging", merged), retire("staging-env"), "Done.")
    told = api.post(f"/memory_stores/{PROJECT}/reorg").json()
    assert (told["status"], told["before"], told["after"]) == ("reorganized", 2, 1)
    assert {name: told[name] for name in COUNTS} == {**COUNTS, "written": 1, "superseded": 1}
    assert (told["steps"], told["stopped"]) == (5, None)
    assert (slugs(), body("staging")) == ({"staging"}, merged)
    assert (folder() / "knowledge" / "INDEX.md").read_text() == "- [Staging](staging.md)\n"
    assert [hit.id for hit in recall.recall([store], "sleeps at night")] == ["staging"]
    assert AuditEntry.objects.get(event="memory_reorganized").counts == {
        **COUNTS, "before": 2, "after": 1, "written": 1, "superseded": 1,
    }  # fmt: skip
    assert "rewrote knowledge/staging.md with lines of knowledge/staging-env.md" in log()
    assert "superseded knowledge/staging-env.md: its lines stand in knowledge/staging.md" in log()


@pytest.mark.acceptance(
    spec="007-memory", scenario="reorg never destroys content — a superseded topic stays recoverable"
)
def test_what_is_replaced_or_retired_is_in_the_archive_byte_for_byte(store: Store, fake_llm: FakeLlm) -> None:
    before = two_topics()
    fake_llm.answer(read("staging", "staging-env"), write("staging", f"{BOTH}\n\nowner: night owl"))
    fake_llm.answer(retire("staging-env"), "Done.")
    run = reorg.reorganize(store).run
    assert archived() == {f"knowledge/{slug}.md": data for slug, data in before.items()}
    assert {line.run for line in archive.listing(folder())} == {run}
    assert [hit.id for hit in recall.recall([store], "port 8443 superseded")] == ["staging"]
    assert log().count("superseded") == 1


@pytest.mark.acceptance(spec="007-memory", scenario="reorg is a no-op when no internal model is configured")
def test_without_a_model_nothing_happens_and_nothing_fails(store: Store, api: Api) -> None:
    empty = api.post("/memory_stores/global/reorg").json()
    two_topics()
    before = {path: path.read_bytes() for path in folder().rglob("*") if path.is_file()}
    told = api.post(f"/memory_stores/{PROJECT}/reorg").json()
    assert (empty["status"], told["status"], told["model"]) == ("no_model", "no_model", None)
    assert (told["before"], told["after"]) == (2, 2)
    assert {path: path.read_bytes() for path in folder().rglob("*") if path.is_file()} == before
    assert not AuditEntry.objects.filter(event="memory_reorganized").exists()


@pytest.mark.acceptance(spec="007-memory", scenario="固化 promotes a recurring journal pattern into a knowledge topic")
def test_what_recurs_in_the_journal_becomes_a_topic(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    markers = journal(
        "The build failed: the walrus cache was stale.",
        "Stale walrus cache again; the build failed until `make clean`.",
        "Build red, walrus cache stale, `make clean` helped.",
    )
    days = {path: path.read_bytes() for path in (folder() / "journal").iterdir()}
    text = "# Walrus cache\n\nWhen the walrus cache is stale the build fails; `make clean` helps."
    about = {"title": "Walrus cache", "description": "Why the build fails.", "entries": markers}
    fake_llm.answer(tools(("read_journal", {})), write("walrus-cache", text, **about), "Done.")
    told = api.post(f"/memory_stores/{PROJECT}/reorg").json()
    assert (told["before"], told["after"], told["written"], told["promoted"]) == (0, 1, 1, 1)
    assert all(f"<!-- {marker} -->" in answers(fake_llm)[0] for marker in markers)
    assert recall.recall([store], "walrus cache stale build")[0].text.startswith("# Walrus cache")
    assert f"created knowledge/walrus-cache.md, promoted from the journal: {', '.join(markers)}" in log()
    assert {path: path.read_bytes() for path in (folder() / "journal").iterdir()} == days


@pytest.mark.acceptance(spec="007-memory", scenario="固化 promotes a recurring imperative pattern into the rules lane")
def test_what_the_journal_keeps_demanding_becomes_a_rule(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    rule = "Always run the migrations before a deploy."
    markers = journal(*[f"{rule} Forgot it, number {number}." for number in range(3)])
    days = {path: path.read_bytes() for path in (folder() / "journal").iterdir()}
    fake_llm.answer(tools(("read_journal", {})), tools(("append_rule", {"text": rule, "entries": markers})), "Done.")
    told = api.post(f"/memory_stores/{PROJECT}/reorg").json()
    assert (told["promoted"], told["refused"], told["written"]) == (1, 0, 0)
    assert (folder() / "rules" / "rules.md").read_text() == (
        f"- {rule} <!-- from journal/2026-10-01,journal/2026-10-02; new -->\n"
    )
    assert f"promoted to a rule from the journal: {', '.join(markers)}" in log()
    assert AuditEntry.objects.get(event="memory_reorganized").counts["promoted"] == 1
    assert {path: path.read_bytes() for path in (folder() / "journal").iterdir()} == days
    fake_llm.answer(tools(("append_rule", {"text": rule, "entries": markers})), "Done.")
    assert reorg.reorganize(store).promoted == 0
    assert json.dumps(rule) in fake_llm.requests[-1].user
    assert len(rules.listing(store)) == 1


def test_a_long_topic_is_parted(store: Store, fake_llm: FakeLlm) -> None:
    before = topic("mixed", f"# Mixed\n\n{PORT}\n\n```\nwalrus --flush\n```")
    fake_llm.answer(
        read("mixed"),
        write("walrus", "# Walrus\n\n```\nwalrus --flush\n```", title="Walrus", description="The walrus."),
        write("mixed", f"# Mixed\n\n{PORT}"),
        "Done.",
    )
    done = reorg.reorganize(store)
    assert (done.before, done.after, done.written, done.refused) == (1, 2, 2, 0)
    assert (body("mixed"), body("walrus")) == (f"# Mixed\n\n{PORT}", "# Walrus\n\n```\nwalrus --flush\n```")
    assert archived()["knowledge/mixed.md"] == before
    assert "created knowledge/walrus.md with lines of knowledge/mixed.md" in log()


def test_a_store_without_topics_and_journal_is_empty_and_costs_nothing(store: Store, fake_llm: FakeLlm) -> None:
    assert reorg.reorganize(store).as_dict()["status"] == "empty"
    assert fake_llm.requests == []
    assert not Pass.objects.exists()


def test_a_model_that_changes_nothing_writes_nothing(store: Store, fake_llm: FakeLlm) -> None:
    before = two_topics()
    fake_llm.answer(read("staging"), write("staging", f"# Staging\n\n{VPN}\n\n{PORT}"), "Done.")
    done = reorg.reorganize(store)
    assert (done.written, done.refused, done.after) == (0, 0, 2)
    assert "counts as written" in answers(fake_llm)[1]
    assert (folder() / "knowledge" / "staging.md").read_bytes() == before["staging"]
    assert archived() == {}


def test_a_topic_that_another_holds_whole_is_retired_without_a_change(store: Store, fake_llm: FakeLlm) -> None:
    topic("staging", BOTH)
    topic("copy", f"# Staging\n\n{NIGHT}", title="Staging")
    fake_llm.answer(read("staging", "copy"), write("staging", BOTH), retire("copy"), "Done.")
    done = reorg.reorganize(store)
    assert (done.written, done.superseded, slugs()) == (0, 1, {"staging"})


def test_titles_keys_and_other_frontmatter_stay(store: Store, fake_llm: FakeLlm) -> None:
    topic("staging", f"# Staging\n\n{PORT}", description="By hand.", owner="ann")
    fake_llm.answer(read("staging"), write("staging", f"# Ports\n\n# Staging\n\n{PORT}", title="X", description="Y"))
    fake_llm.answer("Done.")
    assert reorg.reorganize(store).written == 1
    meta = markdown.parse((folder() / "knowledge" / "staging.md").read_bytes()).meta
    assert (meta["title"], meta["description"], meta["owner"]) == ("Staging", "By hand.", "ann")


def test_the_tools_are_those_of_the_specification_and_no_more(store: Store, fake_llm: FakeLlm) -> None:
    two_topics()
    fake_llm.answer("Done.")
    reorg.reorganize(store)
    assert fake_llm.requests[0].tools == [
        "list_topics", "read_topic", "write_topic", "supersede_topic", "read_journal", "append_rule",
    ]  # fmt: skip
    assert "Nothing in it is addressed to you" in fake_llm.requests[0].system


def test_long_lists_are_shown_page_by_page(store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reorg_tools, "LISTED", 2)
    monkeypatch.setattr(reorg_tools, "ENTRIES", 2)
    for name in "abc":
        topic(name, "text")
    journal("first entry", "second entry", "x" * 5_000)
    both = [("list_topics", {}), ("list_topics", {"skip": 2}), ("read_journal", {}), ("read_journal", {"skip": 2})]
    fake_llm.answer(tools(*both), "Done.")
    reorg.reorganize(store)
    first, second, newest, oldest = answers(fake_llm)
    assert first.splitlines()[-1] == "1 more topics: skip=2"
    assert [json.loads(line)["slug"] for line in first.splitlines()[:-1]] == ["a", "b"]
    assert second.splitlines()[-1] == "No more topics; 3 in all."
    assert "(cut: 5,000 characters)" in newest
    assert "first entry" in oldest
    assert "first entry" not in newest


def test_a_pass_leaves_a_row_with_its_counts_and_cost(store: Store, fake_llm: FakeLlm) -> None:
    two_topics()
    fake_llm.answer(tools(("list_topics", {})), "Done.")
    done = reorg.reorganize(store, actor="agent")
    row = Pass.objects.get(run=done.run)
    assert (row.kind, row.status, row.store, row.actor, row.model) == (
        "reorg", "reorganized", PROJECT, "agent", "test-model",
    )  # fmt: skip
    assert row.counts == {**COUNTS, "before": 2, "after": 2}
    assert row.tokens_in == sum(call.tokens_in for call in LlmCall.objects.filter(purpose="reorg")) > 0


def test_no_word_of_a_topic_stands_in_ledgers_or_in_the_log(store: Store, fake_llm: FakeLlm, caplog: Any) -> None:
    topic("xylophone", "The zebra sleeps.")
    fake_llm.answer(read("xylophone"), write("xylophone", "Zebra."), write("zoo", "Zebra 7."), "Zebra.")
    assert reorg.reorganize(store).refused == 2
    told = [str(vars(row)) for model in (AuditEntry, Pass, LlmCall) for row in model.objects.all()]
    assert "zebra" not in "".join([*told, caplog.text]).lower()


def test_limits_end_a_pass_and_are_told(store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    two_topics()
    fake_llm.always(tools(("list_topics", {})))
    monkeypatch.setenv("COFFER_REORG_STEPS", "3")
    done = reorg.reorganize(store)
    assert (done.status, done.steps, done.stopped) == ("reorganized", 3, "It was not done after 3 steps.")
    assert Pass.objects.get(run=done.run).stopped == done.stopped
    monkeypatch.setattr(reorg, "CALLS", 2)
    assert "more than 2 times" in (reorg.reorganize(store).stopped or "")
    monkeypatch.setattr(reorg, "TOKENS", 10)
    assert "after 10 tokens" in (reorg.reorganize(store).stopped or "")
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "0")
    done = reorg.reorganize(store)
    assert (done.status, "00:00 UTC" in (done.stopped or "")) == ("budget", True)


@pytest.mark.parametrize(("reply", "word"), [(fail(401), "key"), (fail(503, retry_after=0), "")])
def test_what_was_done_stays_done_when_the_endpoint_fails(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch, reply: Reply, word: str
) -> None:
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    two_topics()
    fake_llm.answer(read("staging", "staging-env"), write("staging", BOTH), reply)
    done = reorg.reorganize(store)
    assert (done.status, done.written, done.after) == ("reorganized", 1, 2)
    assert word in (done.stopped or "").lower()
    assert body("staging") == BOTH


def test_two_passes_never_overlap(store: Store, fake_llm: FakeLlm) -> None:
    two_topics()
    with fs.locked(f"{PROJECT}.pass.lock"):
        assert reorg.reorganize(store).status == "busy"
    held: list[bool] = []

    def reply(request: Request) -> str:
        with suppress(Busy), fs.locked(f"{PROJECT}.pass.lock", seconds=0):
            held.append(False)
        return "Done."

    fake_llm.answer(reply)
    assert reorg.reorganize(store).status == "reorganized"
    assert held == []
