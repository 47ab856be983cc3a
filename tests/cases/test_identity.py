"""Which project a folder belongs to: paths, work trees, submodules, remotes, branches, HEAD.

BC-010 (`cd d; rmdir ../d`), BC-011 (the daemon's environment): also proven with real processes by tests/gateway and
tests/coffer. BC-066, BC-073, BC-078, BC-079: a transcript recorded there is added with the readers, the session-start
hook is in test_hooks. BC-081, BC-082: viewer and admin are added with the pages, merge scan's prompt with merging.
BC-086: that the list says which root had another store, the scan and the merge are added with project identity over
time; what is promised now is that the old facts stay whole, listed and under their own store.
"""

import logging
import os
import sqlite3
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from coffer import later, paths
from coffer.models import AuditEntry
from memory.services import stores
from tests.cases.steps import call, drop, eventually, fingerprint, hits, refused
from tests.conftest import Api

Repos = Callable[..., Path]
Git = Callable[..., str]
REMOTE = "https://git.example.org/acme/widget.git"


def store_of(cwd: Path) -> str:
    return str(call("recall", cwd, query="x")["project"]["store"])


def stores_on_disk() -> list[str]:
    return sorted(path.name for path in paths.projects().iterdir()) if paths.projects().exists() else []


@pytest.mark.parametrize("place", ["root", "plain", "removed", "unknown", "file", "relative", "nul"])
def test_bc_010_outside_a_project_only_what_needs_one_is_refused(place: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "f").write_text("x")
    cwd: Any = {
        "root": "/", "plain": plain, "removed": tmp_path / "gone", "unknown": None, "file": plain / "f",
        "relative": "some/where", "nul": "/tmp/a\0b",
    }[place]  # fmt: skip
    for error in (refused("remember", cwd, text="x"), refused("set_handoff", cwd, body="x")):
        assert error.code == "SCOPE_UNRESOLVED"
        assert cwd is None or str(cwd) in error.message
    assert refused("recall", cwd, query="x", scope="project").code == "SCOPE_UNRESOLVED"
    assert refused("list_memory", cwd, scope="project").code == "SCOPE_UNRESOLVED"
    saved = call("remember", cwd, text="Global okapi.", scope="global")
    assert hits("okapi", cwd) == [saved["id"]]
    assert call("list_memory", cwd)["total"] == 1
    assert call("resume", cwd) == {"found": False, "project": None}
    assert stores_on_disk() == []


