"""What ``coffer bench`` measures: each figure as a ratio to a lower bound of the same run, in a temporary home.

Times alone mean nothing on another machine. L, the lower bound of a recall, is walking and stat-ing the store's files,
the bare full-text query on the same database, and twelve reads by primary key through Django's connection.
"""

import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import django
import yaml

django.setup()

from django.db import connection  # noqa: E402 - Django must be set up first

from agents import link  # noqa: E402
from agents.services import context, registration  # noqa: E402
from coffer import db, fs, later, launchers, paths  # noqa: E402
from gateway import bench_engine  # noqa: E402
from gateway.demo import Agent  # noqa: E402
from gateway.figures import Figure, ms, p95, words  # noqa: E402
from memory import retrieval  # noqa: E402
from memory.files import markdown, ulid  # noqa: E402
from memory.models import Document, Store  # noqa: E402
from memory.services import facts, recall, stores  # noqa: E402

SETTLE_SECONDS = 2.1  # after which a file's time stamp is trusted
TOPICS = (10, 1000)  # of the stores in which a note is organized
LARGE = 10_000  # facts from which on the start of a session is measured: below, it costs more than a recall as it is
BARE_START = "import http.client"  # what both small processes cannot do without


def run(sizes: Sequence[int], rounds: int, slow_seconds: float) -> Iterator[Figure]:
    """Every figure, one after the other; COFFER_HOME must be a temporary one."""
    db.prepare()
    recall.recall([_fill(1, "global")], "what is loaded once, at the first question of a process")
    for size in sizes:
        yield from _store_of(size, rounds)
    _fill(1000, "global")
    with bench_engine.endpoint() as model:
        yield from map(bench_engine.costs, TOPICS)
        yield from _daemon(rounds, slow_seconds, model)


def _store_of(size: int, rounds: int) -> Iterator[Figure]:
    store = _fill(size)
    yield _first_index(store, size)
    time.sleep(SETTLE_SECONDS)
    recall.recall([store], "settle")
    yield from _recall(store, size, rounds)
    if size >= LARGE:
        yield _session(store, size, rounds)
    yield _remember(store, size, rounds)


def _recall(store: Store, size: int, rounds: int) -> Iterator[Figure]:
    queries = [words(random.Random(seed), 4) for seed in range(rounds)]
    ids = list(Document.objects.filter(store=store).values_list("pk", flat=True)[:12])
    for query in queries[:5]:
        recall.recall([store], query)
        _lower_bound(store, retrieval.expression([store], query), ids)
    bound, ours = [], []
    for query in queries:
        expression = retrieval.expression([store], query)
        bound.append(ms(partial(_lower_bound, store, expression, ids)))
        ours.append(ms(partial(recall.recall, [store], query)))
        later.flush()  # what is written after the answer is not part of it, nor of the next one
    least = statistics.median(bound)
    middle, worst = statistics.median(ours), p95(ours)
    detail = f"L {least:.1f} ms; recall p50 {middle:.1f} ms, p95 {worst:.1f} ms"
    yield Figure(f"recall p50, {size} facts, in L", middle / least, 2.0, detail)
    yield Figure(f"recall p95, {size} facts, in L", worst / least, 4.0, detail)


def _session(store: Store, size: int, rounds: int) -> Figure:
    agent, place = registration.ensure("claude_code"), context.place_in(store.name)
    context.preview(agent, place)
    ids = list(Document.objects.filter(store=store).values_list("pk", flat=True)[:12])
    bound, ours = [], []
    for seed in range(rounds):
        expression = retrieval.expression([store], words(random.Random(seed), 4))
        bound.append(ms(partial(_lower_bound, store, expression, ids)))
        ours.append(ms(partial(context.preview, agent, place)))
    least, middle = statistics.median(bound), statistics.median(ours)
    detail = f"L {least:.1f} ms; session context {middle:.1f} ms"
    return Figure(f"session context, {size} facts, in L", middle / least, 3.0, detail)


def _lower_bound(store: Store, expression: str, ids: Sequence[int]) -> None:
    _walk(paths.store(store.name))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rowid, bm25(memory_fts) FROM memory_fts WHERE memory_fts MATCH %s ORDER BY 2 LIMIT 60",
            [expression or '"nothing"'],
        )
        cursor.fetchall()
        for pk in ids:
            cursor.execute("SELECT * FROM memory_document WHERE id = %s", [pk])
            cursor.fetchone()


