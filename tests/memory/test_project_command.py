"""``coffer project`` and ``coffer merge``: what a person sees and does about which store a folder belongs to."""

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from coffer import later, paths
from coffer.errors import Conflict, Invalid, MemoryNotFound, NotFound
from coffer.models import AuditEntry
from memory.files import store_file
from memory.services import counts, facts, handoff, journal, recall, stores
from tests.cases.steps import fingerprint

Repos = Callable[..., Path]
Git = Callable[..., str]
OLD, NEW = "https://git.example.org/acme/widget.git", "https://git.example.org/newco/widget.git"


def coffer(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    later.flush()
    return out.getvalue()


def asked(*words: str) -> Any:
    return json.loads(coffer(*words, "--json"))


def remember(repo: Path, text: str = "The okapi.") -> str:
    saved = facts.remember(stores.for_writing(stores.locate(str(repo)), "project"), text, actor="agent").id
    later.flush()
    return saved


def store_of(repo: Path) -> str:
    return stores.locate(str(repo)).project.store  # type: ignore[union-attr]


def recalled(repo: Path) -> list[str]:
    return [hit.id for hit in recall.recall(stores.for_reading(stores.locate(str(repo)), "project"), "okapi", top_k=20)]


def file_of(name: str) -> store_file.StoreFile:
    return store_file.read(paths.store(name), name, name.removeprefix("project-"))


# --- where and list ---------------------------------------------------------------------------------------------------


def test_where_says_which_store_a_folder_gives_and_why(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget", remote=OLD)
    told = asked("project", "where", str(repo))
    assert (told["why"], told["origin"], told["facts"]) == ("remote", "git.example.org/acme/widget", None)
    remember(repo)
    git(repo, "worktree", "add", "-q", str(repo.with_name("tree")))
    told = asked("project", "where", str(repo.with_name("tree")))
    assert (told["store"], told["root"], told["facts"]) == (store_of(repo), str(repo), 1)
    assert "is a work tree of it" in told["reason"]
    git(repo, "remote", "set-url", "origin", NEW)
    told = asked("project", "where", str(repo))
    assert told["why"] == "former remote"
    assert "git.example.org/acme/widget" in told["note"]
    assert str(told["note"]) in coffer("project", "where", str(repo)) or later.flush()
    plain = make_repo("plain")
    assert (asked("project", "where", str(plain))["why"], asked("project", "where", str(plain))["note"]) == (
        "path",
        None,
    )
    remember(plain)
    moved = plain.rename(plain.with_name("moved"))
    assert asked("project", "where", str(moved))["why"] == "former root"


def test_where_outside_a_project_says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not inside a git work tree"):
        coffer("project", "where", str(tmp_path))


def test_list_shows_all_that_leads_to_a_project(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget", remote=OLD)
    remember(repo)
    git(repo, "remote", "set-url", "origin", NEW)
    remember(repo)
    told = asked("project", "list")
    (row,) = told["projects"]
    assert (row["name"], row["facts"], told["total"]) == ("widget", 2, 1)
    assert {(one["kind"], one["value"]) for one in row["aliases"]} == {
        ("own", store_of(repo).removeprefix("project-")),
        ("origin", "git.example.org/newco/widget"),
        ("former origin", "git.example.org/acme/widget"),
        ("folder", str(repo)),
    }
    assert "former origin: git.example.org/acme/widget" in coffer("project", "list")


# --- move -------------------------------------------------------------------------------------------------------------


def test_a_folder_without_a_memory_is_assigned_by_one_more_identity_and_back(make_repo: Repos) -> None:
    repo, fork = make_repo("widget", remote=OLD), make_repo("fork", remote=NEW)
    saved = remember(repo)
    before = fingerprint(paths.memory())
    told = asked("project", "move", store_of(repo), "--dir", str(fork), "--dry-run")
    assert (told["how"], told["dry_run"]) == ("alias", True)
    assert fingerprint(paths.memory()) == before
    asked("project", "move", store_of(repo), "--dir", str(fork))
    assert recalled(fork) == [saved]
    assert asked("project", "move", store_of(repo), "--dir", str(fork))["how"] == "nothing"
    assert AuditEntry.objects.filter(event="alias_added").count() == 1
    asked("project", "move", "--undo", "--dir", str(fork))
    assert recalled(fork) == []
    assert file_of(store_of(repo)).merged_identities == ()
    with pytest.raises(NotFound):
        coffer("project", "move", "--undo", "--dir", str(fork))


def test_an_assignment_of_a_folder_without_an_origin_is_taken_back_for_good(make_repo: Repos) -> None:
    repo, other = make_repo("widget"), make_repo("other")
    remember(repo)
    name, own = store_of(repo), store_of(other)
    coffer("project", "move", name, "--dir", str(other))
    for _ in range(2):
        assert store_of(other) == name
        later.flush()
    coffer("project", "move", "--undo", "--dir", str(other))
    for _ in range(2):
        assert asked("project", "where", str(other))["store"] == own
    assert stores.display_name(stores.get(name)) == "widget", "not the name of the folder that left"
    assert str(other) not in coffer("project", "list")
    assert file_of(name).merged_identities == ()


def test_a_folder_with_a_memory_of_its_own_brings_it_along_and_takes_it_back(make_repo: Repos) -> None:
    repo, fork = make_repo("widget", remote=OLD), make_repo("fork", remote=NEW)
    first, second = remember(repo), remember(fork, "The okapi of the fork.")
    own = store_of(fork)
    assert asked("project", "move", store_of(repo), "--dir", str(fork))["how"] == "merge"
    assert sorted(recalled(fork)) == sorted([first, second])
    assert asked("project", "move", "--undo", "--dir", str(fork))["how"] == "merge"
    assert (store_of(fork), recalled(fork), recalled(repo)) == (own, [second], [first])


def test_a_folder_that_was_copied_without_a_trace_is_rooted_again(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget")
    saved = remember(repo)
    name = store_of(repo)
    shutil.rmtree(repo)
    again = make_repo("restored")
    assert recalled(again) == []
    coffer("project", "move", "widget", "--dir", str(again))
    assert (store_of(again), recalled(again)) == (name, [saved])


def test_a_store_that_is_not_there_or_global_takes_no_folder(make_repo: Repos) -> None:
    repo = make_repo("widget")
    stores.provision("global")
    with pytest.raises(Invalid):
        coffer("project", "move", "global", "--dir", str(repo))
    with pytest.raises(CommandError, match="Say which store"):
        coffer("project", "move", "--dir", str(repo))


# --- alias ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["id", "url", "scp", "folder"])
def test_an_identity_is_added_and_removed_in_every_form(form: str, make_repo: Repos) -> None:
    repo, other = make_repo("widget", remote=OLD), make_repo("other", remote=NEW)
    saved = remember(repo)
    name = store_of(repo)
    given = {
        "id": store_of(other).removeprefix("project-"), "url": NEW, "scp": "git@git.example.org:newco/widget.git",
        "folder": str(other),
    }[form]  # fmt: skip
    asked("project", "alias", "add", name, given, "--dry-run")
    assert recalled(other) == []
    asked("project", "alias", "add", name, given)
    assert recalled(other) == [saved]
    kinds = [one["kind"] for one in asked("project", "alias", "list", name)["aliases"]]
    assert kinds.count("merged") == 1
    asked("project", "alias", "remove", name, given)
    assert recalled(other) == []
    with pytest.raises(NotFound):
        coffer("project", "alias", "remove", name, given)


def test_an_origin_can_be_given_up_so_that_a_template_gets_a_memory_of_its_own(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget", remote=OLD)
    saved = remember(repo)
    git(repo, "remote", "set-url", "origin", NEW)
    again = make_repo("again", remote=OLD)
    assert recalled(repo) == recalled(again) == [saved]
    assert "former origin" in asked("project", "where", str(again))["note"]
    coffer("project", "alias", "remove", store_of(repo), OLD)
    assert (recalled(repo), recalled(again)) == ([saved], [])
    own = remember(again, "The okapi of another project.")
    assert (recalled(repo), recalled(again)) == ([saved], [own])
    assert asked("project", "where", str(repo))["why"] == "remote"


@pytest.mark.parametrize("what", ["file:///tmp/x", "nonsense", "Ж", "0" * 26, "own"])
def test_what_can_be_no_alias_is_refused_in_a_sentence(what: str, make_repo: Repos) -> None:
    repo = make_repo("widget")
    remember(repo)
    name = store_of(repo)
    before = fingerprint(paths.memory())
    for verb in ("add", "remove"):
        with pytest.raises((Invalid, NotFound)):
            coffer("project", "alias", verb, name, name if what == "own" else what)
    assert fingerprint(paths.memory()) == before


def test_an_identity_that_has_a_memory_of_its_own_is_merged_and_not_taken(make_repo: Repos) -> None:
    repo, other = make_repo("widget", remote=OLD), make_repo("other", remote=NEW)
    remember(repo), remember(other)
    with pytest.raises(Conflict, match="coffer merge"):
        coffer("project", "alias", "add", store_of(repo), NEW)
    with pytest.raises(Invalid, match="itself"):
        coffer("project", "alias", "add", store_of(repo), OLD)
    with pytest.raises(Invalid):
        coffer("project", "alias", "add", store_of(repo), "no such thing")


# --- split ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(make_repo: Repos) -> tuple[Path, str, str]:
    """A repository whose memory holds two projects: the ids of a fact of each."""
    repo = make_repo("mono", remote=OLD)
    mine, theirs = remember(repo, "The okapi of mono."), remember(repo, "The okapi of the other.")
    store = stores.get(store_of(repo))
    journal.append(store, "Entry of the other.", agent="codex")
    handoff.save(stores.locate(str(repo)), "Scene of the other.")
    return repo, mine, theirs


Mixed = tuple[Path, str, str]


def test_chosen_items_move_into_a_store_of_their_own_and_back(mixed: Mixed) -> None:
    repo, mine, theirs = mixed
    store = stores.get(store_of(repo))
    (day,) = journal.days(store)
    before = {name: sha for name, sha in fingerprint(paths.store(store.name)).items() if "superseded" not in name}
    words = (
        "project",
        "split",
        store.name,
        "--fact",
        theirs,
        "--day",
        day.period,
        "--scene",
        "main",
        "--label",
        "Other",
    )
    dry = asked(*words, "--dry-run")
    assert (dry["facts"], len(dry["files"])) == ([theirs], 2)
    assert len(stores.all_stores()) == 2
    done = asked(*words)
    target = stores.get(done["target"])
    assert stores.display_name(target) == "Other"
    assert facts.get(target, theirs).text == "The okapi of the other."
    assert [one.text for one in journal.recent(target, 9)] == ["Entry of the other."]
    assert [scene.branch for scene in handoff.scenes(target)] == ["main"]
    assert recalled(repo) == [mine]
    assert (journal.days(store), handoff.scenes(store)) == ([], [])
    back = asked("project", "split", store.name, "--to", "Other", "--undo")
    assert back["retired"] is True
    after = {name: sha for name, sha in fingerprint(paths.store(store.name)).items() if "superseded" not in name}
    assert after == before
    assert sorted(recalled(repo)) == sorted([mine, theirs])
    assert len(stores.all_stores()) == 2
    assert [row.event for row in AuditEntry.objects.filter(event__startswith="store_split")] == [
        "store_split_undone", "store_split",
    ]  # fmt: skip


def test_a_fork_takes_its_part_into_its_own_identity(mixed: Mixed, make_repo: Repos) -> None:
    repo, mine, theirs = mixed
    fork = make_repo("fork", remote=NEW)
    coffer("project", "move", store_of(repo), "--dir", str(fork))
    assert store_of(fork) == store_of(repo)
    coffer("project", "split", store_of(repo), "--fact", theirs, "--dir", str(fork))
    assert (recalled(fork), recalled(repo)) == ([theirs], [mine])
    assert store_of(fork) != store_of(repo)


def test_what_changed_after_a_split_comes_back_as_it_is_and_what_is_gone_is_told(mixed: Mixed) -> None:
    repo, mine, theirs = mixed
    store = stores.get(store_of(repo))
    done = asked("project", "split", store.name, "--fact", theirs, "--fact", mine, "--label", "Other")
    target = stores.get(done["target"])
    facts.edit(target, theirs, text="The okapi, corrected.")
    facts.delete(target, mine)
    kept = facts.add(target, "Said there since.")
    back = asked("project", "split", store.name, "--to", target.name, "--undo")
    assert (back["facts"], back["gone"], back["retired"]) == ([theirs], [mine], False)
    assert facts.get(store, theirs).text == "The okapi, corrected."
    assert facts.get(target, kept.id).text == "Said there since."


def test_a_split_that_is_refused_makes_no_store_and_a_dry_run_names_none(mixed: Mixed, home: Path) -> None:
    repo, theirs, _ = mixed
    name = store_of(repo)
    stores.provision("global")
    before = fingerprint(home / "memory")
    for words in (["--label", ".."], ["--label", "x" * 201], ["--to", "global", "--day", "2026-11-30"]):
        with pytest.raises((Invalid, NotFound)):
            coffer("project", "split", name, "--fact", theirs, *words)
    assert asked("project", "split", name, "--fact", theirs, "--label", "Theirs", "--dry-run")["target"] == ""
    assert fingerprint(home / "memory") == before


def test_a_fact_that_is_named_twice_moves_once_and_a_store_that_is_there_keeps_its_label(mixed: Mixed) -> None:
    repo, theirs, ours = mixed
    name = store_of(repo)
    done = asked("project", "split", name, "--fact", theirs, "--fact", theirs, "--label", "Überbau 项目")
    assert done["facts"] == [theirs]
    with pytest.raises(Invalid, match="keeps its label"):
        coffer("project", "split", name, "--fact", ours, "--to", done["target"], "--label", "Other")


def test_a_split_moves_nothing_unless_all_of_it_is_there(mixed: Mixed) -> None:
    repo, mine, _ = mixed
    store = store_of(repo)
    before = fingerprint(paths.memory())
    for words in (("--fact", "unknown"), ("--day", "2020-01-01"), ("--scene", "unknown")):
        with pytest.raises(MemoryNotFound):
            coffer("project", "split", store, "--fact", mine, *words, "--label", "Other")
    wrong: list[list[str]] = [[], ["--fact", mine], ["--fact", mine, "--to", store]]
    for options in wrong:
        with pytest.raises(Invalid):
            coffer("project", "split", store, *options)
    with pytest.raises(CommandError):
        coffer("project", "split", store, "--undo")
    assert fingerprint(paths.memory()) == before


# --- merge ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("merge",), ("memory", "merge")])
def test_merge_on_the_command_line(command: tuple[str, ...], make_repo: Repos) -> None:
    one, two = make_repo("one"), make_repo("two")
    remember(one), remember(two)
    first, second = store_of(one), store_of(two)
    before = fingerprint(paths.memory())
    plan = asked(*command, "one", "two", "--dry-run")
    assert [step["did"] for step in plan["plan"]] == ["added"]
    assert "Nothing was done." in coffer(*command, "one", "two", "--dry-run")
    assert fingerprint(paths.memory()) == before
    done = asked(*command, "one", "two")
    assert (done["source"], done["target"], done["files"]["added"]) == (first, second, 1)
    assert counts.fact_count(stores.get(second)) == 2
    assert asked(*command, first, "--undo", "--dry-run")["dry_run"] is True
    text = coffer(*command, first, "--undo")
    assert "what it was before" in text
    assert counts.fact_count(stores.get(first)) == counts.fact_count(stores.get(second)) == 1
    with pytest.raises(CommandError, match="which store survives"):
        coffer(*command, "one")


@pytest.mark.parametrize("command", [("merge",), ("memory", "merge-scan")])
def test_the_scan_shows_what_to_do(command: tuple[str, ...], make_repo: Repos, git: Git) -> None:
    assert "No two stores" in coffer(*command)
    for name in ("one", "two"):
        repo = make_repo(name)
        remember(repo)
        git(repo, "remote", "add", "origin", OLD)
    text = coffer(*command)
    (proposal,) = asked(*command)["proposals"]
    assert f"coffer merge {proposal['source']} {proposal['target']} --dry-run" in text
    assert "Both have the origin git.example.org/acme/widget." in text
    assert "No model is connected" in text