def test_bc_011_variables_that_git_sets_for_its_hooks_mix_no_two_projects(
    make_repo: Repos, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make_repo("a", remote="https://git.example.org/acme/a.git", branch="work-a")
    there = make_repo("b", remote="https://git.example.org/acme/b.git", branch="work-b")
    for name, value in (
        ("GIT_DIR", ".git"),
        ("GIT_WORK_TREE", ""),
        ("GIT_COMMON_DIR", ".git"),
        ("GIT_INDEX_FILE", ".git/index"),
    ):
        monkeypatch.setenv(name, str(there / value))
    saved = call("remember", here, text="A fact of a.")
    scene = call("set_handoff", here, body="A scene of a.")
    assert (saved["project"]["root"], scene["branch"]) == (str(here), "work-a")
    assert [f"project-{name}" for name in stores_on_disk()] == [saved["project"]["store"]]
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert store_of(here) == saved["project"]["store"]


def test_bc_066_every_spelling_of_a_folder_is_one_project(make_repo: Repos, tmp_path: Path, api: Api) -> None:
    repo = make_repo("real")
    alias = tmp_path / "alias"
    alias.symlink_to(tmp_path / "work")
    saved = call("remember", repo, text="The okapi build.")
    for spelling in (alias / "real", f"{repo}/", f"{repo}/./../real", f"{alias}//real/."):
        assert hits("okapi", spelling) == [saved["id"]], spelling
        call("remember", spelling, text=f"Through {spelling}")
    assert len(stores_on_disk()) == 1
    later.flush()
    store = api.get(f"/memory_stores/{saved['project']['store']}").json()
    assert (store["project_root"], store["display_name"]) == (str(repo), "real")


@pytest.mark.parametrize("remote", [None, REMOTE])
def test_bc_070_work_trees_share_one_store_and_keep_their_scenes(
    remote: str | None, make_repo: Repos, git: Git, tmp_path: Path
) -> None:
    main = make_repo("main", remote=remote)
    tree, locked, moved = (tmp_path / name for name in ("tree", "locked", "moved"))
    git(main, "config", "extensions.worktreeConfig", "true")
    git(main, "worktree", "add", "-q", "-b", "feature/x", str(tree))
    git(main, "worktree", "add", "-q", "-b", "locked", str(locked))
    git(main, "worktree", "lock", str(locked))
    git(main, "worktree", "add", "-q", "-b", "moved", str(tmp_path / "before"))
    git(main, "worktree", "move", str(tmp_path / "before"), str(moved))
    deep = tree / "deep" / "er"
    deep.mkdir(parents=True)
    saved = call("remember", deep, text="The okapi lives in the tree.")
    assert saved["project"]["name"] == "main"
    for place in (main, tree, locked, moved):
        assert hits("okapi", place) == [saved["id"]]
        call("set_handoff", place, body=f"Scene of {place.name}.")
    (deep / "note").write_text("x")
    git(main, "worktree", "remove", "--force", str(tree))
    assert hits("okapi", main) == [saved["id"]]
    assert call("resume", main)["body"] == "Scene of main."
    git(main, "checkout", "-q", "feature/x")
    assert call("resume", main)["body"] == "Scene of tree."
    assert len(stores_on_disk()) == 1


def test_bc_073_a_submodule_is_one_project_for_every_door(
    make_repo: Repos, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for app in ("app", "other"):
        core = make_repo(f"{app}-core")
        outer = make_repo(app)
        git(outer, "submodule", "add", "-q", str(core), "libs/core")
        git(outer / "libs" / "core", "remote", "remove", "origin")
        inside = outer / "libs" / "core" / "src"
        inside.mkdir()
        saved = call("remember", inside, text=f"The okapi of {app}.")
        assert saved["project"]["root"] == str(outer / "libs" / "core")
        assert hits("okapi", outer) == []
        names.append(saved["project"]["store"])
    assert len(set(names)) == 2
    for url in ("../core", "./core", "core"):
        git(tmp_path / "work" / "app" / "libs" / "core", "config", "remote.origin.url", url)
        git(
            tmp_path / "work" / "app" / "libs" / "core",
            "config",
            "remote.origin.fetch",
            "+refs/heads/*:refs/remotes/origin/*",
        )
        assert store_of(tmp_path / "work" / "app" / "libs" / "core") == names[0]


def test_bc_074_packages_of_a_monorepo_share_it_and_two_monorepos_share_nothing(make_repo: Repos) -> None:
    places = {}
    for repo in (make_repo("mono-a"), make_repo("mono-b")):
        for package in ("api", "web"):
            place = repo / "packages" / package
            place.mkdir(parents=True)
            (place / "package.json").write_text("{}")
            (place / ".gitignore").write_text("node_modules\n")
            places[repo.name, package] = place
    saved = call("remember", places["mono-a", "api"], text="The okapi of a.")
    assert hits("okapi", places["mono-a", "web"]) == [saved["id"]]
    assert hits("okapi", places["mono-b", "api"]) == []
    assert len(stores_on_disk()) == 1


def test_bc_077_work_trees_of_a_bare_hub_share_a_store_and_two_hubs_do_not(
    make_repo: Repos, git: Git, tmp_path: Path
) -> None:
    seed = make_repo("seed")
    stores = []
    for name in ("hub-07", "hub-08.git"):
        hub = tmp_path / "hubs" / name
        hub.parent.mkdir(exist_ok=True)
        git(tmp_path, "clone", "-q", "--bare", str(seed), str(hub))
        git(hub, "remote", "remove", "origin")
        git(hub, "worktree", "add", "-q", "-b", "one", str(tmp_path / "trees" / f"{name}-one"))
        git(hub, "worktree", "add", "-q", "-b", "two", str(hub / "two"))
        saved = call("remember", tmp_path / "trees" / f"{name}-one", text=f"Okapi {name}.")
        assert hits("okapi", hub / "two") == [saved["id"]]
        assert saved["project"]["name"] == name.removesuffix(".git")
        stores.append(saved["project"]["store"])
    assert len(set(stores)) == 2
    assert refused("remember", tmp_path / "hubs", text="x").code == "SCOPE_UNRESOLVED"


@pytest.mark.parametrize("inside", ["hub.git", "hub.git/hooks", "repo/.git", "repo/.git/refs"])
def test_bc_078_inside_a_repositorys_own_folder_there_is_no_project(
    inside: str, make_repo: Repos, git: Git, tmp_path: Path
) -> None:
    make_repo("repo")
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "work" / "hub.git"))
    (tmp_path / "work" / "hub.git" / "hooks").mkdir(exist_ok=True)
    place = tmp_path / "work" / inside
    for tool, argument in (("remember", "text"), ("set_handoff", "body")):
        assert refused(tool, place, **{argument: "x"}).code == "SCOPE_UNRESOLVED"
    assert call("recall", place, query="x") == {"hits": [], "project": None}
    assert call("list_memory", place)["total"] == 0
    assert call("resume", place)["found"] is False
    assert call("remember", place, text="x", scope="global")["scope"] == "global"
    assert stores_on_disk() == []


