"""Reorganizing as programs and people see it: REST, command line, page, admin, queue."""

import io
import json

import pytest
from django.core.management import call_command
from django.test import Client
from django_q.models import OrmQ

from coffer import paths, signin
from coffer.models import AuditEntry
from memory import jobs
from memory.management.progress import Bar
from memory.models import Store
from memory.services import merge, reorg, stores
from tests.conftest import Api
from tests.factories import write_files
from tests.fake_llm import FakeLlm, fail, tools

GONE, KEPT, MORE = (f"project-01ARZ3NDEKTSV4RRFFQ69G5FA{last}" for last in "VWX")
SHAPE = {
    "status", "before", "after", "written", "superseded", "promoted", "refused", "skipped", "rules_moved", "steps",
    "model", "stopped", "run",
}  # fmt: skip


@pytest.fixture
def store() -> Store:
    one = stores.provision("global")
    write_files(
        paths.store("global"),
        {"knowledge/a.md": "Port 8443.\n", "knowledge/b.md": "---\ntitle: A\n---\n\nPort 8443.\n"},
    )
    return one


def merges(llm: FakeLlm) -> None:
    both = [("read_topic", {"slug": slug}) for slug in "ab"]
    llm.answer(tools(*both, ("write_topic", {"slug": "a", "markdown": "# A\n\nPort 8443."})))
    llm.answer(tools(("supersede_topic", {"slug": "b"})), "Done.")


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_rest_answers_with_the_documented_shape(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    merges(fake_llm)
    told = api.post("/memory_stores/global/reorg", X_Coffer_Actor="agent")
    assert (told.status_code, set(told.json()), told.json()["superseded"]) == (200, SHAPE, 1)
    assert AuditEntry.objects.get(event="memory_reorganized").actor == "agent"


def test_rest_queues_when_nobody_wants_to_wait(store: Store, fake_llm: FakeLlm, api: Api) -> None:
    told = api.post("/memory_stores/global/reorg?wait=false")
    assert (told.status_code, told.json()) == (202, {"status": "queued"})
    assert (OrmQ.objects.count(), fake_llm.requests) == (1, [])


def test_rest_knows_no_store_that_is_not_there(api: Api) -> None:
    for name in ("project-01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"):
        for query in ("", "?wait=false"):
            assert api.post(f"/memory_stores/{name}/reorg{query}").status_code == 404


def test_the_worker_reorganizes_and_never_raises(store: Store, fake_llm: FakeLlm) -> None:
    merges(fake_llm)
    assert jobs.reorganize("global") == "reorganized"
    assert jobs.reorganize("project-01ARZ3NDEKTSV4RRFFQ69G5FAV") == "MEMORY_STORE_NOT_FOUND"


def test_the_command_line_tells_what_was_done(store: Store, fake_llm: FakeLlm) -> None:
    merges(fake_llm)
    assert run("memory", "reorg", "global") == "global: 2 topics before, 1 after: 1 written, 1 superseded.\n"
    fake_llm.answer("Done.")
    assert run("memory", "reorg", "global") == "global: 1 topics before, 1 after: nothing to do.\n"
    fake_llm.answer("Done.")
    assert set(json.loads(run("memory", "reorg", "global", "--json"))) == SHAPE
    fake_llm.answer(fail(401))
    with pytest.raises(SystemExit):
        run("memory", "reorg", "global")


def test_the_command_line_without_a_model_names_the_way_to_one(store: Store) -> None:
    assert "no model is connected" in run("memory", "reorg", "global")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_the_topic_at_hand(store: Store, fake_llm: FakeLlm) -> None:
    merges(fake_llm)
    stream = Terminal()
    reorg.reorganize(store, progress=Bar(stream))
    assert "0/2 a" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


@pytest.fixture
def pages() -> Client:
    """A browser without eyes, signed in."""
    client = Client()
    client.force_login(signin.owner())
    return client


def test_the_stores_page_tells_of_the_last_reorganization_and_offers_the_next(
    store: Store, fake_llm: FakeLlm, pages: Client
) -> None:
    merges(fake_llm)
    reorg.reorganize(store)
    html = pages.get("/stores/global").content.decode()
    assert "1 written, 1 superseded" in html
    assert "<button>Reorganize</button>" in html
    assert pages.post("/stores/global/reorg").status_code == 302
    assert OrmQ.objects.count() == 1
    assert "reorganized in the background" in pages.get("/stores/global").content.decode()
    assert pages.get("/stores/global/reorg").status_code == 405


def test_the_admin_queues_a_reorganization_after_asking(store: Store, pages: Client) -> None:
    url = "/admin/memory/store/act/reorg/"
    assert "Reorganize these stores?" in pages.get(f"{url}?key=global").content.decode()
    pages.post(url, {"keys": json.dumps(["global"])})
    assert OrmQ.objects.count() == 1


def test_a_merge_ends_with_a_reorganization_of_the_survivor(store: Store, fake_llm: FakeLlm) -> None:
    for name in (GONE, KEPT):
        write_files(paths.store(stores.provision(name).name), {"knowledge/a.md": "Port 8443.\n"})
    fake_llm.answer("Done.")
    assert merge.merge(GONE, KEPT).reorg_status == "reorganized"
    write_files(paths.store(stores.provision(MORE).name), {"knowledge/a.md": "Port 8443.\n"})
    fake_llm.answer(fail(401))
    assert merge.merge(MORE, KEPT).reorg_status.startswith("error: ")
