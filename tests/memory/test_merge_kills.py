"""A merge, or the undoing of one, killed at any step and run again ends as if nothing had happened."""

import random
import shutil
from pathlib import Path

import pytest

from coffer import paths
from coffer.models import AuditEntry
from memory.services import facts, merge, merge_undo, recall, stores
from tests.cases.steps import fingerprint
from tests.factories import StoreFactory
from tests.nursery import Nursery
from tests.rounds import rounds

A = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
B = "project-01BX5ZZKBKACTAV9WEVGEMMVRZ"
STEPS = 900  # more than a merge of these stores takes

Prints = dict[str, str]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Two stores that have something to join, to keep twice and to carry in every lane."""
    day, mark = "journal/2026-10-25.md", "<!-- 2026-10-25T1{}:00:00Z claude_code:s -->\nEntry of {}.\n"
    for name, other in ((A, 0), (B, 1)):
        files = {f"knowledge/{number}.md": f"okapi {number} of {name}\n" for number in range(20)}
        StoreFactory(name=name, files={
            **files, "knowledge/same.md": "equal\n", "handoff/main.md": f"of {name}\n", f"notes-{other}.txt": "x\n",
            "rules/rules.md": f"- both\n- of {name}\n", day: f"# 2026-10-25\n\n{mark.format(other, name)}",
            "superseded/x.md": f"of {name}\n", "superseded/index.jsonl": f'{{"file": "x.md", "why": "{name}"}}\n',
        })  # fmt: skip
        facts.add(stores.get(name), f"The quokka of {name}.")
    stores.set_label(stores.get(A), "Ours")
    shutil.copytree(paths.memory(), tmp_path / "template")
    return tmp_path / "template"


def restore(template: Path) -> None:
    shutil.rmtree(paths.memory())
    shutil.copytree(template, paths.memory())
    AuditEntry.objects.all().delete()
    stores.rebuild()


def killed(nursery: Nursery, tmp_path: Path, *words: str, step: int) -> bool:
    """Whether a process was killed at the step; one that got through before it must have ended well."""
    process = nursery.start(*words, str(step), folder=tmp_path)
    error = process.communicate(90)[1]
    assert process.returncode in (0, -9), error
    return process.returncode != 0


@pytest.mark.hold
def test_a_merge_killed_at_any_step_and_run_again_doubles_and_loses_nothing(
    template: Path, nursery: Nursery, tmp_path: Path
) -> None:
    merge.merge(A, B)
    wanted = prints(paths.store(B))
    rng, killed_ones = random.Random(5), 0
    for _ in range(rounds(100)):
        restore(template)
        step = rng.randint(1, STEPS)
        if killed(nursery, tmp_path, "merge", A, B, step=step):
            killed_ones += 1
            finish_the_merge(step)
        assert prints(paths.store(B)) == wanted, step
        assert [path.name for path in paths.projects().iterdir()] == [B.removeprefix("project-")], step
        assert AuditEntry.objects.filter(event=merge.EVENT).count() == 1, step
        found = recall.recall([stores.get(B)], "quokka", top_k=20)
        assert len(found) == 2, step
        undone = merge_undo.undo(A)
        assert undone.kept == [], step
        for name in (A, B):
            assert prints(paths.store(name)) == of_template(template, name), (step, name)
    assert killed_ones > 0


@pytest.mark.hold
def test_an_undo_killed_at_any_step_and_run_again_gives_both_stores_back(
    template: Path, nursery: Nursery, tmp_path: Path
) -> None:
    rng, killed_ones = random.Random(6), 0
    for _ in range(rounds(50)):
        restore(template)
        merge.merge(A, B)
        step = rng.randint(1, 300)
        if killed(nursery, tmp_path, "unmerge", A, step=step):
            killed_ones += 1
            if merge.cut_off() or not paths.store(A).is_dir():  # else the kill came after its end
                merge_undo.undo(A)
        for name in (A, B):
            assert prints(paths.store(name)) == of_template(template, name), (step, name)
        assert merge.cut_off() == [], step
    assert killed_ones > 0


def finish_the_merge(step: int) -> None:
    """Run it again; when the kill came after its end it says so."""
    ended = not paths.store(A).is_dir() and merge.cut_off() == []
    if not ended:
        merge.merge(A, B)
    assert merge.cut_off() == [], step


def prints(folder: Path) -> Prints:
    """Every file but what a killed writer left behind, which the next look at the store removes."""
    return {name: sha for name, sha in fingerprint(folder).items() if not name.endswith(".tmp")}


def of_template(template: Path, name: str) -> Prints:
    return prints(template / "projects" / name.removeprefix("project-"))
