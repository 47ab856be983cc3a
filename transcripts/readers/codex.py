"""Codex: one rollout a thread in ``sessions/`` and ``archived_sessions/``, plain or zstd, all generations since 0.20.

Turns are messages with the roles user and assistant; the parallel events of the screen are never counted. What Codex
adds under the user's name is told apart by the kinds that newer versions write beside each item, in older ones by how
it begins. A summary made by compaction is known only by what comes after it: it is counted, and taken back.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from transcripts.readers import files, lines, values
from transcripts.readers.base import Session, Source, Turn
from transcripts.readers.jsonl import JsonlReader, Summary, readable

_UUID_AT_END = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)
_CWD = re.compile(r"<cwd>([^<]*)</cwd>")
_IMPORT = "external-import-turn-"
_TEXTS = ("input_text", "output_text", "text")
_WRAPPERS = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions", "<turn_aborted>",
    "<user_shell_command>", "<skill>", "<subagent_notification>", "<INSTRUCTIONS>", "<collaboration_mode>",
    "<skills_instructions>", "<user_action>", "<apps_instructions>",
)  # fmt: skip


@dataclass
class _Summary(Summary):
    thread: bool = False
    imported: int = 0
    turn: str = ""
    """The turn under way, as Codex counts them: a prompt and all that follows; empty in versions without ids."""
    answers: int = 0
    compacted: bool = False
    answer: str = ""

    @classmethod
    def of(cls, path: Path) -> Self:
        found = _UUID_AT_END.search(_stem(path.name))
        return cls(session_id=found[0] if found else _stem(path.name))

    def feed(self, record: dict[str, Any]) -> Turn | None:
        at = self.stamp(record.get("timestamp"))
        kind, payload = record.get("type"), values.mapping(record.get("payload"))
        if kind == "response_item" and payload.get("type") == "message":
            return self._message(payload, values.mapping(record.get("metadata")), at)
        if kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._summarised(values.text(payload.get("message")))
        elif kind == "session_meta":
            self._meta(payload)
        elif kind == "message":  # before 0.34 nothing had an envelope
            return self._message(record, {}, at)
        elif kind is None and "id" in record and "role" not in record:
            self._meta(record)
        return None

    def session(self, agent: str, source: Source, unread: int = 0, notes: Iterable[str] = ()) -> Session:
        if self.imported:
            notes = (*notes, f"{self.imported} messages were imported from another agent, whose own sessions have them")
        return super().session(agent, source, unread, notes)

    def _meta(self, meta: dict[str, Any]) -> None:
        """Who the thread is: the first says it, a fork copies its parent's behind it."""
        if self.thread:
            return
        self.thread = True
        self.session_id = values.text(meta.get("id")) or self.session_id
        self.place(meta.get("cwd"))
        source = values.mapping(meta.get("source")).get("subagent")
        spawn = values.mapping(values.mapping(source).get("thread_spawn"))
        self.subagent = source is not None or meta.get("thread_source") == "subagent"
        self.parent = values.text(spawn.get("parent_thread_id") or meta.get("forked_from_id")) or None

    def _message(self, message: dict[str, Any], metadata: dict[str, Any], at: datetime | None) -> Turn | None:
        passed = values.mapping(message.get("internal_chat_message_metadata_passthrough"))
        self._enter(values.text(passed.get("turn_id")) or self.turn)
        role, content = message.get("role"), values.items(message.get("content"))
        if role == "user":
            said = self._typed(content, passed.get("content_item_kinds"))
        elif role == "assistant" and not metadata.get("compaction_output"):
            said = _joined(map(_text, content))
        else:
            self.compacted |= role == "assistant"
            return None
        if not said:
            return None
        if role == "assistant":
            self.answers += 1
            self.answer = _tail_hash(said, len(said))
        turn = self.count(Turn(role, said, at))
        if self.turn.startswith(_IMPORT):
            self.imported += 1
            return None
        return turn

    def _typed(self, content: list[dict[str, Any]], kinds: Any) -> str:
        """What a person typed; an environment that Codex describes may name the working directory."""
        if isinstance(kinds, list):
            typed = [str(kind).startswith("user.") for kind in kinds]
            if not any(typed):
                return ""
            if len(typed) == len(content):
                return _joined(_text(item) for item, own in zip(content, typed, strict=True) if own) or values.IMAGE
        texts = [_text(item) for item in content]
        for text in texts:
            if text.startswith("<environment_context>") and (found := _CWD.search(text)):
                self.place(found[1].strip())
        return _joined(text for text in texts if not text.startswith(_WRAPPERS))

    def _event(self, event: dict[str, Any]) -> None:
        turn, item = values.text(event.get("turn_id")), values.mapping(event.get("item")).get("type")
        if event.get("type") == "task_started":
            self._enter(turn)
        elif item == "ContextCompaction" and turn == self.turn and not self.compacted:
            self._take_back(self.answers)

    def _summarised(self, message: str) -> None:
        """A compaction: its message ends with the summary, which the agent wrote as its last answer."""
        length = int(self.answer.partition(":")[0] or 0)
        if self.answers and _tail_hash(message.rstrip(), length) == self.answer:
            self._take_back(1)

    def _take_back(self, count: int) -> None:
        self.messages -= count
        self.answers, self.answer, self.compacted = 0, "", True

    def _enter(self, turn: str) -> None:
        if turn != self.turn or not turn:
            self.turn, self.answers, self.answer, self.compacted = turn, 0, "", False


