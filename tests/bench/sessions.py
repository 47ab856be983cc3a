"""Measure the list of sessions against its bars: ``python tests/bench/sessions.py [--sessions N] [--megabytes N]``.

Makes a person's home full of sessions of Claude Code and Codex in a temporary folder, lists them for the first time,
after a restart, and with one file that grew. Bars: the first listing takes at most twice the time of ``json.loads``
over the same lines and 300 MB; a warm one with search, filter and sort at most three times the bare walk. Times are
those of the processor, since other programs may be at work beside this one.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = re.findall(
    r"\w+", "the build cache release gate retry upload parser index token window queue schema branch deploy"
)
PROJECTS = 60
ROUNDS = 7


def main() -> None:
    options = _options()
    if options.measure:
        _measure(Path(options.measure))
        return
    with tempfile.TemporaryDirectory(prefix="coffer-sessions-") as folder:
        person, coffer = Path(folder, "person"), Path(folder, "coffer")
        coffer.mkdir()
        size = make(person, options.sessions, options.megabytes * 10**6)
        say(f"{options.sessions} sessions, {size / 1e6:.0f} MB")
        env = {**os.environ, "HOME": str(person), "COFFER_HOME": str(coffer), "PYTHONPATH": str(ROOT)}
        for _ in range(2):  # the second process finds what the first one kept
            subprocess.run([sys.executable, __file__, "--measure", str(person)], env=env, check=True)


def make(person: Path, sessions: int, size: int) -> int:
    """Write sessions, half of each agent's; returns their bytes."""
    chosen, total = random.Random(7), 0
    for number in range(sessions):
        lines = max(4, int(chosen.expovariate(1) * size / sessions / 2000))
        path, records = (_claude if number % 2 else _codex)(person, number, lines, chosen)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
        path.write_bytes(data)
        total += len(data)
        written = 1_780_000_000 + number * 60
        os.utime(path, (written, written))
    return total


def _claude(person: Path, number: int, lines: int, chosen: random.Random) -> tuple[Path, Iterator[dict[str, object]]]:
    identity = f"{number:08x}-0000-4000-8000-000000000001"
    path = person / ".claude" / "projects" / f"-work-project-{number % PROJECTS}" / f"{identity}.jsonl"

    def records() -> Iterator[dict[str, object]]:
        for line in range(lines):
            kind = ("user", "assistant", "assistant", "user")[line % 4]
            content: object = _prose(chosen, 40) if line % 4 == 0 else [{"type": "text", "text": _prose(chosen, 80)}]
            if line % 4 == 3:
                content = [{"type": "tool_result", "tool_use_id": f"t{line}", "content": _prose(chosen, 700)}]
            message: dict[str, object] = {"role": kind, "content": content}
            yield {
                "type": kind,
                "uuid": f"{number:08x}-{line:04x}",
                "sessionId": identity,
                "cwd": f"/work/project-{number % PROJECTS}",
                "timestamp": _stamp(number, line),
                "message": message | ({"id": f"msg_{number}_{line}"} if kind == "assistant" else {}),
            }
        yield {"type": "ai-title", "aiTitle": _prose(chosen, 6), "sessionId": identity}

    return path, records()


def _codex(person: Path, number: int, lines: int, chosen: random.Random) -> tuple[Path, Iterator[dict[str, object]]]:
    identity = f"{number:08x}-0000-4000-8000-000000000002"
    day = f"2026/{1 + number % 12:02}/{1 + number % 28:02}"
    path = person / ".codex" / "sessions" / day / f"rollout-{day.replace('/', '-')}T08-00-00-{identity}.jsonl"

    def records() -> Iterator[dict[str, object]]:
        meta = {"id": identity, "cwd": f"/work/project-{number % PROJECTS}"}
        yield {"timestamp": _stamp(number, 0), "type": "session_meta", "payload": meta}
        for line in range(1, lines):
            if line % 3 == 2:
                payload: dict[str, object] = {"type": "function_call_output", "output": _prose(chosen, 600)}
            else:
                role = "user" if line % 3 else "assistant"
                text = [{"type": "input_text", "text": _prose(chosen, 60)}]
                payload = {"type": "message", "role": role, "content": text}
            yield {"timestamp": _stamp(number, line), "type": "response_item", "payload": payload}

    return path, records()


def _stamp(number: int, line: int) -> str:
    return f"2026-{1 + number % 12:02}-{1 + number % 28:02}T08:{line // 60 % 60:02}:{line % 60:02}.000Z"


def _prose(chosen: random.Random, words: int) -> str:
    return " ".join(chosen.choices(WORDS, k=words))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _measure(person: Path) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "coffer.settings"
    import django

    django.setup()
    from coffer import db
    from transcripts.services import homes, listing

    db.prepare()
    chosen = [homes.of("claude_code"), homes.of("codex")]
    wanted = listing.Wanted(q="release gate", project="/work/project-7", sort="message_count", limit=100)
    began = time.process_time()
    found = listing.page(chosen, listing.Wanted())
    first = time.process_time() - began
    files = list(person.rglob("*.jsonl"))
    say(f"first listing of this process: {first:.2f} s, {found.total} sessions, {_megabytes():.0f} MB at most")
    if first > 1.0:
        began = time.process_time()
        for path in files:
            with path.open("rb") as lines:
                for line in lines:
                    json.loads(line)
        parsed = time.process_time() - began
        say(f"  json.loads over the same lines: {parsed:.2f} s; ratio {first / parsed:.2f} (bar 2)")
    walk = _best(lambda: _walk(person))
    warm = _best(lambda: listing.page(chosen, wanted))
    times = f"{warm * 1000:.1f} ms; bare walk {walk * 1000:.1f} ms"
    say(f"warm, searched, filtered, sorted: {times}; ratio {warm / walk:.2f} (bar 3)")
    with files[0].open("ab") as grown:
        grown.write(b"\n")
    began = time.process_time()
    listing.page(chosen, wanted)
    say(f"one file grew: {(time.process_time() - began) * 1000:.1f} ms")


def _walk(person: Path) -> int:
    count = 0
    for folder, _, names in os.walk(person):
        for name in names:
            os.stat(os.path.join(folder, name))
            count += 1
    return count


def _best(job: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        job()
        times.append(time.process_time() - began)
    return min(times)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the list of sessions.")
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