def test_bc_079_a_home_that_is_a_repository_is_no_project(git: Git, tmp_path: Path, home: Path) -> None:
    person = tmp_path / "person"
    git(person, "init", "-q", "-b", "main")
    git(person, "commit", "-q", "--allow-empty", "-m", "first")
    git(person, "remote", "add", "origin", "https://git.example.org/dev/dotfiles.git")
    notes, app = person / "Documents" / "notes", person / "code" / "app"
    for folder in (notes, app):
        folder.mkdir(parents=True)
    git(app, "init", "-q", "-b", "main")
    for place in (notes, person, home, home / "memory"):
        assert refused("remember", place, text="x").code == "SCOPE_UNRESOLVED"
        assert call("recall", place, query="x")["project"] is None
    saved = call("remember", app, text="The app has its own.")
    assert saved["project"]["root"] == str(app)
    assert len(stores_on_disk()) == 1


FAKE = "FAKEtok_9f8e7d"
URLS = [
    f"https://oauth2:{FAKE}@git.example.org/acme/widget.git",
    f"https://{FAKE}@git.example.org/acme/widget",
    f"https://git.example.org/acme/widget?private_token={FAKE}",
    f"ssh://dev:{FAKE}@git.example.org/acme/widget",
    "https://git.example.org/acme/widget",
]


