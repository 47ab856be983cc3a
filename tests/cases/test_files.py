"""Links, copies with one id, days that meet, and names that try to leave the folder.

BC-067: the viewer is added with the pages. BC-095: entries in local time, edits by the product and merging are added
with the journal and merging; what adoption joins is here. BC-121: the organizer is added later. BC-150: merge, agents
and session ids are added with those; every route of now is here.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from coffer import paths
from tests.cases.steps import call, drop, fingerprint, hits, refused
from tests.conftest import Api

REMOTE = "https://git.example.org/acme/widget.git"


def test_bc_067_a_link_leads_nowhere(repo: Path, api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside = tmp_path / "private"
    outside.mkdir()
    for name in ("passwd.md", "config", "x.md"):
        (outside / name).write_text("root okapi private\n")
    name = call("remember", repo, text="A fact of ours.")["project"]["store"]
    store = paths.store(name)
    (store / "handoff").mkdir()
    links = {
        "knowledge/s.md": outside / "passwd.md", "knowledge/d": outside, "knowledge/inbox/own.md": outside / "x.md",
        "handoff/main.md": outside / "config", "knowledge/gone.md": outside / "nothing.md",
    }  # fmt: skip
    for link, target in links.items():
        (store / link).symlink_to(target)
    before = fingerprint(outside)
    with caplog.at_level(logging.WARNING):
        assert hits("root okapi private", repo) == []
        assert hits("okapi", repo) == []
    assert call("list_memory", repo)["total"] == 1
    for identity in ("s", "passwd", "d", "own", "x", "gone"):
        for answer in (
            api.get(f"/memory_stores/{name}/facts/{identity}"),
            api.patch(f"/memory_stores/{name}/facts/{identity}", {"text": "x"}),
            api.delete(f"/memory_stores/{name}/facts/{identity}"),
        ):
            assert answer.status_code == 404
    assert call("resume", repo)["found"] is False
    assert refused("set_handoff", repo, body="through the link").code == "INVALID"
    assert fingerprint(outside) == before
    for link in links:
        assert sum(f"path={link} " in message for message in caplog.messages) == 1, link


@pytest.mark.parametrize("lane", ["knowledge", "knowledge/inbox", "superseded", "handoff"])
def test_bc_067_nor_does_a_lane_that_is_a_link(lane: str, repo: Path, api: Api, tmp_path: Path) -> None:
    outside = tmp_path / "private"
    (outside / "inbox").mkdir(parents=True)
    (outside / "okapi.md").write_text("okapi private\n")
    saved = call("remember", repo, text="A fact of ours.")
    name = saved["project"]["store"]
    store = paths.store(name)
    if (store / lane).exists():
        (store / lane).rename(tmp_path / "aside")
    (store / lane).parent.mkdir(exist_ok=True)
    (store / lane).symlink_to(outside)
    before = fingerprint(outside)
    assert hits("private", repo) == []
    if lane.startswith("knowledge"):
        assert refused("remember", repo, text="through the link").code == "INVALID"
    if lane == "superseded":
        url = f"/memory_stores/{name}/facts/{saved['id']}"
        assert api.patch(url, {"text": "x"}).json()["error"]["code"] == "INVALID"
        assert api.delete(url).json()["error"]["code"] == "INVALID"
        assert Path(saved["path"]).exists()
    if lane == "handoff":
        assert refused("set_handoff", repo, body="through the link").code == "INVALID"
    assert fingerprint(outside) == before


def test_bc_067_a_store_that_itself_is_a_link_works(repo: Path, api: Api, tmp_path: Path) -> None:
    saved = call("remember", repo, text="The okapi build.")
    store = paths.store(saved["project"]["store"])
    store.rename(tmp_path / "elsewhere")
    store.symlink_to(tmp_path / "elsewhere")
    assert hits("okapi", repo) == [saved["id"]]
    second = call("remember", repo, text="A second okapi.")
    url = f"/memory_stores/{saved['project']['store']}/facts"
    assert api.patch(f"{url}/{second['id']}", {"text": "A changed okapi."}).status_code == 200
    assert api.delete(f"{url}/{saved['id']}").status_code == 204
    assert call("set_handoff", repo, body="Scene.")["status"] == "saved"
    assert call("list_memory", repo)["total"] == 1


def test_bc_121_copies_with_one_id_are_facts_of_their_own(api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "The okapi eats at nine."}).json()
    first = Path(fact["path"])
    data = first.read_bytes()
    copies = ["b.md", "a.sync-conflict-20260901-101500-ABCDEFG.md", "a (1).md", "a 2.md"]
    for name in copies:
        drop(f"knowledge/inbox/{name}", data)
    drop("knowledge/topic.md", data)
    for name in ("._a.md", ".DS_Store", "Thumbs.db"):
        drop(f"knowledge/inbox/{name}", b"\0\5\26\7 okapi")
    listed = api.get("/memory_stores/global/facts").json()["facts"]
    assert len({one["id"] for one in listed}) == len(listed) == 6
    assert not [one for one in listed if Path(one["path"]).name.startswith("._")]
    assert len(hits("okapi", top_k=20)) == 1  # equal texts are one answer
    by_name = {Path(one["path"]).name: one["id"] for one in listed}
    answer = api.patch(f"/memory_stores/global/facts/{by_name['b.md']}", {"text": "The copy b differs."}).json()
    assert (Path(answer["path"]).name, answer["text"]) == ("b.md", "The copy b differs.")
    rest = {name: paths.store("global") / "knowledge" / "inbox" / name for name in copies[1:]}
    assert all(path.read_bytes() == data for path in rest.values())
    assert api.delete(f"/memory_stores/global/facts/{by_name['a (1).md']}").status_code == 204
    assert not rest["a (1).md"].exists()
    assert first.read_bytes() == data
    assert call("list_memory", None)["total"] == 5
    assert set(hits("okapi", top_k=20)) | {by_name["b.md"]} <= set(hits("the", top_k=20)) | set(
        hits("okapi copy", top_k=20)
    )


def test_bc_121_the_first_by_path_keeps_the_id_whatever_the_order(api: Api) -> None:
    drop("knowledge/inbox/m.md", "---\nid: same\n---\nmiddle okapi\n")
    assert hits("middle") == ["same"]
    drop("knowledge/inbox/z.md", "---\nid: same\n---\nlast okapi\n")
    drop("knowledge/inbox/a.md", "---\nid: same\n---\nfirst okapi\n")
    ids = {Path(one["path"]).stem: one["id"] for one in api.get("/memory_stores/global/facts").json()["facts"]}
    assert ids["a"] == "same"
    assert ids["m"].startswith("same~")
    assert ids["z"].startswith("same~")
    assert api.get(f"/memory_stores/global/facts/{ids['m']}").json()["text"] == "middle okapi"
    (paths.store("global") / "knowledge" / "inbox" / "a.md").unlink()
    assert hits("middle") == ["same"]


DAY = "# 2026-10-25\n\n"
FIRST = "<!-- 2026-10-25T00:30:00Z claude_code:one -->\n\nThe first half past two.\n"
SECOND = "<!-- 2026-10-25T01:30:00Z codex:two -->\n\nThe second half past two.\n"
LATE = "<!-- 2026-10-25T23:59:59Z codex:two -->\n\nThe last second.\n"
MIDNIGHT = "# 2026-10-26\n\n<!-- 2026-10-26T00:00:00Z codex:two -->\n\nThe first second.\n"


def test_bc_095_lite_days_of_two_stores_are_joined_entry_by_entry(
    make_repo: Callable[..., Path], git: Callable[..., str]
) -> None:
    repo = make_repo("later")
    older = call("remember", repo, text="Before the remote.")["project"]["store"]
    drop("journal/2026-10-25.md", DAY + SECOND + "\n" + FIRST, older)
    drop("journal/2026-10-26.md", MIDNIGHT, older)
    other = make_repo("other", remote=REMOTE)
    name = call("remember", other, text="In the store of the remote.")["project"]["store"]
    drop("journal/2026-10-25.md", DAY + SECOND + "\n" + LATE, name)
    git(repo, "remote", "add", "origin", REMOTE)
    found = {hit["id"] for hit in call("recall", repo, query="second", top_k=20)["hits"]}
    assert found == {"journal/2026-10-25", "journal/2026-10-26"}
    text = (paths.store(name) / "journal" / "2026-10-25.md").read_text()
    places = [text.index(words) for words in ("first half", "second half", "last second")]
    assert places == sorted(places)
    assert text.count("second half past two") == 1
    assert (paths.store(name) / "journal" / "2026-10-26.md").read_text() == MIDNIGHT
    times = {hit["id"]: hit["time"] for hit in call("recall", repo, query="second", top_k=20)["hits"]}
    assert times["journal/2026-10-25"].startswith("2026-10-25")


NAMES = [
    "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "....//", "..%5c", "%00", "global%00", "global/../projects/x",
    "project-" + "." * 26, "project-" + "!" * 26, "project-01arz3ndektsv4rrffq69g5fav",
    "project-81ARZ3NDEKTSV4RRFFQ69G5FAV",
    "project-01ARZ3NDEKTSV4RRFFQ69G5FAV%0a", "GLOBAL", "global%20", "x" * 10_000, "..", ".", "%2e%2e", "retired",
    "projects",
]  # fmt: skip
ROUTES = [
    ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("PATCH", "/label"), ("GET", "/metrics"), ("GET", "/facts"),
    ("POST", "/facts"), ("DELETE", "/facts"), ("GET", "/facts/x"), ("PATCH", "/facts/x"), ("DELETE", "/facts/x"),
    ("POST", "/recall"),
]  # fmt: skip
BODIES = {
    "/label": {"label": "x"},
    "/facts": {"text": "x"},
    "/facts/x": {"text": "x"},
    "/recall": {"query": "x"},
    "": {},
}


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_bc_150_a_wrong_store_name_reaches_no_file(method: str, route: str, api: Api, home: Path) -> None:
    drop("knowledge/inbox/one.md", "okapi\n")
    before = fingerprint(home / "memory")
    for name in NAMES:
        answer = api.call(
            method, f"/memory_stores/{name}{route}", BODIES.get(route) if method in ("POST", "PATCH") else None
        )
        assert answer.status_code in (404, 405, 422), name
        assert str(home) not in answer.content.decode(), name
    assert fingerprint(home / "memory") == before
    assert sorted(path.name for path in (home / "memory").iterdir()) == ["global"]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_bc_150_a_wrong_fact_id_reaches_no_file(method: str, api: Api, home: Path) -> None:
    drop("knowledge/inbox/one.md", "okapi\n")
    (home / "outside.md").write_text("outside\n")
    drop("rules/rules.md", "- a rule\n")
    before = fingerprint(home / "memory")
    names = [
        *NAMES[:8], "..%2f..%2frules%2frules", "..%2f..%2f..%2foutside", "knowledge%2finbox%2fone.md", "one.md",
        "inbox%2fone", "journal%2f2026-10-25", "INDEX", "store.yaml", "%E2%80%AE", "x" * 10_000,
    ]  # fmt: skip
    for name in names:
        answer = api.call(method, f"/memory_stores/global/facts/{name}", {"text": "x"} if method == "PATCH" else None)
        assert answer.status_code in (404, 405, 422), name
        assert str(home) not in answer.content.decode()
    assert fingerprint(home / "memory") == before


def test_bc_150_an_id_written_into_a_file_is_no_path(api: Api, home: Path) -> None:
    for number, identity in enumerate(("../../../outside", "/etc/passwd", "a/b", "..", "a\\\\b", "x\\ny")):
        drop(f"knowledge/inbox/f{number}.md", f'---\nid: "{identity}"\n---\nokapi {number}\n')
    (home / "outside.md").write_text("outside\n")
    listed = api.get("/memory_stores/global/facts").json()["facts"]
    assert len({one["id"] for one in listed}) == 6
    for one in listed:
        assert "/" not in one["id"]
        assert api.delete(f"/memory_stores/global/facts/{one['id']}").status_code in (204, 404)
    assert (home / "outside.md").exists()


def test_bc_150_a_line_of_the_archives_index_is_no_path(api: Api, home: Path) -> None:
    """The index of the archive travels with the memory folder: a line of it may come from another machine."""
    (home / "outside.md").write_text("outside\n")
    fact = api.post("/memory_stores/global/facts", {"text": "okapi"}).json()
    lines = (
        '{"file": "../../../outside.md", "lane": "knowledge", "path": "knowledge/stolen.md", "state": "pending"}\n'
        '{"file": "x.md", "lane": "knowledge", "path": "../../../written.md", "state": "pending"}\n'
        '{"file": 5, "path": []}\n[]\nnull\n{"file": "y.md"}\n'
    )
    drop("superseded/index.jsonl", lines)
    drop("superseded/x.md", "planted\n")
    Path(fact["path"]).unlink()
    assert hits("okapi") == []
    api.delete(f"/memory_stores/global/facts/{fact['id']}?forever=true")
    assert (home / "outside.md").read_text() == "outside\n"
    assert not (home / "written.md").exists()
    assert not (paths.store("global") / "knowledge" / "stolen.md").exists()
