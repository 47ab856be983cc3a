"""Scenarios of store consolidation: the scan, the merge, and what a merged identity leads to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coffer import later, paths
from coffer.models import AuditEntry
from gateway.caller import Caller
from gateway.tools import TOOLS
from memory.models import Document, Store
from memory.services import stores
from tests.cases.steps import fingerprint
from tests.conftest import Api
from tests.factories import write_files
from tests.fake_llm import FakeLlm

Repos = Callable[..., Path]
Git = Callable[..., str]
REMOTE = "https://git.example.org/acme/widget.git"


def call(tool: str, cwd: Path, **arguments: Any) -> dict[str, Any]:
    return TOOLS[f"coffer__{tool}"].call(Caller(str(cwd), "codex", "s-1"), arguments).content


def two_with_one_origin(make_repo: Repos, git: Git) -> list[str]:
    """The stores of two repositories that turned out to have the same origin."""
    repos = [make_repo(name) for name in ("one", "two")]
    names = [call("remember", repo, text=f"The okapi of {repo.name}.")["project"]["store"] for repo in repos]
    later.flush()
    for repo in repos:
        git(repo, "remote", "add", "origin", REMOTE)
    return names


@pytest.mark.acceptance(spec="007-memory", scenario="merge scan proposes same-project stores")
def test_a_provable_pair_is_proposed_by_its_origin_and_a_plausible_one_by_the_engine(
    make_repo: Repos, git: Git, api: Api, fake_llm: FakeLlm, home: Path
) -> None:
    provable = two_with_one_origin(make_repo, git)
    call("remember", make_repo("plausible"), text="The okapi of one, again.")
    later.flush()
    fake_llm.answer({"same_project": True, "confidence": "medium", "reason": "Both know the okapi."})
    fake_llm.always({"same_project": False, "confidence": "low", "reason": "They differ."})
    before = fingerprint(home / "memory")
    answer = api.post("/memory_stores/merge_scan").json()
    by = {frozenset((one["source"], one["target"])): one for one in answer["proposals"]}
    certain = by.pop(frozenset(provable))
    assert (certain["confidence"], certain["judged_by"]) == ("certain", "remote")
    assert certain["target"] == min(provable)  # both have a folder and one fact: the smaller name survives
    (judged,) = by.values()
    assert (judged["confidence"], judged["judged_by"], judged["reason"]) == ("medium", "engine", "Both know the okapi.")
    assert len(fake_llm.requests) == answer["judged"] == 2
    assert fingerprint(home / "memory") == before


@pytest.mark.acceptance(spec="007-memory", scenario="merge scan degrades cleanly without an internal engine")
def test_without_an_engine_the_provable_pair_is_still_proposed(make_repo: Repos, git: Git, api: Api) -> None:
    provable = two_with_one_origin(make_repo, git)
    call("remember", make_repo("plausible"), text="The okapi of one, again.")
    later.flush()
    answer = api.post("/memory_stores/merge_scan")
    assert answer.status_code == 200
    assert answer.json()["engine"] == "no_model"
    (proposal,) = answer.json()["proposals"]
    assert {proposal["source"], proposal["target"]} == set(provable)
    assert proposal["judged_by"] == "remote"


@pytest.mark.acceptance(spec="007-memory", scenario="merging two stores consolidates additively and retires the source")
def test_a_merge_takes_every_file_along_and_retires_the_source(make_repo: Repos, api: Api) -> None:
    repo = make_repo("one", remote=REMOTE)
    source = call("remember", repo, text="The okapi of one.")["project"]["store"]
    target = "project-01BX5ZZKBKACTAV9WEVGEMMVRZ"
    api.post(f"/memory_stores/{target}/facts", {"text": "The okapi of two."})
    api.patch(f"/memory_stores/{source}/label", {"label": "My widget"})
    both = "<!-- 2026-10-25T10:00:00Z codex:s -->\nSaid to both.\n"
    mine = "<!-- 2026-10-25T11:00:00Z codex:s -->\nSaid to one.\n"
    day = "journal/2026-10-25.md"
    write_files(paths.store(source), {day: f"# 2026-10-25\n\n{both}\n{mine}", "knowledge/deploy.md": "okapi ours\n"})
    write_files(paths.store(target), {day: f"# 2026-10-25\n\n{both}", "knowledge/deploy.md": "okapi theirs\n"})
    later.flush()
    answer = api.post("/memory_stores/merge", {"source": source, "target": target})
    assert (answer.status_code, answer.json()["reorg_status"]) == (200, "no_model")
    text = (paths.store(target) / day).read_text()
    assert (text.count("Said to both."), text.count("Said to one.")) == (1, 1)
    assert {(paths.store(target) / "knowledge" / f"deploy{end}.md").read_text() for end in ("", "-2")} == {
        "okapi ours\n", "okapi theirs\n",
    }  # fmt: skip
    later.flush()
    store = api.get(f"/memory_stores/{target}").json()
    assert (store["label"], store["project_root"], store["fact_count"]) == ("My widget", str(repo), 4)
    assert len(api.post(f"/memory_stores/{target}/recall", {"query": "okapi"}).json()["hits"]) == 4
    assert not paths.store(source).exists()
    assert not Store.objects.filter(name=source).exists()
    assert set(Document.objects.values_list("store__name", flat=True)) == {target}
    row = AuditEntry.objects.get(event="memory_stores_merged")
    assert (row.store, row.ref, all(isinstance(count, int) for count in row.counts.values())) == (target, source, True)


@pytest.mark.acceptance(spec="007-memory", scenario="a merged identity resolves to the surviving store")
def test_a_checkout_of_the_merged_identity_writes_to_the_survivor(make_repo: Repos, api: Api) -> None:
    first, second = make_repo("one", remote=REMOTE), make_repo("two", remote="https://git.example.org/acme/two.git")
    merged = call("remember", first, text="The okapi of one.")["project"]["store"]
    survivor = call("remember", second, text="The okapi of two.")["project"]["store"]
    api.post("/memory_stores/merge", {"source": merged, "target": survivor})
    saved = call("remember", first, text="Said afterwards.")
    assert saved["project"]["store"] == survivor
    assert Path(saved["path"]).is_relative_to(paths.store(survivor))
    assert [store.name for store in stores.all_stores() if store.name != "global"] == [survivor]
