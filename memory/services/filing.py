"""One note of the inbox into a topic or a rule: ask, decide, write, and only then let it leave."""

from collections.abc import Collection, Sequence

from django.utils import timezone

from coffer import llm
from coffer.errors import Conflict
from memory.models import Store
from memory.services import archive, changelog, inbox, merging, rules, topics, writes
from memory.services import stores as store_service
from memory.services.inbox import Note
from memory.services.merging import Choice
from memory.services.tally import Tally
from memory.services.topics import Candidate

PURPOSE = "organize"
RETRIES = 3


def file(tally: Tally, note: Note) -> None:
    """Organize one note (FR-028, FR-029). Raises EngineError, Conflict or StorageFailed; the note then stays."""
    if _is_rule_already(tally.store, note):
        _drain(tally, note, "made a rule before", rules.FILE)
        return
    shown = candidates(tally.store, note, tally.behind)
    answer = llm.complete_json(
        PURPOSE,
        system=merging.SYSTEM,
        user=merging.question(note, shown),
        required=merging.FIELDS,
        store=tally.store.name,
    )
    chosen = merging.choice(answer.data)
    text = merging.rule(note, chosen) if chosen.is_rule else ""
    if text:
        _make_rule(tally, note, text)
    else:
        _merge(tally, note, chosen, shown)


def candidates(store: Store, note: Note, behind: Collection[str]) -> list[Candidate]:
    """The topics that a note may belong to, as the index knows them and as they are now."""
    return topics.candidates(store, f"{note.title}\n{note.text}", behind)


def _make_rule(tally: Tally, note: Note, text: str) -> None:
    """The rule first, then the note: what a kill leaves of that is found by the rule's origin."""
    if inbox.hash_of(tally.store, note.path) != note.sha256:
        raise Conflict(f"{note.path} changed since it was read.")
    if rules.append(tally.store, text, origin=note.id, new=True):
        tally.counts["rules_appended"] += 1
    _drain(tally, note, "made a rule", rules.FILE)


def _is_rule_already(store: Store, note: Note) -> bool:
    """Whether a pass that was killed made a rule of this note: of its words too, as an id can be claimed twice."""
    made = (rule.text for rule in rules.listing(store) if rule.origin == note.id)
    return any(not merging.refusal(note, "", text) for text in made)


def _merge(tally: Tally, note: Note, chosen: Choice, shown: Sequence[Candidate]) -> None:
    """Write the topic's next version, made from the file as it is at that moment."""
    slug, candidate = merging.place(chosen, shown)
    path = candidate.topic.path if candidate is not None else topics.free_path(tally.store, slug)
    for attempt in range(RETRIES):
        try:
            _merge_once(tally, note, chosen, path, candidate)
            return
        except Conflict:
            if attempt == RETRIES - 1:
                raise


def _merge_once(tally: Tally, note: Note, chosen: Choice, path: str, candidate: Candidate | None) -> None:
    current = topics.read(tally.store, path)
    merge = merging.merged(note, chosen, candidate, current, timezone.now().date())
    if current is not None and merge.body.strip() == current.body.strip():
        _drain(tally, note, f"known to {path}", path)
        tally.counts["topics_merged"] += 1
        return
    titles = (chosen.title, chosen.description)
    if current is not None:
        _fold(tally, note, path, current.sha256, topics.changed(current, merge.body, *titles))
    else:
        _fold(tally, note, path, None, topics.created(*titles, merge.body))
        tally.counts["topics_created"] += 1
    if merge.refused:
        tally.counts["appended"] += 1
        changelog.append(tally.store, f"appended note {note.id} to {path} as it is: {merge.refused}")
    elif current is not None:
        tally.counts["topics_merged"] += 1
        changelog.append(tally.store, f"merged note {note.id} into {path}")
    else:
        changelog.append(tally.store, f"created {path} from note {note.id}")


def _fold(tally: Tally, note: Note, path: str, before: str | None, data: bytes) -> None:
    with store_service.write_lock(tally.store) as folder:
        gone = archive.fold(
            folder,
            note.path,
            path,
            note_sha256=note.sha256,
            into_sha256=before,
            data=data,
            why=f"merged into {path}",
            run=tally.row.run,
        )
    tally.topics += 1
    _settled(tally, note, [note.path, path], gone=gone)


def _drain(tally: Tally, note: Note, why: str, into: str) -> None:
    """Archive a note that another file holds already."""
    with store_service.write_lock(tally.store) as folder:
        gone = archive.drain(folder, note.path, note_sha256=note.sha256, why=why, into=into, run=tally.row.run)
    _settled(tally, note, [note.path], gone=gone)
    changelog.append(tally.store, f"{why}: note {note.id}")


def _settled(tally: Tally, note: Note, files: list[str], *, gone: bool) -> None:
    tally.behind.update([] if writes.index(tally.store, files) else files)
    tally.counts["drained"] += gone
    if note.id[:255] in tally.once_failed:
        inbox.settled(tally.store, note.id)
