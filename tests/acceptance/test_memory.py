"""Scenarios of stories 1, 2, 4, 5 and 7 at the contract: services through MCP tools, REST and files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coffer import paths
from coffer.models import AuditEntry
from gateway.caller import Caller
from gateway.tools import TOOLS
from memory.files import markdown
from memory.models import Document
from tests.conftest import Api

REMOTE = "git@git.example.org:acme/widget.git"


def call(tool: str, cwd: Path, agent: str = "claude_code", **arguments: Any) -> dict[str, Any]:
    """Call one of the five tools as an agent started in ``cwd`` does."""
    return TOOLS[f"coffer__{tool}"].call(Caller(str(cwd), agent, f"session-{agent}"), arguments).content


def store_of(cwd: Path) -> Path:
    name = call("recall", cwd, query="x")["project"]["store"]
    return paths.store(name)


@pytest.mark.acceptance(spec="007-memory", scenario="agent remembers a project fact")
def test_remember_writes_a_markdown_file_with_frontmatter_indexes_it_and_audits(repo: Path) -> None:
    saved = call("remember", repo, text="This repo deploys via make release. Never push tags by hand.")
    path = Path(saved["path"])
    page = markdown.parse(path.read_bytes())
    assert path.parent == store_of(repo) / "knowledge" / "inbox"
    assert page.meta["title"] == "This repo deploys via make release."
    assert page.meta["metadata"] == {"actor": "agent", "origin_session_id": "session-claude_code"}
    assert page.body == "This repo deploys via make release. Never push tags by hand."
    assert Document.objects.get(ref=saved["id"]).path == f"knowledge/inbox/{path.name}"
    assert AuditEntry.objects.get(event="fact_added").ref == saved["id"]
    assert saved["indexed"] is True
    assert saved["project"]["root"] == str(repo)


@pytest.mark.acceptance(spec="007-memory", scenario="agent recalls a project fact")
def test_another_agent_recalls_what_the_first_remembered(repo: Path) -> None:
    saved = call("remember", repo, text="The API base path is /api/v2.")
    (hit,) = call("recall", repo, agent="codex", query="which base path has the API?")["hits"]
    assert hit["id"] == saved["id"]
    assert hit["text"] == "The API base path is /api/v2."
    assert hit["source"] == f"project:{saved['path']}"
    assert hit["score"] > 0
    assert hit["time"].endswith("Z")


@pytest.mark.acceptance(spec="007-memory", scenario="recall spans project and global scope")
def test_recall_without_a_scope_draws_from_both_stores(repo: Path) -> None:
    call("remember", repo, text="Prefers tabs over spaces everywhere.", scope="global")
    call("remember", repo, text="This service uses tabs in its Makefile.")
    scopes = {hit["source"].split(":")[0] for hit in call("recall", repo, query="tabs")["hits"]}
    assert scopes == {"project", "global"}
    only = call("recall", repo, query="tabs", scope="global")["hits"]
    assert {hit["source"].split(":")[0] for hit in only} == {"global"}


@pytest.mark.acceptance(spec="007-memory", scenario="remembered items are stored in the knowledge lane")
def test_remembered_items_lie_only_in_the_knowledge_lane(repo: Path) -> None:
    call("remember", repo, text="Tests run with make test.")
    store = store_of(repo)
    assert [path.relative_to(store).parts[:2] for path in store.rglob("*.md")] == [("knowledge", "inbox")]
    assert call("recall", repo, query="how do tests run")["hits"][0]["text"] == "Tests run with make test."


@pytest.mark.acceptance(spec="007-memory", scenario="remember at global scope")
def test_a_global_fact_is_recalled_from_any_project(make_repo: Callable[..., Path]) -> None:
    first, second = make_repo("one"), make_repo("two")
    saved = call("remember", first, text="Commits are signed with ssh keys.", scope="global")
    assert Path(saved["path"]).is_relative_to(paths.memory() / "global")
    assert call("recall", second, query="signed commits")["hits"][0]["id"] == saved["id"]


@pytest.mark.acceptance(spec="007-memory", scenario="project scope resolves from the agent's working directory")
def test_project_scope_comes_from_the_git_root_of_the_working_directory(repo: Path) -> None:
    deep = repo / "src" / "deep"
    deep.mkdir(parents=True)
    call("recall", deep, query="anything")
    assert not paths.projects().exists()
    saved = call("remember", deep, text="The parser lives in src/deep.")
    assert saved["project"]["root"] == str(repo)
    assert [path.name for path in paths.projects().iterdir()] == [saved["project"]["store"].removeprefix("project-")]


@pytest.mark.acceptance(spec="007-memory", scenario="project memory follows the repository across checkout paths")
def test_two_checkouts_of_one_remote_share_a_store(make_repo: Callable[..., Path]) -> None:
    here = make_repo("here", remote=REMOTE)
    there = make_repo("there", remote="https://git.example.org/Acme/Widget")
    saved = call("remember", here, text="Deploys happen on Tuesdays.")
    assert call("recall", there, query="when are deploys")["hits"][0]["id"] == saved["id"]


@pytest.mark.acceptance(spec="007-memory", scenario="project memory follows the repository across checkout paths")
def test_a_store_from_before_the_remote_is_adopted_with_facts_label_and_root(
    make_repo: Callable[..., Path], git: Callable[..., str], api: Api
) -> None:
    repo = make_repo("later")
    saved = call("remember", repo, text="The cache is warmed by cron.")
    older = saved["project"]["store"]
    api.patch(f"/memory_stores/{older}/label", {"label": "My widget"})
    git(repo, "remote", "add", "origin", REMOTE)
    found = call("recall", repo, query="cache warmed")
    name = found["project"]["store"]
    assert name != older
    assert found["hits"][0]["id"] == saved["id"]
    store = api.get(f"/memory_stores/{name}").json()
    assert (store["label"], store["project_root"]) == ("My widget", str(repo))
    assert [path.name for path in paths.projects().iterdir()] == [name.removeprefix("project-")]


@pytest.mark.acceptance(spec="007-memory", scenario="out-of-band fact-file edits are visible on recall")
def test_an_edit_on_disk_is_in_the_next_recall(repo: Path) -> None:
    path = Path(call("remember", repo, text="The port is 8000.")["path"])
    path.write_text(path.read_text().replace("The port is 8000.", "The port is 9443."))
    (hit,) = call("recall", repo, query="port")["hits"]
    assert hit["text"] == "The port is 9443."


@pytest.mark.acceptance(spec="007-memory", scenario="user adds a fact")
def test_a_user_adds_a_fact_over_rest(api: Api) -> None:
    answer = api.post("/memory_stores/global/facts", {"text": "Reviews need two approvals."})
    fact = answer.json()
    assert answer.status_code == 201
    assert fact["metadata"]["actor"] == "user"
    assert Path(fact["path"]).parent == paths.memory() / "global" / "knowledge" / "inbox"
    assert AuditEntry.objects.get(event="fact_added").actor == "user"
    assert api.post("/memory_stores/global/recall", {"query": "approvals"}).json()["hits"][0]["id"] == fact["id"]


@pytest.mark.acceptance(spec="007-memory", scenario="user corrects a fact out-of-band")
def test_a_user_corrects_a_fact_over_rest_and_the_old_version_is_kept(api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "Reviews need two approvals."}).json()
    url = f"/memory_stores/global/facts/{fact['id']}"
    changed = api.patch(url, {"text": "Reviews need one approval.", "if_sha256": fact["sha256"]}).json()
    assert changed["text"] == "Reviews need one approval."
    hits = api.post("/memory_stores/global/recall", {"query": "reviews"}).json()["hits"]
    assert [hit["text"] for hit in hits] == ["Reviews need one approval."]
    stale = api.patch(url, {"text": "Reviews need none.", "if_sha256": fact["sha256"]})
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "CONFLICT")
    (kept,) = (paths.memory() / "global" / "superseded").glob("*.md")
    assert "two approvals" in kept.read_text()


@pytest.mark.acceptance(spec="007-memory", scenario="user deletes a fact")
def test_a_deleted_fact_is_gone_from_its_lane_index_and_recall(api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "The staging key rotates weekly."}).json()
    assert api.delete(f"/memory_stores/global/facts/{fact['id']}").status_code == 204
    assert not Path(fact["path"]).exists()
    assert not Document.objects.filter(ref=fact["id"]).exists()
    assert api.post("/memory_stores/global/recall", {"query": "staging key"}).json()["hits"] == []
    assert api.get(f"/memory_stores/global/facts/{fact['id']}").json()["error"]["code"] == "MEMORY_NOT_FOUND"


@pytest.mark.acceptance(spec="007-memory", scenario="clear a memory scope")
def test_clearing_removes_every_item_and_keeps_the_store(api: Api) -> None:
    for number in range(3):
        api.post("/memory_stores/global/facts", {"text": f"Fact number {number}."})
    assert api.delete("/memory_stores/global/facts").json() == {"cleared": 3}
    assert api.get("/memory_stores/global/facts").json() == {"facts": [], "total": 0}
    assert api.get("/memory_stores/global").json()["fact_count"] == 0
    assert AuditEntry.objects.get(event="store_cleared").counts == {"facts": 3}


@pytest.mark.acceptance(spec="007-memory", scenario="user renames a memory store")
def test_a_label_is_trimmed_shown_everywhere_and_cleared_by_a_blank(repo: Path, api: Api) -> None:
    name = call("remember", repo, text="Something.")["project"]["store"]
    url = f"/memory_stores/{name}/label"
    assert api.patch(url, {"label": "  The  widget "}).json()["label"] == "The widget"
    listed = {store["name"]: store for store in api.get("/memory_stores").json()["memory_stores"]}
    assert listed[name]["display_name"] == "The widget"
    assert call("recall", repo, query="x")["project"]["name"] == "The widget"
    cleared = api.patch(url, {"label": "   "}).json()
    assert (cleared["label"], cleared["display_name"]) == (None, "repo")
    unknown = api.patch("/memory_stores/project-00000000000000000000000009/label", {"label": "x"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "MEMORY_STORE_NOT_FOUND")
    assert not paths.store("project-00000000000000000000000009").exists()


@pytest.mark.acceptance(spec="007-memory", scenario="built-in memory tools appear in client tool list")
def test_the_five_tools_are_what_the_server_offers() -> None:
    names = {"recall", "remember", "list_memory", "set_handoff", "resume"}
    assert set(TOOLS) == {f"coffer__{name}" for name in names}


@pytest.mark.acceptance(spec="007-memory", scenario="vector recall falls back when embedding is unconfigured")
def test_a_store_set_to_hybrid_without_an_embedder_answers_by_keyword(repo: Path, api: Api) -> None:
    saved = call("remember", repo, text="Sessions expire after 30 minutes.")
    name = saved["project"]["store"]
    assert api.patch(f"/memory_stores/{name}", {"retrieval": "hybrid"}).json()["config"]["retrieval"] == "hybrid"
    answer = call("recall", repo, query="session expiry minutes")
    assert answer["hits"][0]["id"] == saved["id"]
    assert set(answer) == {"hits", "project"}


@pytest.mark.acceptance(spec="007-memory", scenario="a topic document recalls at passage granularity")
def test_a_hit_of_a_topic_is_its_section_not_the_whole_document(repo: Path) -> None:
    call("remember", repo, text="Anything, so that the store exists.")
    topic = store_of(repo) / "knowledge" / "operations.md"
    topic.write_text(
        "---\ntitle: Operations\n---\n\n# Operations\n\n## Backups\n\nNightly dumps go to the vault bucket.\n\n"
        "## Certificates\n\nRenewal is handled by the acme-walrus job.\n"
    )
    hit = call("recall", repo, query="acme-walrus renewal")["hits"][0]
    assert hit["id"] == "operations"
    assert "acme-walrus" in hit["text"]
    assert "vault bucket" not in hit["text"]


@pytest.mark.acceptance(spec="007-memory", scenario="agent saves and resumes a working-state handoff")
def test_a_handoff_is_resumed_by_another_agent_and_never_recalled(repo: Path, git: Callable[..., str]) -> None:
    git(repo, "checkout", "-q", "-b", "feature/login")
    saved = call("set_handoff", repo, body="Halfway through the zebra migration.")
    assert saved["branch"] == "feature/login"
    assert AuditEntry.objects.filter(event="handoff_set").count() == 1
    git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    scene = call("resume", repo, agent="codex")
    assert scene["found"] is True
    assert (scene["branch"], scene["body"]) == ("feature/login", "Halfway through the zebra migration.")
    assert scene["updated_at"].endswith("Z")
    assert "less than a minute ago" in scene["note"]
    assert "Commits since: 1." in scene["note"]
    assert call("recall", repo, query="zebra migration")["hits"] == []
    call("set_handoff", repo, body="Done with it.")
    assert call("resume", repo)["body"] == "Done with it."
    assert len(list((store_of(repo) / "handoff").iterdir())) == 1


@pytest.mark.acceptance(spec="007-memory", scenario="resume reports no handoff for a fresh branch")
def test_resume_finds_nothing_on_a_fresh_branch_and_outside_a_project(repo: Path, tmp_path: Path) -> None:
    assert call("resume", repo)["found"] is False
    outside = tmp_path / "plain"
    outside.mkdir()
    assert call("resume", outside) == {"found": False, "project": None}