class Codex(JsonlReader):
    """Threads. What a fork inherits by pointer stays with its parent; older forks hold a copy, with equal digests."""

    agent = "codex"
    summary = _Summary

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        root = _root(home, env)
        found: dict[str, Source] = {}
        for name in ("sessions", "archived_sessions"):
            for source in files.walk(root / name, 3, (".jsonl", ".jsonl.zst")):
                if source.problem:
                    yield source
                    continue
                twin = found.get(_stem(source.name))
                if twin is None or (twin.name.endswith(".zst") and not source.name.endswith(".zst")):
                    found[_stem(source.name)] = source
        yield from found.values()

    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        held: list[Turn] = []  # of the turn under way: a compaction may take answers back
        under_way, summary = "", _Summary.of(source.path)
        with readable(source):
            for record in lines.records(source.path):
                before = summary.messages
                turn = summary.feed(record)
                if summary.messages < before:
                    held = _without_answers(held, before - summary.messages)
                elif turn:
                    if summary.turn != under_way or not under_way:
                        yield from held
                        held, under_way = [], summary.turn
                    held.append(turn)
        yield from held

    def names_file(self, home: Path, env: Mapping[str, str]) -> Path:
        return _root(home, env) / "session_index.jsonl"

    def names(self, home: Path, env: Mapping[str, str]) -> dict[str, str]:
        """The threads' names: Codex makes them, people change them, and only this file has them."""
        found: dict[str, str] = {}
        with suppress(OSError):  # no thread has a name yet
            for record in lines.records(self.names_file(home, env)):
                thread, name = values.text(record.get("id")), values.one_line(record.get("thread_name"))
                if thread and name:
                    found[thread] = name
        return found


def _root(home: Path, env: Mapping[str, str]) -> Path:
    return Path(env.get("CODEX_HOME") or home / ".codex")


def _stem(name: str) -> str:
    return name.removesuffix(".zst").removesuffix(".jsonl")


def _without_answers(turns: list[Turn], count: int) -> list[Turn]:
    """The turns without the last answers among them."""
    answers = [index for index, turn in enumerate(turns) if turn.role == "assistant"][-count:]
    return [turn for index, turn in enumerate(turns) if index not in answers]


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))


def _text(item: dict[str, Any]) -> str:
    return values.text(item.get("text")).strip() if item.get("type") in _TEXTS else ""


def _tail_hash(text: str, length: int) -> str:
    """Length and hash of a text's end."""
    end = text[-length:] if length else ""
    return f"{length}:{hashlib.blake2b(end.encode(), digest_size=8).hexdigest()}"