def _walk(folder: Path | str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _walk(entry.path)
            else:
                entry.stat(follow_symlinks=False)


def _remember(store: Store, size: int, rounds: int) -> Figure:
    rng = random.Random(size)
    folder = fs.ensure_dir(paths.home() / f"bare-{size}")
    plain = sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)
    plain.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE bare (id INTEGER, text TEXT)")
    bound, ours = [], []
    for number in range(rounds):
        text = words(rng, 30)
        bound.append(ms(partial(_bare_write, folder / f"{number}.md", text, plain)))
        ours.append(ms(partial(facts.remember, store, text, actor="agent")))
        later.flush()
    plain.close()
    least, middle = statistics.median(bound), statistics.median(ours)
    detail = f"bare write and commit {least:.1f} ms; remember {middle:.1f} ms"
    return Figure(f"remember p50, {size} facts", middle / least, 3.0, detail)


def _bare_write(path: Path, text: str, plain: sqlite3.Connection) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    plain.execute("BEGIN IMMEDIATE")
    for number in range(5):
        plain.execute("INSERT INTO bare VALUES (?, ?)", (number, text))
    plain.execute("COMMIT")


def _first_index(store: Store, size: int) -> Figure:
    """The best of three for both: each is one long act, which anything else on the machine may delay."""
    folder = paths.store(store.name)
    bound, ours = [], []
    for _ in range(3):
        bound.append(ms(partial(_read_parse_insert, folder)))
        retrieval.forget(store)
        ours.append(ms(partial(recall.recall, [store], "the first question")))
    detail = f"read, parse, insert {min(bound):.0f} ms; first recall {min(ours):.0f} ms"
    return Figure(f"first recall, {size} new files", min(ours) / min(bound), 4.0, detail)


def _read_parse_insert(folder: Path) -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rows = []
    for path in (folder / "knowledge" / "inbox").iterdir():
        _, block, body = path.read_text(encoding="utf-8").split("---\n", 2)
        rows.append((str(path), yaml.load(block, Loader=loader)["title"], body))  # noqa: S506 - a safe loader
    plain = sqlite3.connect(paths.home() / "bare-index.sqlite3")
    plain.execute("CREATE TABLE IF NOT EXISTS bare (path TEXT, title TEXT, body TEXT)")
    plain.executemany("INSERT INTO bare VALUES (?, ?, ?)", rows)
    plain.commit()
    plain.close()


def _daemon(rounds: int, slow_seconds: float, model: bench_engine.Endpoint) -> Iterator[Figure]:
    """What only a running daemon shows: the shim, slow neighbours, memory."""
    launchers.write()
    connection.close()
    link.ensure(60).close()
    folder = fs.ensure_dir(paths.home() / "cwd")
    agent = Agent("bench", folder, dict(os.environ))
    try:
        agent.greet()
        agent.call("coffer__recall", query="warm up", scope="global")
        before = _settled_pss()
        yield _shim_start()
        yield _hook(folder)
        yield _through_shim(agent, rounds)
        yield _beside_slow(agent, folder, rounds, slow_seconds)
        after = _pss()
        if before and after:
            detail = f"{before:.0f} MB after the start, {after:.0f} MB at the end (target: 220 MB in all)"
            yield Figure("memory of daemon and workers (PSS)", after / before, 1.5, detail)
        yield from bench_engine.beside_a_pass(model, agent, rounds)
    finally:
        agent.close()


