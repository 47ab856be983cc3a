"""The topics of a store as one pass rewrites them: no line leaves one before another that the pass wrote holds it.

Whoever asks for a change, a model most of all, is not trusted: every check is made on the files as they are under the
store's write lock, and a refusal is an Invalid or Conflict that says what to do instead. What is replaced or retired is
archived; a pass that dies between two changes leaves at most a line in two topics.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from coffer.errors import Conflict, Invalid, MemoryNotFound
from memory.files import acceptance, lanes, markdown
from memory.models import Store
from memory.services import archive, changelog, inbox, topics, writes
from memory.services import stores as store_service
from memory.services.promotion import Evidence
from memory.services.topics import Listed, Topic

_HEADING = re.compile(r"#{1,6} [^\n]{1,100}")
_SHOWN = 5  # missing lines that a refusal repeats
_SHOWN_CHARS = 200


@dataclass(frozen=True)
class Written:
    """Where a topic stands, and whether its text is another than before."""

    path: str
    changed: bool


@dataclass
class Consolidation:
    """What a pass has seen and written so far; paths are within the store."""

    store: Store
    run: str
    behind: set[str] = field(default_factory=set)  # files that the index could not take
    seen: dict[str, str] = field(default_factory=dict)  # hash of the version that was read or written last
    texts: list[str] = field(default_factory=list)  # every version that was read or written
    written: dict[str, None] = field(default_factory=dict)  # topics that may hold the lines of others

    def listing(self) -> dict[str, Listed]:
        """The topics there are, by slug."""
        self.behind.update(store_service.refresh(self.store).behind)
        return {one.ref: one for one in topics.listing(self.store, self.behind)}

    def look(self, slug: str) -> Topic:
        """A topic as it is now. Raises MemoryNotFound, and Invalid for a file that could not be written again."""
        listed = self.listing().get(slug)
        if listed is None:
            raise MemoryNotFound(f"There is no topic {slug[:80]!r}; list_topics names those there are.")
        topic = topics.read(self.store, listed.path, listed.ref)
        if topic is None:
            raise Invalid(f"{slug} cannot be read as text, or is too large to be rewritten; leave it as it is.")
        return topic

    def saw(self, topic: Topic) -> None:
        """Note the version that was read or written last: only it may be replaced or retired."""
        self.seen[topic.path] = topic.sha256
        said = [topic.body, topic.title, markdown.text_of(topic.page, "description"), details(topic)]
        self.texts += [text for text in said if text and text not in self.texts]

    def write(self, slug: str, title: str, description: str, body: str, rests_on: Evidence | None = None) -> Written:
        """Make a topic, or replace the version that was read. Raises Invalid, Conflict.

        Every line of the version before stays, or stands in another topic that was written in this pass. What is new
        in the store may only be a heading, or rests on journal entries. Title and description are for topics that have
        none.
        """
        ref, path = self._place(slug)
        with store_service.write_lock(self.store) as folder:
            before = topics.read(self.store, path, ref)
            self._check_version(path, before)
            made = topics.created(title, description, body)
            data = made if before is None else topics.changed(before, body, title, description)
            after = Topic(ref, path, data, markdown.parse(data))
            self._check_added(after, title, description, rests_on)
            if before is None:
                archive.create(folder, path, data, run=self.run)
            elif before.body.strip() == after.body.strip():
                after = before
            else:
                self._check_kept(path, before, after)
                archive.replace(folder, path, expected_sha256=before.sha256, data=data, why="reorganized", run=self.run)
        sources = self._sources(path, before, after)
        self.saw(after)
        self.written[path] = None
        if after is not before:
            self._changed(path, _told(path, before is None, sources, rests_on))
        return Written(path, after is not before)

    def supersede(self, slug: str) -> list[str]:
        """Retire the version of a topic that was read; returns the topics that hold its lines. Raises as ``write``."""
        ref, path = self._place(slug)
        with store_service.write_lock(self.store) as folder:
            topic = topics.read(self.store, path, ref)
            self._check_version(path, topic)
            if topic is None:
                raise MemoryNotFound(f"There is no topic {slug[:80]!r}; list_topics names those there are.")
            holders = self._others(path)
            _check_held(topic, holders)
            archive.retire(folder, path, expected_sha256=topic.sha256, why="reorganized", run=self.run)
        self.written.pop(path, None)
        del self.seen[path]
        into = [one.path for one in holders if set(acceptance.units(one.body)) & set(acceptance.units(topic.body))]
        self._changed(path, f"superseded {path}: its lines stand in {', '.join(into) or 'no other, as it had none'}")
        return into

    def _place(self, slug: str) -> tuple[str, str]:
        """Slug and path of a topic that is there, or of one that could be made. Raises Invalid."""
        known = self.listing()
        chosen = slug if slug in known else lanes.chosen_slug(slug)
        if chosen is None:
            raise Invalid("The slug is no plain name; use two to four English words joined by hyphens.")
        return chosen, known[chosen].path if chosen in known else topics.free_path(self.store, chosen)

    def _check_version(self, path: str, current: Topic | None) -> None:
        seen = self.seen.get(path)
        if current is None and seen is not None:
            raise Conflict("Somebody deleted the topic since it was read; leave it deleted.")
        if current is not None and seen is None:
            raise Conflict("There is such a topic, and it was not read in this pass; read it first.")
        if current is not None and seen != current.sha256:
            raise Conflict("Somebody changed the topic since it was read; read it again.")

    def _check_kept(self, path: str, before: Topic, after: Topic) -> None:
        others = [one.body for one in self._others(path)]
        if missing := acceptance.missing_lines(before.body, after.body, *others):
            raise Invalid(
                f"{len(missing)} lines of the topic are missing; copy each as it is, or write them to another topic "
                f"first. {_sample(missing)}"
            )

    def _check_added(self, after: Topic, title: str, description: str, rests_on: Evidence | None) -> None:
        """Nothing that the pass has not read, but for headings; with evidence what its entries say, in few words."""
        entries = rests_on.texts if rests_on is not None else ()
        known = {unit for text in self.texts for unit in acceptance.units(text)}
        added = [unit for unit in acceptance.units(after.body) if unit not in known]
        strange = [unit for unit in added if not _HEADING.fullmatch(unit)]
        if strange and rests_on is None:
            raise Invalid(
                f"{len(strange)} lines stand in none of the topics that were read; leave them out, or name the journal "
                f"entries that they rest on. {_sample(strange)}"
            )
        size = sum(map(len, added)) + len(title) + len(description)
        if size > acceptance.ADDED_FACTOR * sum(map(len, entries)) + acceptance.ADDED_CHARS:
            raise Invalid("It adds far more than its sources say; shorten it.")
        if twice := acceptance.repeated(after.body, *self.texts, *entries):
            raise Invalid(f"{len(twice)} lines stand in it more often than where they come from. {_sample(twice)}")
        if foreign := acceptance.strangers(added, *self.texts, *entries):
            raise Invalid(f"{len(foreign)} lines say what no source does; leave them out. {_sample(foreign)}")
        if reason := acceptance.unfounded([*added, title, description], *self.texts, *entries):
            raise Invalid(f"It is not accepted: {reason}.")

    def _others(self, path: str) -> list[Topic]:
        """The topics written in this pass but for one, as they are on disk now."""
        found = (topics.read(self.store, one) for one in self.written if one != path)
        return [topic for topic in found if topic is not None]

    def _sources(self, path: str, before: Topic | None, after: Topic) -> list[str]:
        """Where the lines came from that a topic did not have before."""
        had = set(acceptance.units(before.body)) if before is not None else set()
        new = {unit for unit in acceptance.units(after.body) if unit not in had and not _HEADING.fullmatch(unit)}
        read = (topics.read(self.store, one) for one in self.seen if one != path)
        return [one.path for one in read if one is not None and new & set(acceptance.units(one.body))]

    def _changed(self, path: str, told: str) -> None:
        self.behind.update([] if writes.index(self.store, [path]) else [path])
        changelog.append(self.store, told)


def details(topic: Topic) -> str:
    """What the frontmatter of a topic says beyond its text, one thing a line."""
    return inbox.details(topic.page, topic.body)


def _check_held(topic: Topic, holders: Sequence[Topic]) -> None:
    """Every line of a topic in the others, and every word of its title, description and foreign keys."""
    if topic.page.raw_block is not None:
        raise Invalid("Its frontmatter is broken, and a person must mend it first; leave the topic as it is.")
    missing = acceptance.missing_lines(topic.body, *(one.body for one in holders))
    said = "\n".join(f"{one.title}\n{details(one)}\n{one.body}" for one in holders)
    held = " ".join(said.split())
    told = (line for line in details(topic).split("\n") if line not in held)
    missing += [line for line in told if acceptance.missing_terms(line, "", said)]
    if missing:
        raise Invalid(
            f"{len(missing)} lines of the topic stand in no other that was written in this pass; write them there "
            f"first, as they are. {_sample(missing)}"
        )


def _sample(lines: Sequence[str]) -> str:
    shown = " | ".join(line[:_SHOWN_CHARS] for line in lines[:_SHOWN])
    return f"They begin: {shown}" if len(lines) > _SHOWN else f"They are: {shown}"


def _told(path: str, made: bool, sources: Sequence[str], rests_on: Evidence | None) -> str:
    """The changelog's line: what was done, and where it came from."""
    told = f"{'created' if made else 'rewrote'} {path}"
    if sources:
        told += f" with lines of {', '.join(sources)}"
    if rests_on is not None:
        told += f", promoted from the journal: {', '.join(rests_on.markers)}"
    return told
