"""The six tools that a reorganizing model has, and nothing else: each carries words to a service that checks them.

What a tool refuses it says in a sentence to the model, which may try again; a disk that takes no more ends the loop.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coffer import llm
from coffer.errors import Busy, Cancelled, CofferError, Conflict, Invalid, MemoryNotFound, StorageFailed, StoreNotFound
from coffer.llm import Tool
from memory.files import lanes, markdown
from memory.services import archive, archive_lines, changelog, consolidation, promotion, rules
from memory.services import stores as store_service
from memory.services.consolidation import Consolidation

Progress = Callable[[int, int, str], None]  # topics read, topics in all, and the title of the one at hand
LISTED, ENTRIES = 200, 50  # shown at once
TOPIC_TOKENS, ALL_TOKENS = 15_000, 60_000  # of one topic, and of all that a pass shows: each step repeats it
_ENTRY_CHARS = 2_000
_MAX_TITLE, _MAX_DESCRIPTION = 100, 300

_TEXT = {"type": "string"}
_SKIP = {"type": "integer", "description": "how many to pass over, for what follows the first ones"}
_MARKERS = {
    "type": "array",
    "items": _TEXT,
    "description": "markers of the journal entries that it rests on, as read_journal shows them",
}
_WRITE = (
    "Make a topic, or replace one that you have read by its next version: the whole document. Every line of the old "
    "one stays as it is, or stands in another topic that you wrote before. A line that no topic holds needs journal "
    "entries that it rests on; a heading needs none."
)


@dataclass
class Toolbox:
    """The tools of one pass, and what they counted."""

    work: Consolidation
    actor: str
    total: int  # topics
    progress: Progress | None = None
    counts: Counter[str] = field(default_factory=Counter)  # written, superseded, promoted, refused
    skipped: set[str] = field(default_factory=set)  # topics that no model can be shown
    shown: int = 0  # tokens
    failure: CofferError | None = None  # what ended the pass and was not the model's fault

    def tools(self) -> list[Tool]:
        """The whole surface (FR-033, FR-047)."""
        about = {"title": _TEXT, "description": _TEXT}  # of a topic that has none
        write = {"slug": _TEXT, **about, "markdown": _TEXT, "entries": _MARKERS}
        made = [
            _tool("list_topics", "List the topics by title.", self._list, {"skip": _SKIP}),
            _tool("read_topic", "Read one topic, whole.", self._read, {"slug": _TEXT}, ["slug"]),
            _tool("write_topic", _WRITE, self._write, write, ["slug", "markdown"]),
            _tool(
                "supersede_topic",
                "Retire a topic that you have read, once each of its lines stands in topics that you wrote.",
                self._supersede,
                {"slug": _TEXT},
                ["slug"],
            ),
            _tool("read_journal", "Read journal entries, newest first.", self._journal, {"skip": _SKIP}),
            _tool(
                "append_rule",
                "Add a rule for all agents: one sentence, in the words of the journal entries that it rests on.",
                self._rule,
                {"text": _TEXT, "entries": _MARKERS},
                ["text", "entries"],
            ),
        ]
        return [self._guarded(tool) for tool in made]

    def _list(self, given: dict[str, Any]) -> str:
        folder = store_service.folder(self.work.store)
        rows = []
        for one in self.work.listing().values():
            stat = lanes.stat(folder, one.path)
            row = {"slug": one.ref, "title": one.title, "description": one.description}
            rows.append(json.dumps({**row, "bytes": stat.size if stat else 0}, ensure_ascii=False))
        return self._page(rows, given, LISTED, "topics")

    def _read(self, given: dict[str, Any]) -> str:
        slug = given["slug"].strip()
        try:
            topic = self.work.look(slug)
            size = llm.estimate(topic.body)
            if size > TOPIC_TOKENS:
                raise Invalid(f"The topic is too long to be shown ({size:,} tokens); leave it as it is.")
        except Invalid:
            self.skipped.add(slug[:255])
            raise
        if self.shown + size > ALL_TOKENS:
            raise Invalid("As much was shown as one pass may see; finish what was begun. The next pass goes on.")
        self.work.saw(topic)
        if self.progress is not None:
            self.progress(min(len(self.work.seen), self.total) - 1, self.total, topic.title)
        details = consolidation.details(topic)
        parts = [f"Its frontmatter says:\n{details}" if details else "", topic.body or "(It has no text.)"]
        return self._say("\n\n".join(part for part in parts if part))

    def _write(self, given: dict[str, Any]) -> str:
        body = markdown.parse(markdown.clean(given["markdown"]).encode()).body.strip("\n").rstrip()
        if not body:
            raise Invalid("The markdown is empty; supersede_topic retires a topic.")
        self._say(body)
        markers = _markers(given)
        found = promotion.evidence(self.work.store, markers, body) if markers else None
        title = _one_line(given.get("title", ""), _MAX_TITLE)
        description = _one_line(given.get("description", ""), _MAX_DESCRIPTION)
        done = self.work.write(given["slug"].strip(), title, description, body, found)
        if not done.changed:
            return f"{done.path} has this text already; it counts as written."
        self.counts["written"] += 1
        self.counts["promoted"] += found is not None
        return f"Written to {done.path}."

    def _supersede(self, given: dict[str, Any]) -> str:
        into = self.work.supersede(given["slug"].strip())
        self.counts["superseded"] += 1
        return f"Retired; its lines stand in {', '.join(into)}." if into else "Retired; it had no lines."

    def _journal(self, given: dict[str, Any]) -> str:
        rows = []
        for marker, entry in promotion.entries(self.work.store).items():
            more = f" (cut: {len(entry.text):,} characters)" if len(entry.text) > _ENTRY_CHARS else ""
            rows.append(f"<!-- {marker} -->{more}\n{entry.text[:_ENTRY_CHARS]}\n")
        return self._page(rows, given, ENTRIES, "entries")

    def _rule(self, given: dict[str, Any]) -> str:
        store, text = self.work.store, given["text"]
        found = promotion.evidence(store, _markers(given), text)
        words = promotion.rule(text, found)
        if not self._appended(words, found.origin):
            return "There is an equal rule already; nothing was added."
        self.counts["promoted"] += 1
        changelog.append(store, f"promoted to a rule from the journal: {', '.join(found.markers)}")
        return "The rule was added."

    def _appended(self, words: str, origin: str) -> bool:
        """Add a rule; the archive's index tells of it first, so that it is found when the pass is undone."""
        store = self.work.store
        with store_service.write_lock(store) as folder:
            noted = archive.announce(folder, rules.FILE, words.encode(), "promoted by a pass", self.work.run)
        if rules.append(store, words, origin=origin, new=True, actor=self.actor):
            return True
        with store_service.write_lock(store) as folder:
            archive_lines.close(folder, noted, "undone")
        return False

    def _page(self, rows: Sequence[str], given: dict[str, Any], most: int, what: str) -> str:
        """Some of the rows, and how to see the others."""
        skip = max(given.get("skip", 0), 0)
        shown = rows[skip : skip + most]
        size = llm.estimate(*shown)
        if self.shown + size > ALL_TOKENS:
            raise Invalid("As much was shown as one pass may see; finish what was begun.")
        left = len(rows) - skip - len(shown)
        tail = f"{left} more {what}: skip={skip + len(shown)}" if left > 0 else f"No more {what}; {len(rows)} in all."
        return self._say("\n".join([*shown, tail]))

    def _say(self, text: str) -> str:
        self.shown += llm.estimate(text)
        return text

    def _guarded(self, tool: Tool) -> Tool:
        """The tool with its refusals counted; what no model can mend ends the loop."""

        def call(given: dict[str, Any]) -> str:
            try:
                return tool.call(given)
            except (StorageFailed, StoreNotFound) as error:
                self.failure = error
                raise Cancelled(error.message) from error
            except (Invalid, Conflict, Busy, MemoryNotFound):
                self.counts["refused"] += 1
                raise

        return Tool(tool.name, tool.description, tool.parameters, call)


def _tool(
    name: str,
    description: str,
    call: Callable[[dict[str, Any]], str],
    properties: dict[str, Any],
    required: Sequence[str] = (),
) -> Tool:
    return Tool(name, description, {"type": "object", "properties": properties, "required": list(required)}, call)


def _markers(given: dict[str, Any]) -> list[str]:
    found = given.get("entries", [])
    if not all(isinstance(one, str) for one in found):
        raise Invalid("entries is a list of markers, each a text.")
    return [one.strip() for one in found if one.strip()]


def _one_line(text: str, most: int) -> str:
    return markdown.one_line(text)[:most]
