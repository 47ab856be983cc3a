"""Two stores that a person told apart: proposed and joined no more, on any machine, until that is taken back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from coffer import later, paths, registry
from coffer.models import AuditEntry
from memory.files import store_file
from memory.models import Store
from memory.services import apart, facts, identity, merge, merge_scan, merge_undo, store_files, stores
from tests.cases.steps import fingerprint
from tests.conftest import Api
from tests.factories import StoreFactory
from tests.fake_llm import FakeLlm
from tests.memory.test_merge_scan import forked

Repos = Callable[..., Path]
Git = Callable[..., str]
REMOTE = "https://git.example.org/acme/widget.git"


def remember(repo: Path, text: str = "The okapi.") -> Store:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    facts.remember(store, text, actor="agent")
    later.flush()
    return store


def made(number: int, **changes: Any) -> Store:
    store = StoreFactory(name=f"project-{number:026d}", files={"knowledge/t.md": f"{number}\n"})
    return store_files.change(store.name, lambda file: file.with_(**changes))


def proposed() -> set[frozenset[str]]:
    return {frozenset((one.source, one.target)) for one in merge_scan.scan().proposals}


def twins(count: int = 2) -> list[Store]:
    return [made(number, remote="git.example.org/acme/widget") for number in range(1, count + 1)]


def test_a_pair_told_apart_is_proposed_no_more_and_taken_back_all_is_as_before(home: Path) -> None:
    one, two, three = twins(3)
    before = fingerprint(paths.memory())
    assert apart.tell(one, two)
    assert proposed() == {frozenset((one.name, three.name)), frozenset((two.name, three.name))}
    assert merge_scan.scan().told_apart == ((one.name, two.name),)
    assert not apart.tell(two, one), "said already"
    assert apart.tell(two, one, undo=True)
    assert not apart.tell(one, two, undo=True), "taken back already"
    assert len(proposed()) == 3
    assert fingerprint(paths.memory()) == before
    told = AuditEntry.objects.filter(event__startswith="stores_told_apart").order_by("pk")
    assert [row.event for row in told] == ["stores_told_apart", "stores_told_apart_undone"]


def test_it_stands_in_the_files_and_one_of_them_is_enough() -> None:
    one, two = twins()
    apart.tell(one, two)
    store_files.change(two.name, lambda file: file.with_(not_same_as=()))
    assert proposed() == set()
    assert store_file.read(stores.folder(one), one.name, one.project_id).not_same_as == (two.project_id,)


def test_the_engine_is_not_asked_about_it(fake_llm: FakeLlm) -> None:
    one, two = made(1), made(2)
    fake_llm.always({"same_project": True, "confidence": "high", "reason": "Both are the widget."})
    apart.tell(one, two)
    found = merge_scan.scan()
    assert (found.proposals, found.judged, fake_llm.requests) == ([], 0, [])


def test_doctor_says_nothing_of_it(make_repo: Repos, git: Git) -> None:
    upstream, fork = map(stores.get, forked(make_repo, git))
    assert [one for one in registry.health() if one.subject == "merge"] != []
    apart.tell(upstream, fork)
    assert [one for one in registry.health() if one.subject == "merge"] == []


def test_a_folder_told_apart_from_its_origin_keeps_its_own_memory_until_that_is_taken_back(
    make_repo: Repos, git: Git
) -> None:
    main, side = make_repo("main", remote=REMOTE), make_repo("side")
    first, second = remember(main), remember(side, "The numbat.")
    apart.tell(first, second)
    git(side, "remote", "add", "origin", REMOTE)
    for _ in range(2):
        place = stores.locate(str(side))
        assert (place.project and place.project.store) == second.name
        assert place.resolved is not None
        assert place.repository is not None
        assert "told this folder's memory apart" in identity.sentence(place.resolved, place.repository)
        assert remember(side, "More of the numbat.").name == second.name
        stores.rebuild()  # as the daemon does when it starts
    apart.tell(first, second, undo=True)
    place = stores.locate(str(side))
    assert (place.project and place.project.store) == first.name
    assert facts.newest([stores.get(first.name)])[1] == 4


def test_a_merge_by_name_joins_them_all_the_same_and_undone_they_are_apart_again() -> None:
    one, two, three = twins(3)
    apart.tell(one, two)
    apart.tell(one, three)
    merge.merge(one.name, two.name, organize=False)
    assert proposed() == set(), "what the one was told apart from, the survivor is as well"
    stores.set_label(stores.get(two.name), "Changed since")
    merge_undo.undo(one.name)
    assert merge_scan.scan().told_apart == ((one.name, two.name), (one.name, three.name))
    assert proposed() == {frozenset((two.name, three.name))}


@pytest.mark.parametrize("other", ["global", "the same"])
def test_what_is_no_pair_of_projects_is_refused(other: str, api: Api) -> None:
    (one,) = twins(1)
    body = {"one": one.name, "other": one.name if other == "the same" else other}
    answer = api.post("/memory_stores/merge/not_same", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "MERGE_INVALID")
    answer = api.post("/memory_stores/merge/not_same", {**body, "other": f"project-{9:026d}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_STORE_NOT_FOUND")


def test_over_rest(api: Api) -> None:
    one, two = twins()
    pair = {"one": one.name, "other": two.name}
    assert api.post("/memory_stores/merge/not_same", pair).json() == {**pair, "told_apart": True}
    answer = api.post("/memory_stores/merge_scan").json()
    assert (answer["proposals"], answer["told_apart"]) == ([], [pair])
    assert api.post("/memory_stores/merge/not_same", {**pair, "undo": True}).json() == {**pair, "told_apart": False}
    assert api.post("/memory_stores/merge_scan").json()["total"] == 1


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = twins()
    call_command("memory", "merge-scan")
    assert "--not-same STORE STORE" in capsys.readouterr().out
    call_command("memory", "merge-scan", "--not-same", one.name, two.name)
    call_command("memory", "merge-scan")
    said = capsys.readouterr().out
    assert "are told apart." in said
    assert "No two stores look like one project." in said
    assert f"--not-same {one.name} {two.name} --undo" in said
    call_command("memory", "merge-scan", "--not-same", one.name, two.name, "--undo")
    assert "no longer told apart" in capsys.readouterr().out
    for words in (["memory", "merge-scan", "--undo"], ["merge", "--undo"], ["merge", "--dry-run"]):
        with pytest.raises(CommandError, match="Say which"):
            call_command(*words)