def _shim_start() -> Figure:
    shim = str(paths.launchers() / "coffer-mcp-shim")
    bare = [sys.executable, "-I", "-c", BARE_START]
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"bench","version":"1"}}}\n'
    )

    def start() -> None:
        with subprocess.Popen([shim], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None  # noqa: S101 - asked for in the line above
            assert process.stdout is not None  # noqa: S101
            process.stdin.write(hello)
            process.stdin.flush()
            process.stdout.readline()
            times.append((time.perf_counter() - began) * 1000)
            process.stdin.close()

    times: list[float] = []
    bound: list[float] = []
    for _ in range(15):
        bound.append(ms(lambda: subprocess.run(bare, check=True)))
        began = time.perf_counter()
        start()
    least, middle = statistics.median(bound), statistics.median(times)
    detail = f"python -I -c '{BARE_START}' {least:.0f} ms; shim to answered initialize {middle:.0f} ms"
    return Figure("shim start", middle / least, 3.0, detail)


def _hook(folder: Path) -> Figure:
    """The start of a session as an agent waits for it: the whole process, with what it prints."""
    bare = [sys.executable, "-I", "-c", BARE_START]
    command = [str(paths.launchers() / "coffer-hook"), "--agent", "claude_code", "--event", "SessionStart"]
    told = json.dumps({"session_id": "bench", "cwd": str(folder), "source": "startup"}).encode()

    def fire() -> None:
        done = subprocess.run(command, input=told, capture_output=True, check=True)
        assert b"additionalContext" in done.stdout  # noqa: S101 - silence would be fast, too

    fire()
    bound, ours = [], []
    for _ in range(15):
        bound.append(ms(lambda: subprocess.run(bare, check=True)))
        ours.append(ms(fire))
    least, middle = statistics.median(bound), statistics.median(ours)
    detail = f"python -I -c '{BARE_START}' {least:.0f} ms; hook from start to exit {middle:.0f} ms"
    return Figure("hook at a session's start", middle / least, 3.0, detail)


def _through_shim(agent: Agent, rounds: int) -> Figure:
    """The same recall through shim, HTTP and MCP: at most 10 ms more, told as a share of these."""
    store = [stores.get("global")]
    direct, through = [], []
    for seed in range(rounds):
        query = words(random.Random(seed), 4)
        direct.append(ms(partial(recall.recall, store, query)))
        through.append(ms(partial(agent.call, "coffer__recall", query=query, scope="global")))
    more = statistics.median(through) - statistics.median(direct)
    detail = f"service {statistics.median(direct):.1f} ms; through the shim {statistics.median(through):.1f} ms"
    return Figure("what the shim adds at p50, in 10 ms", more / 10, 1.0, detail)


def _beside_slow(agent: Agent, folder: Path, rounds: int, seconds: float) -> Figure:
    """Recall while another agent's calls wait for a store that somebody has locked."""

    def timed() -> list[float]:
        return [
            ms(partial(agent.call, "coffer__recall", query=words(random.Random(seed), 4), scope="global"))
            for seed in range(rounds)
        ]

    quiet = p95(timed())
    other = Agent("slow", folder, dict(os.environ))
    other.greet()
    with fs.locked("global.write.lock"):
        end = time.monotonic() + seconds
        waiting = threading.Thread(target=_wait_in_vain, args=(other, end), daemon=True)
        waiting.start()
        beside: list[float] = []
        while time.monotonic() < end - 1:
            beside += timed()
    waiting.join(timeout=60)
    other.close()
    busy = p95(beside)
    detail = f"p95 quiet {quiet:.1f} ms; beside a call that waits {seconds:.0f} s {busy:.1f} ms"
    return Figure("recall p95 beside a slow call", busy / quiet, 2.0, detail)


def _wait_in_vain(agent: Agent, end: float) -> None:
    while time.monotonic() < end:
        with suppress(Exception):  # the lock is held on purpose: that the call gives up is what is measured here
            agent.call("coffer__remember", text="A fact that has to wait.", scope="global")


def _settled_pss() -> float:
    """The memory after a start, once the workers are all there: two looks that tell the same."""
    last, now = 0.0, _pss()
    while abs(now - last) > 1:
        time.sleep(4)  # the workers begin a few seconds after the daemon
        last, now = now, _pss()
    return now


def _pss() -> float:
    """Proportional memory of the daemon and everything it started, in MB; 0 where the system does not tell."""
    holder = link.lock_holder()
    if holder is None or not Path("/proc/self/smaps_rollup").exists():
        return 0.0
    total, queue = 0.0, [holder]
    while queue:
        pid = queue.pop()
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
            for task in Path(f"/proc/{pid}/task").iterdir():
                queue += [int(child) for child in (task / "children").read_text().split()]
    return total


def _fill(size: int, name: str = "") -> Store:
    """A new store of this many facts."""
    store = stores.provision(name or f"project-{ulid.project_id(f'bench {size}')}")
    inbox = fs.ensure_dir(paths.store(store.name) / "knowledge" / "inbox")
    rng = random.Random(size)
    for number in range(size):
        text = words(rng, 40)
        meta = {
            "id": ulid.new(),
            "title": markdown.first_sentence(text),
            "description": "",
            "metadata": {"actor": "agent", "origin_session_id": "bench"},
            "created_at": "2026-11-30T10:00:00Z",
            "updated_at": "2026-11-30T10:00:00Z",
        }
        (inbox / f"fact-{number}.md").write_bytes(markdown.dump(meta, text))
    return store
