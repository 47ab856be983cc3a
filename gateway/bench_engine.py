"""What ``coffer bench`` measures of the engine: what organizing costs beside the model, and who feels a slow one.

The model is a small endpoint of this machine, which puts each note at the end of the document that is nearest to it.
"""

import json
import random
import re
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from coffer import fs, llm, paths
from gateway.demo import Agent
from gateway.figures import Figure, ms, p95, words
from memory import schedule
from memory.files import markdown, ulid
from memory.models import Store
from memory.services import archive, facts, organize, stores, topics, writes

NOTES = 60  # that one pass files
_SHOWN = re.compile(r'<(document) \w+ slug="([^"]*)"[^>]*>\n(.*?)\n</document \w+>', re.DOTALL)
_NOTE = re.compile(r"<note (\w+)>\n(.*?)\n</note \1>", re.DOTALL)


class Endpoint:
    """A model that files notes; ``hold`` makes it wait before it answers, ``asked`` tells that somebody waits."""

    def __init__(self) -> None:
        self.asked, self._free = threading.Event(), threading.Event()
        self._free.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def hold(self) -> None:
        self.asked.clear()
        self._free.clear()

    def close(self) -> None:
        self._free.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, question: str) -> dict[str, Any]:
        self.asked.set()
        self._free.wait()
        note = _NOTE.search(question)
        shown = _SHOWN.search(question)
        said = note[2] if note else ""
        body = f"{shown[3]}\n\n{said}" if shown else said
        about = {"topic_slug": shown[2] if shown else "notes", "topic_title": "Notes", "topic_description": ""}
        return {**about, "markdown": body, "is_rule": False}


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """The endpoint, connected in this home for all its processes; nothing is sent there but what the bench asks for."""
    one = Endpoint()
    connected = {"LLM_BASE_URL": one.base_url, "LLM_MODEL": "bench", "LLM_ALLOW": "organize"}
    lines = [f"COFFER_{key}={value}\n" for key, value in {**connected, "ORGANIZE": "0", "DISTILL": "0"}.items()]
    fs.write(paths.home() / "config.env", "".join(lines).encode())
    try:
        yield one
    finally:
        one.close()


def costs(size: int) -> Figure:
    """Organizing a note into one of so many topics, the model's time aside, against rewriting and indexing a topic."""
    rng = random.Random(size)
    store = _topics(size, rng)
    _laps(store, rng, 1)  # what is loaded once, at the first note of a process
    bound, ours = _laps(store, rng, NOTES)
    detail = f"rewrite and index a topic {bound:.1f} ms; organize a note, without the model, {ours:.1f} ms"
    return Figure(f"organize a note, {size} topics", ours / bound, 5.0, detail)


def _laps(store: Store, rng: random.Random, notes: int) -> tuple[float, float]:
    """What a rewriting and a note of a pass take at the median, in ms; of the note its share of the whole pass, too.

    Before each note a topic is rewritten, so that what else happens on the machine is felt by both alike.
    """
    _remember(store, rng, notes)
    places = [topic.path for topic in topics.listing(store)]
    bound, begun, ended = list[float](), list[float](), list[float]()

    def between(done: int, total: int, _: str) -> None:
        ended.append(time.perf_counter())
        if done < total:
            bound.append(ms(partial(_rewrite, store, rng.choice(places))))
        begun.append(time.perf_counter())

    started = time.perf_counter()
    organize.organize(store, progress=between)
    around = ended[0] - started + time.perf_counter() - begun[-1]
    calls, _ = llm.calls(purpose="organize", store=store.name, limit=notes, offset=0)
    laps = zip(begun, ended[1:], reversed(calls), strict=False)
    each = [(end - begin) * 1000 - call.ms for begin, end, call in laps]
    return statistics.median(bound), statistics.median(each) + around * 1000 / notes


def beside_a_pass(model: Endpoint, agent: Agent, rounds: int) -> Iterator[Figure]:
    """Recall and remember in the very store of which a pass waits for a slow model."""

    def timed(verb: str, **more: Any) -> list[float]:
        said = [{verb: words(random.Random(seed), 8), **more} for seed in range(rounds)]
        return [ms(partial(agent.call, f"coffer__{names[verb]}", scope="global", **one)) for one in said]

    names = {"query": "recall", "text": "remember"}
    quiet = {verb: p95(timed(verb)) for verb in names}
    model.hold()
    schedule.queue("global", "user")
    if not model.asked.wait(60):
        raise RuntimeError("The workers began no pass, so nothing was measured beside one.")
    beside = {verb: p95(timed(verb)) for verb in names}
    for verb, what in names.items():
        detail = f"p95 quiet {quiet[verb]:.1f} ms; while a pass waits for its model {beside[verb]:.1f} ms"
        yield Figure(f"{what} p95 beside a pass", beside[verb] / quiet[verb], 2.0, detail)


def _rewrite(store: Store, path: str) -> None:
    """As every change is made: the version before archived, durable, indexed, noted in the audit trail."""
    topic = topics.read(store, path)
    if topic is not None:
        data = topics.changed(topic, f"{topic.body}\n\nOne more line.")
        with stores.write_lock(store) as folder:
            archive.replace(folder, path, expected_sha256=topic.sha256, data=data, why="bench")
        writes.settle(store, [path], "fact_edited", topic.ref, "user", characters=len(data))


def _topics(size: int, rng: random.Random) -> Store:
    store = stores.provision(f"project-{ulid.project_id(f'bench of {size} topics')}")
    folder = fs.ensure_dir(paths.store(store.name) / "knowledge")
    for number in range(size):
        body = "\n\n".join([f"# Topic {number}", *(words(rng, 20) for _ in range(5))])
        (folder / f"topic-{number}.md").write_bytes(markdown.dump({"title": f"Topic {number}"}, body))
    stores.refresh(store)
    return store


def _remember(store: Store, rng: random.Random, count: int) -> None:
    for _ in range(count):
        facts.remember(store, words(rng, 20), actor="agent")


def _handler(model: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(model.answer(asked["messages"][-1]["content"]))
            message = {"role": "assistant", "content": content}
            body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