def test_bc_081_a_token_in_the_remote_is_recorded_nowhere(
    make_repo: Repos, git: Git, api: Api, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repo = make_repo("widget", remote=URLS[0])
    answers, names = [], set()
    with caplog.at_level(logging.DEBUG, logger="memory"):
        for number, url in enumerate(URLS):
            git(repo, "remote", "set-url", "origin", url)
            answers += [
                call("remember", repo, text=f"Fact {number}."),
                call("set_handoff", repo, body=f"Scene {number}."),
                call("resume", repo),
                call("list_memory", repo),
                call("recall", repo, query="fact"),
                api.get("/memory_stores").json(),
            ]
            names.add(store_of(repo))
    later.flush()
    assert len(names) == 1
    assert FAKE not in repr(answers) + caplog.text
    assert no_file_holds(home, FAKE)


@pytest.mark.parametrize(
    "url",
    [
        "https://dev:FAKEp@ss/w0rd@git.example.org:99999/acme/x.git",
        "https://dev:FAKEpw%40%2f@[::1/acme",
        "https://dev:FAKEpw@git.example.org/" + "x" * 5000,
        "https://dev:FAKEpw@h/x\ny",
        "https://dev:FAKEpw@h/x%00y",
        "FAKE:pw@h:x",
    ],
)
def test_bc_082_a_remote_that_cannot_be_parsed_falls_back_to_the_path(
    url: str, make_repo: Repos, git: Git, api: Api, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repo = make_repo("odd")
    before = store_of(repo)
    git(repo, "config", "remote.origin.url", url)
    git(repo, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    saved = call("remember", repo, text="A fact.")
    assert saved["project"]["store"] == before
    call("set_handoff", repo, body="A scene.")
    later.flush()
    assert "FAKE" not in repr([saved, api.get("/memory_stores").json()]) + caplog.text
    assert no_file_holds(home, "FAKE")


def test_bc_082_a_git_that_fails_or_hangs_is_an_error_in_time_that_tells_nothing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    for script in ("echo https://dev:FAKEpw@h/x >&2; exit 128", "sleep 60"):
        wrapper.write_text(f"#!/bin/sh\n{script}\n")
        wrapper.chmod(0o755)
        error = refused("remember", repo, text="x")
        assert error.code == "SCOPE_UNRESOLVED"
        assert "FAKE" not in error.message + caplog.text
        assert call("recall", repo, query="x")["project"] is None
    assert stores_on_disk() == []


@pytest.mark.parametrize("second", ["unknown", "known"])
def test_bc_086_after_a_changed_origin_nothing_is_out_of_reach(
    second: str, make_repo: Repos, git: Git, api: Api
) -> None:
    """A rename is followed at once; with another checkout at the old address it may be a fork: told, and one merge."""
    repo, other = make_repo("widget", remote=REMOTE), make_repo("second", remote=REMOTE)
    ids = {call("remember", repo, text=f"Okapi fact {number}.")["id"] for number in range(5)}
    old = store_of(repo)
    if second == "known":
        assert store_of(other) == old
    later.flush()
    before = fingerprint(paths.store(old))
    git(repo, "remote", "set-url", "origin", "https://git.example.org/newco/widget.git")
    told = call("recall", repo, query="okapi fact", top_k=20)
    assert old in told["project"]["note"]
    if second == "known":
        assert (told["project"]["store"] != old, told["hits"]) == (True, [])
        assert "coffer project move" in told["project"]["note"]
        assert fingerprint(paths.store(old)) == before
    new = call("remember", repo, text="A new okapi fact.")
    later.flush()
    listed = {store["name"]: store for store in api.get("/memory_stores").json()["memory_stores"]}
    if second == "known":
        (proposal,) = api.post("/memory_stores/merge_scan").json()["proposals"]
        assert {proposal["source"], proposal["target"]} == {old, new["project"]["store"]}
        assert str(repo) in proposal["reason"]
        pair = {key: proposal[key] for key in ("source", "target")}
        assert api.post("/memory_stores/merge", pair).status_code == 200
    else:
        assert (listed[old]["fact_count"], len(stores_on_disk())) == (6, 1)
        assert api.post("/memory_stores/merge_scan").json()["proposals"] == []
    late = call("remember", other, text="An okapi fact at the old address.")
    restart()
    for checkout in (repo, other):
        assert set(hits("okapi fact", checkout, top_k=20)) == {*ids, new["id"], late["id"]}
    assert len(stores_on_disk()) == 1


def test_bc_124_stores_that_are_joined_leave_a_trace_and_lose_nothing(make_repo: Repos, git: Git, api: Api) -> None:
    repos = [make_repo(name, remote=f"https://git.example.org/acme/{name}.git") for name in ("a", "b", "c")]
    first, second, third = (call("remember", repo, text=f"Okapi of {repo.name}.")["project"]["store"] for repo in repos)
    lanes = ("knowledge/t.md", "knowledge/deep/er/t.md", "journal/2026-10-25.md", "handoff/x.md", "superseded/s.md")
    for name in (first, second):
        for lane in lanes:
            drop(lane, f"of {name} in {lane}\n", name)
        drop("rules/rules.md", f"- both\n- of {name}\n", name)
        call("set_handoff", repos[0 if name == first else 1], body=f"Scene of {name}.")
    texts = {path.read_bytes() for path in paths.store(first).rglob("*.md")}
    stop = threading.Event()

    def write() -> list[str]:
        saved = []
        while not stop.is_set() or len(saved) < 5:
            saved.append(str(call("remember", repos[0], text=f"Okapi in the middle {len(saved)}.")["id"]))
        connections.close_all()
        return saved

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            assert api.post("/memory_stores/merge", {"source": first, "target": second}).status_code == 200
        finally:
            stop.set()
        saved = writer.result(timeout=60)
    assert api.post("/memory_stores/merge", {"source": second, "target": third}).status_code == 200
    for pair in ((first, first), (first, "global"), (third, second), (first, third)):
        before = fingerprint(paths.memory())
        status = api.post("/memory_stores/merge", {"source": pair[0], "target": pair[1]}).status_code
        assert (400 <= status < 500, fingerprint(paths.memory())) == (True, before)
    restart()
    kept = b"\n".join(path.read_bytes() for path in paths.store(third).rglob("*") if path.is_file())
    for text in texts:
        assert all(line in kept for line in text.splitlines()), text
    (inbox,) = [paths.store(third) / "knowledge" / "inbox"]
    assert all(any(one in path.read_text() for path in inbox.iterdir()) for one in saved)
    assert {store_of(repo) for repo in repos} == {third}
    assert [f"project-{name}" for name in stores_on_disk()] == [third]
    rows = AuditEntry.objects.filter(event="memory_stores_merged").order_by("id")
    assert [(row.ref, row.store) for row in rows] == [(first, second), (second, third)]
    assert len(hits("okapi", repos[0], top_k=20)) >= 3


def test_bc_087_only_origin_names_a_project(make_repo: Repos, git: Git) -> None:
    upstream = "https://git.example.org/templates/base.git"
    names = {}
    for name in ("one", "two", "alone", "unnamed"):
        repo = make_repo(name)
        if name in ("one", "two"):
            git(repo, "remote", "add", "origin", f"https://git.example.org/acme/{name}.git")
        if name != "unnamed":
            git(repo, "remote", "add", "upstream", upstream)
        else:
            git(repo, "remote", "add", "a", upstream)
            git(repo, "remote", "add", "b", upstream)
        names[name] = call("remember", repo, text=f"Okapi of {name}.")["project"]["store"]
    assert len(set(names.values())) == 4
    one = make_repo("again", remote="https://git.example.org/acme/one.git")
    assert store_of(one) == names["one"]
    git(one, "remote", "set-url", "--add", "origin", "https://git.example.org/acme/mirror.git")
    git(one, "config", "remote.pushDefault", "fork")
    git(one, "remote", "add", "fork", "https://git.example.org/dev/one.git")
    assert store_of(one) == names["one"]


BRANCHES = [
    "feature/auth", "feature-auth", "feature_auth", "featureauth", "Feature/auth", "FEATURE-AUTH", "feature/auth-",
    "分支/修复", "con", "x" * 200, "a.b", "-".join(["a"] * 40),
]  # fmt: skip


def test_bc_089_every_branch_has_a_scene_of_its_own(repo: Path, git: Git) -> None:
    for name in BRANCHES:
        git(repo, "symbolic-ref", "HEAD", f"refs/heads/{name}")
        assert call("set_handoff", repo, body=f"Scene of {name}.")["branch"] == name
    for name in BRANCHES:
        git(repo, "symbolic-ref", "HEAD", f"refs/heads/{name}")
        scene = call("resume", repo)
        assert (scene["branch"], scene["body"]) == (name, f"Scene of {name}.")
    files = [path.name for path in (paths.store(store_of(repo)) / "handoff").iterdir()]
    assert len({unicodedata.normalize("NFC", name).casefold() for name in files}) == len(BRANCHES)


def test_bc_089_a_scene_edited_by_hand_or_named_by_another_rule_is_read(repo: Path, git: Git) -> None:
    path = Path(call("set_handoff", repo, body="First.")["path"])
    path.write_text(path.read_text().replace("First.", "Edited by hand."))
    assert call("resume", repo)["body"] == "Edited by hand."
    git(repo, "checkout", "-q", "-b", "feature/auth")
    drop("handoff/feature_auth_old-rule.md", "---\nbranch: feature/auth\n---\n\nFrom an older rule.\n", store_of(repo))
    assert call("resume", repo)["body"] == "From an older rule."


def test_bc_092_an_unborn_branch_works_by_name(make_repo: Repos, git: Git, tmp_path: Path) -> None:
    unborn = tmp_path / "unborn"
    git(tmp_path, "init", "-q", "-b", "main", str(unborn))
    orphan = make_repo("orphan")
    git(orphan, "checkout", "-q", "--orphan", "fresh")
    for repo, branch in ((unborn, "main"), (orphan, "fresh")):
        assert call("remember", repo, text="Okapi.")["indexed"] is True
        assert len(hits("okapi", repo)) == 1
        assert call("set_handoff", repo, body="Begun.")["branch"] == branch
        scene = call("resume", repo)
        assert (scene["found"], scene["body"]) == (True, "Begun.")
        assert call("list_memory", repo)["total"] == 1


@pytest.mark.parametrize("head", ["", "ref: refs/heads/\n", "garbage\n", "0" * 40 + "\n"])
def test_bc_092_with_a_broken_head_only_the_scene_is_refused(head: str, repo: Path) -> None:
    name = call("remember", repo, text="Okapi before.")["project"]["store"]
    (repo / ".git" / "HEAD").write_text(head)
    assert call("remember", repo, text="Okapi after.")["project"]["store"] == name
    assert len(hits("okapi", repo)) == 2
    for error in (refused("set_handoff", repo, body="x"), refused("resume", repo)):
        assert error.code == "SCOPE_UNRESOLVED"
        assert str(repo) in error.message


@pytest.mark.parametrize(
    ("stamp", "note"),
    [
        ("{tomorrow}", "still to come"),
        ("2099-01-01T00:00:00Z", "still to come"),
        ("yesterday", "unknown time"),
        (None, "unknown time"),
        ("2026-09-01", "unknown time"),
        ("1970-01-01T00:00:00Z", "unknown time"),
        ("0001-01-01T00:00:00Z", "unknown time"),
        ("9999-12-31T23:59:59Z", "still to come"),
        ("[1, 2]", "unknown time"),
    ],
)
def test_bc_098_a_stamp_that_cannot_be_gives_no_age(stamp: str | None, note: str, repo: Path) -> None:
    from datetime import UTC, datetime, timedelta

    path = Path(call("set_handoff", repo, body="The scene.")["path"])
    tomorrow = (datetime.now(UTC) + timedelta(hours=24)).isoformat()
    line = "" if stamp is None else f"updated_at: {stamp.replace('{tomorrow}', tomorrow)}\n"
    path.write_text(f"---\nbranch: main\n{line}---\n\nThe scene.\n")
    scene = call("resume", repo)
    assert (scene["found"], scene["body"]) == (True, "The scene.")
    assert note in scene["note"]
    assert "-" not in scene["note"].split(".")[0]
    assert "just now" not in scene["note"]


@pytest.mark.parametrize(
    "stamp", ["2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "yesterday", "2026-13-45"]
)
def test_bc_098_a_fact_with_such_a_stamp_is_served_everywhere(stamp: str, api: Api) -> None:
    drop("knowledge/inbox/odd.md", f"---\ntitle: Odd\nupdated_at: {stamp}\ncreated_at: {stamp}\n---\nbody okapi\n")
    assert hits("okapi") == ["odd"]
    assert call("list_memory", None)["total"] == 1
    assert api.get("/memory_stores/global/facts/odd").status_code == 200
    assert api.get("/memory_stores/global").status_code == 200
    assert api.get("/memory_stores").status_code == 200
    assert api.post("/memory_stores/global/recall", {"query": "okapi"}).status_code == 200


def test_bc_119_the_form_of_a_files_name_makes_no_second_fact(api: Api) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Überblick") for form in ("NFC", "NFD"))
    path = drop(f"knowledge/{composed}.md", "---\ntitle: Ueberblick\n---\nbody zokor-nfc\n")
    assert len(hits("zokor")) == 1
    path.rename(path.with_name(f"{decomposed}.md"))
    assert len(hits("zokor")) == 1
    assert call("list_memory", None)["total"] == 1
    drop(f"knowledge/{composed}.md", "---\ntitle: Ueberblick\n---\nbody zokor other\n")
    found = {fact["id"]: fact for fact in api.get("/memory_stores/global/facts").json()["facts"]}
    assert len(found) == 2
    for identity, fact in found.items():
        changed = api.patch(
            f"/memory_stores/global/facts/{identity}", {"text": f"changed {fact['path'].encode()}"}
        ).json()
        assert changed["path"] == fact["path"]
    texts = {Path(fact["path"]).read_text().split("changed")[1] for fact in found.values()}
    assert len(texts) == 2
    for identity, fact in found.items():
        assert api.delete(f"/memory_stores/global/facts/{identity}").status_code == 204
        assert not Path(fact["path"]).exists()
    assert call("list_memory", None)["total"] == 0


def restart() -> None:
    """Begin as a process that was just started: with what the files and the database say."""
    later.flush()
    connections.close_all()
    stores.rebuild()


def no_file_holds(folder: Path, word: str) -> bool:
    """Whether no file below a folder, the database and its log included, holds a word."""
    with sqlite3.connect(paths.database()) as con:
        dump = "\n".join(con.iterdump())
    con.close()
    eventually(lambda: later.flush(1))
    files = [path for path in folder.rglob("*") if path.is_file()]
    return word not in dump and all(word.encode() not in path.read_bytes() for path in files)
