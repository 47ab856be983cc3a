"""Vectors by an endpoint: made in the background, right or not at all, and never in anybody's way (FR-008)."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from coffer import paths
from coffer.errors import BadAnswer, BudgetSpent, EngineError, Invalid, NoModel, Unavailable
from coffer.llm import clients
from coffer.models import LlmCall
from memory import jobs, retrieval
from memory.files import markdown
from memory.models import Store
from memory.retrieval import asking, vectors
from memory.services import embedding, facts, recall, stores
from tests.fake_llm import FakeLlm, Reply, Request, fail, meaning_of, meant
from tests.processes import eventually

CAR = "The automobile needs a permit to enter the yard."
PLANTS = "Water the plants before the weekend."
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLlm]:
    """An endpoint that makes vectors, configured by the environment, and hybrid search everywhere."""
    asking.forget()
    with FakeLlm() as llm:
        for name, value in llm.embedding_environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("COFFER_RETRIEVAL", "hybrid")
        yield llm


@pytest.fixture
def store() -> Store:
    return stores.provision("global")


def remember(store: Store, *texts: str) -> list[str]:
    return [facts.remember(store, text, actor="user").id for text in texts]


def found(store: Store, query: str) -> list[str]:
    stores.refresh(store)
    return [hit.ref for hit in retrieval.search([store], query, 5, vector_seconds=None)]


def test_what_shares_no_word_with_the_question_is_found_by_its_meaning(endpoint: FakeLlm, store: Store) -> None:
    car, _ = remember(store, CAR, PLANTS)
    assert car not in found(store, "car")
    done = retrieval.catch_up(store)
    assert (done.files, done.embedded, done.left) == (2, 2, 0)
    assert found(store, "car")[0] == car


def test_recall_finds_it_too_and_its_answer_has_no_flag(endpoint: FakeLlm, store: Store, api: Any) -> None:
    car, _ = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    eventually(lambda: [hit.id for hit in recall.recall([store], "car")] == [car])
    answer = api.post("/memory_stores/global/recall", {"query": "car"}).json()
    assert set(answer) == {"hits", "project"}
    assert set(answer["hits"][0]) == {"id", "text", "score", "source", "time"}


def test_a_question_in_chinese_finds_the_english_note_when_the_model_can(endpoint: FakeLlm, store: Store) -> None:
    car, _ = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    assert found(store, "车")[0] == car


def test_a_model_that_cannot_tell_chinese_apart_is_kept_out_of_such_questions(endpoint: FakeLlm, store: Store) -> None:
    endpoint.embeds = lambda request: [meaning_of(text if text.isascii() else "unknown") for text in request.texts]
    remember(store, "数据库迁移需要锁。", CAR)
    retrieval.catch_up(store)
    eventually(lambda: "does not tell Chinese texts apart" in recall.explain([store], "汽车")[1].notes[0])
    assert any("does not tell Chinese" in finding.message for finding in embedding.findings())


def test_a_store_that_is_not_searched_by_vectors_sends_nothing(
    endpoint: FakeLlm, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COFFER_RETRIEVAL")
    remember(store, CAR)
    assert found(store, "permit")
    assert jobs.embed("global") == "off"
    assert endpoint.requests == []
    assert list(embedding.findings()) == []


def test_secrets_do_not_leave_with_the_texts_or_the_questions(endpoint: FakeLlm, store: Store) -> None:
    remember(store, f"The deploy token is {TOKEN} for now.")
    retrieval.catch_up(store)
    found(store, f"who uses {TOKEN}")
    sent = json.dumps([request.body for request in endpoint.requests])
    assert "deploy token" in sent
    assert TOKEN not in sent


def test_calls_are_counted_and_the_day_s_limit_holds(
    endpoint: FakeLlm, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(store, CAR)
    retrieval.catch_up(store)
    rows = LlmCall.objects.filter(purpose="embed")
    assert rows.count() == len(endpoint.requests)
    assert {row.outcome for row in rows} == {"ok"}
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "0")
    remember(store, PLANTS)
    with pytest.raises(BudgetSpent):
        retrieval.catch_up(store)
    assert found(store, "plants")


def test_texts_that_are_known_are_not_sent_again(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    facts.edit(store, car, description="")
    before = len(endpoint.requests)
    assert retrieval.catch_up(store).embedded == 1
    assert [text for request in endpoint.requests[before:] for text in request.texts if "automobile" in text] == []


def test_a_batch_that_is_too_large_is_halved_until_the_endpoint_takes_it(endpoint: FakeLlm, store: Store) -> None:
    endpoint.embeds = lambda request: (
        meant(request) if len(request.texts) <= 4 else fail(400, message="batch too large")
    )
    remember(store, *(f"Fact number {number} about the yard." for number in range(20)))
    assert retrieval.catch_up(store).embedded == 20


def test_one_text_that_is_refused_does_not_hold_up_the_others(endpoint: FakeLlm, store: Store) -> None:
    def embeds(request: Request) -> list[Any] | Reply:
        return fail(400) if any("cursed" in text for text in request.texts) else meant(request)

    endpoint.embeds = embeds
    car, *_ = remember(store, CAR, "This one is cursed.", PLANTS)
    done = retrieval.catch_up(store)
    assert (done.embedded, done.failed, done.left) == (2, 1, 0)
    assert found(store, "car")[0] == car
    assert any("1 files could not be embedded" in finding.message for finding in embedding.findings())
    endpoint.embeds = meant
    facts.edit(store, facts.page(store)[0][1].id, text="This one is blessed.")
    assert retrieval.catch_up(store).failed == 0


@pytest.mark.parametrize(
    "spoilt",
    [[math.nan] * 64, [0.0] * 64, [math.inf] * 64, [1e300] * 64, [], None, ["a"] * 64, [True] * 64, "no base64!"],
    ids=["nan", "zeros", "infinite", "huge", "empty", "null", "words", "booleans", "text"],
)
def test_a_vector_that_is_none_is_not_kept_and_tried_again(endpoint: FakeLlm, store: Store, spoilt: Any) -> None:
    endpoint.embeds = lambda request: [
        spoilt if "automobile" in text else vector for text, vector in zip(request.texts, meant(request), strict=True)
    ]
    remember(store, CAR, PLANTS)
    done = retrieval.catch_up(store)
    assert (done.embedded, done.failed) == (1, 1)
    assert done.retry_at > 0
    assert found(store, "automobile")


@pytest.mark.parametrize(
    "embeds",
    [
        lambda request: [[0.0] * 64 for _ in request.texts],
        lambda request: meant(request)[:-1],
        lambda request: [meaning_of(text, 64 if "yard" in text else 32) for text in request.texts],
        lambda request: [meaning_of(text)[: 64 if "yard" in text else 61] for text in request.texts],
        lambda request: Reply(body=b"<html>"),
        lambda request: Reply(body=b'{"data": [1, 2]}'),
        lambda request: fail(400),
        lambda request: fail(401),
        lambda request: fail(500),
    ],
    ids=["zeros", "one too few", "two lengths", "nearly one length", "html", "numbers", "refused", "key", "broken"],
)
def test_an_endpoint_that_answers_nonsense_costs_only_the_vectors(
    endpoint: FakeLlm, store: Store, embeds: Callable[[Request], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    (car,) = remember(store, CAR)
    endpoint.embeds = embeds
    with pytest.raises(EngineError):
        retrieval.catch_up(store)
    assert jobs.embed("global").isupper()
    assert found(store, "automobile permit") == [car]


@pytest.mark.parametrize("number", [0.0, math.nan])
def test_a_model_whose_vectors_are_all_of_no_use_is_told_by_status(
    endpoint: FakeLlm, store: Store, number: float
) -> None:
    remember(store, CAR)
    endpoint.embeds = lambda request: [[number] * 64 for _ in request.texts]
    with pytest.raises(BadAnswer, match="no usable vector"):
        retrieval.catch_up(store)
    assert any("failed (bad answer)" in finding.message for finding in embedding.findings())
    assert [hit.text for hit in recall.recall([store], "automobile")] == [CAR]


def test_an_hour_of_429_is_waited_for_by_nobody(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    endpoint.embeds = lambda request: fail(429, retry_after=3600)
    remember(store, PLANTS)
    with pytest.raises(Unavailable):
        retrieval.catch_up(store)
    for _ in range(5):
        assert [hit.id for hit in recall.recall([store], "automobile")] == [car]
    before = len(endpoint.requests)
    recall.recall([store], "automobile again")
    assert len(endpoint.requests) == before  # it rests
    assert any("failed (unavailable)" in finding.message for finding in embedding.findings())


def test_an_endpoint_that_hangs_costs_a_recall_its_share_of_time_once(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    endpoint.embeds = lambda request: Reply(after=threading.Event())
    hits, why = recall.explain([store], "automobile")
    assert [hit.id for hit in hits] == [car]
    assert why.notes[0].endswith("did not answer in time.")
    _, why = recall.explain([store], "automobile permit")
    assert "rests" in why.notes[0]


def test_a_first_question_is_no_reason_for_a_model_to_rest(
    endpoint: FakeLlm, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(clients, "_kept", kept)  # as in a process that has just begun
    hits, why = recall.explain([store], "car")
    assert hits == []
    assert why.notes[0].endswith("is being loaded.")
    eventually(lambda: [hit.id for hit in recall.recall([store], "car")] == [car], seconds=5)
    for client in kept.values():
        client.close()


def test_an_answer_that_came_too_late_serves_the_same_question_next_time(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    endpoint.embeds = lambda request: Reply(body=_body(request), seconds=0.4)
    assert recall.recall([store], "car") == []
    eventually(lambda: [hit.id for hit in recall.recall([store], "car")] == [car])


def test_a_model_that_changes_behind_its_name_is_noticed_and_never_mixed(endpoint: FakeLlm, store: Store) -> None:
    car, plants = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    endpoint.embeds = lambda request: [meaning_of(text, model="another") for text in request.texts]
    recall.recall([store], "plants weekend")
    eventually(lambda: retrieval.coverage(store).embedded == 0)
    assert found(store, "weekend") == [plants]
    assert retrieval.catch_up(store).embedded == 2
    assert len(vectors.spaces()) == 1
    assert found(store, "car")[0] == car


def test_a_model_that_changes_its_dimension_is_another_model(endpoint: FakeLlm, store: Store) -> None:
    car, _ = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    endpoint.embeds = lambda request: [meaning_of(text, 100) for text in request.texts]
    found(store, "car")
    assert retrieval.catch_up(store).embedded == 2
    assert [space.dimension for space in vectors.spaces()] == [104]  # whole bytes of bits
    assert found(store, "car")[0] == car


def test_switching_the_model_twice_ends_with_vectors_of_the_last_one_alone(
    endpoint: FakeLlm, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    car, _ = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    switched = threading.Event()

    def embeds(request: Request) -> list[Any] | Reply:
        if request.body["model"] == "second" and any("automobile" in text for text in request.texts):
            monkeypatch.setenv("COFFER_EMBEDDING_MODEL", "third")
            switched.set()
        return [meaning_of(text, model=request.body["model"]) for text in request.texts]

    endpoint.embeds = embeds
    monkeypatch.setenv("COFFER_EMBEDDING_MODEL", "second")
    with pytest.raises(NoModel):
        retrieval.catch_up(store)
    assert switched.is_set()
    assert found(store, "plants")  # by words, while no vector of the third is there
    assert retrieval.catch_up(store).embedded == 2
    assert [space.model.rsplit(" ", 1)[-1] for space in vectors.spaces()] == ["third"]
    assert found(store, "car")[0] == car


def test_what_is_embedded_so_far_is_used_while_the_rest_is_made(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    remember(store, PLANTS)
    done = retrieval.coverage(store)
    assert (done.embedded, done.left) == (1, 1)
    assert found(store, "car")[0] == car


def test_work_that_takes_long_is_done_in_slices(endpoint: FakeLlm, store: Store) -> None:
    remember(store, CAR, PLANTS)
    assert retrieval.catch_up(store, seconds=0.0).left == 2
    assert retrieval.catch_up(store).left == 0


def test_a_lost_file_of_vectors_is_made_again(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    retrieval.catch_up(store)
    for path in paths.home().glob("vectors.sqlite3*"):
        path.unlink()
    assert found(store, "automobile") == [car]
    assert retrieval.catch_up(store).embedded == 1
    assert found(store, "car") == [car]


def test_an_erased_fact_leaves_no_vector_and_no_word(endpoint: FakeLlm, store: Store) -> None:
    car, plants = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    name = facts.get(store, car).path.name.encode()
    facts.delete(store, car, forever=True)
    data = b"".join(path.read_bytes() for path in paths.home().glob("vectors.sqlite3*"))
    assert name not in data
    assert b"automobile" not in data
    assert [place.path for place, _ in _everything(store)] == [_relative(store, facts.get(store, plants).path)]


def test_where_sqlite_vec_cannot_be_loaded_words_answer_and_an_erased_fact_is_gone_all_the_same(
    endpoint: FakeLlm, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    car, _ = remember(store, CAR, PLANTS)
    retrieval.catch_up(store)
    package = tmp_path / "sqlite_vec"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    vectors._extension.cache_clear()
    vectors._forget_connection()
    try:
        assert [hit.id for hit in recall.recall([store], "automobile")] == [car]
        assert any("sqlite-vec cannot be loaded" in finding.message for finding in embedding.findings())
        facts.delete(store, car, forever=True)
    finally:
        vectors._extension.cache_clear()
    assert not paths.vectors().exists()


def test_a_retired_store_leaves_no_vectors_after_the_next_pass(endpoint: FakeLlm, store: Store) -> None:
    project = stores.provision("project-556M7HVWHVZ4J22E1DTAEP0PMJ")
    remember(project, CAR)
    remember(store, PLANTS)
    retrieval.catch_up(project)
    stores.retire(project)
    retrieval.catch_up(store)
    (space,) = vectors.spaces()
    assert vectors.states(space, project.name) == {}


def test_what_changed_on_disk_since_is_embedded_as_it_is_indexed(endpoint: FakeLlm, store: Store) -> None:
    (car,) = remember(store, CAR)
    path = facts.get(store, car).path
    path.write_bytes(markdown.dump({"id": car, "title": "Bicycle"}, "The bicycle stands in the yard."))
    assert retrieval.catch_up(store).left == 1
    stores.refresh(store)
    assert retrieval.catch_up(store).left == 0


def test_the_background_job_says_how_far_it_is(endpoint: FakeLlm, store: Store) -> None:
    remember(store, CAR, PLANTS)
    assert jobs.embed("global") == "2 of 2"
    assert jobs.embed("project-556M7HVWHVZ4J22E1DTAEP0PMJ") == "gone"
    assert any("2 of 2 files are embedded" in finding.message for finding in embedding.findings())


def test_a_write_has_its_vectors_made_in_the_background(endpoint: FakeLlm, store: Store) -> None:
    from django_q.models import OrmQ

    remember(store, CAR)
    eventually(lambda: any("memory.jobs.embed" in str(row.func()) for row in OrmQ.objects.all()))
    assert endpoint.requests == []


def test_the_store_decides_over_the_global_setting(endpoint: FakeLlm, store: Store, api: Any) -> None:
    assert api.patch("/memory_stores/global", {"retrieval": "keyword"}).json()["config"]["retrieval"] == "keyword"
    assert jobs.embed("global") == "off"
    assert api.patch("/memory_stores/global", {"retrieval": None}).json()["config"]["retrieval"] == "hybrid"
    assert api.patch("/memory_stores/global", {"embedding": {"provider": "endpoint"}}).status_code == 200
    answer = api.patch("/memory_stores/global", {"embedding": {"base_url": "https://elsewhere.example"}})
    assert answer.status_code == 422


def test_the_command_line_makes_them_at_once_and_tries_the_model(endpoint: FakeLlm, store: Store) -> None:
    remember(store, CAR, PLANTS)
    out = StringIO()
    call_command("memory", "embed", "global", "--test", stdout=out)
    assert "a vector of 64 numbers" in out.getvalue()
    assert not any("automobile" in text for request in endpoint.requests for text in request.texts)
    out = StringIO()
    call_command("memory", "embed", "global", "--json", stdout=out)
    assert json.loads(out.getvalue())["embedded"] == 2


def test_the_command_line_has_the_time_to_wait_for_a_query_s_vector(endpoint: FakeLlm, store: Store) -> None:
    remember(store, CAR)
    retrieval.catch_up(store)
    endpoint.embeds = lambda request: Reply(body=_body(request), seconds=0.4)
    out = StringIO()
    call_command("memory", "recall", "global", "car", stdout=out)
    assert CAR in out.getvalue()


def test_a_model_is_tried_alike_over_rest_and_on_the_command_line(endpoint: FakeLlm, store: Store, api: Any) -> None:
    remember(store, "数据库迁移需要锁。")
    endpoint.embeds = lambda request: [meaning_of(text if text.isascii() else "unknown") for text in request.texts]
    told = api.post("/memory_stores/global/embedding/test", {}).json()
    assert (told["ok"], told["dimension"]) == (True, 64)
    assert "this store holds some" in told["warnings"][0]
    assert not any("数据库迁移" in text for request in endpoint.requests for text in request.texts)
    endpoint.embeds = lambda request: fail(401)
    told = api.post("/memory_stores/global/embedding/test", {}).json()
    assert told["ok"] is False
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("memory", "embed", "global", "--test", stdout=out)
    assert told["message"] in out.getvalue()
    assert api.post("/memory_stores/project-01ARZ3NDEKTSV4RRFFQ69G5FAV/embedding/test", {}).status_code == 404


def test_a_model_that_is_slower_than_a_question_waits_is_told_so_when_it_is_tried(
    endpoint: FakeLlm, store: Store
) -> None:
    endpoint.embeds = lambda request: Reply(body=_body(request), seconds=0.3)
    assert "waits 150 ms at most" in embedding.trial(store).warnings[0]


def test_the_command_line_says_that_a_store_is_searched_by_words_alone(store: Store) -> None:
    with pytest.raises(Invalid, match="COFFER_RETRIEVAL"):
        call_command("memory", "embed", "global")


def _body(request: Request) -> bytes:
    data = [{"index": place, "embedding": vector} for place, vector in enumerate(meant(request))]
    return json.dumps({"data": data}).encode()


def _everything(store: Store) -> list[tuple[vectors.Place, float]]:
    (space,) = vectors.spaces()
    return vectors.nearest(space, [store.name], space.probe, 100)


def _relative(store: Store, path: Path) -> str:
    return path.relative_to(stores.folder(store)).as_posix()


def test_a_model_that_is_tried_and_hangs_is_told_with_the_time_that_was_waited(
    endpoint: FakeLlm, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "TRIAL_SECONDS", 0.3)
    endpoint.embeds = lambda request: Reply(after=threading.Event())
    assert embedding.trial(store).message.endswith("did not answer within 0.3 s.")
