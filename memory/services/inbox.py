"""The notes that wait to be organized: what each says, who wrote it, and which of them the engine has given up on."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from coffer import fs
from memory import retrieval
from memory.files import lanes, markdown
from memory.files.lanes import Kind
from memory.models import Document, Failure, Store
from memory.services import archive, trail
from memory.services import stores as store_service

GIVEN_UP = 3  # failures after which a note is left alone until it, or the model, changes
MAX_BYTES = 64 * 1024  # what one prompt holds beside three topics
_SETTLED = timedelta(seconds=15)  # between the stamp in a fresh note and the time of its file
_OURS = frozenset({"id", "title", "description", "metadata", "created_at", "updated_at"})


class Unfit(Exception):
    """A note that no prompt can hold or no merge can keep; the message says why, without its content."""


@dataclass(frozen=True)
class Note:
    """One file of the inbox: ``text`` is what a topic must hold of it, ``details`` what its frontmatter adds."""

    id: str
    path: str
    sha256: str
    title: str
    text: str
    details: str
    by_person: bool


def waiting(store: Store) -> list[str]:
    """The files of the inbox, oldest first."""
    found = lanes.inbox(store_service.folder(store))
    return sorted(found, key=lambda path: (found[path].mtime_ns, path))


def read(store: Store, path: str) -> Note:
    """One note as it is on disk. Raises Unfit, FileNotFoundError when it has gone."""
    place = archive.inside(store_service.folder(store), path)
    stat = place.lstat()
    if stat.st_size > MAX_BYTES:
        raise Unfit(f"it is larger than {MAX_BYTES // 1024} KiB; split it")
    data = fs.read(place)
    if not markdown.is_text(data):
        raise Unfit("it is not valid UTF-8; save it anew as such")
    page = markdown.parse(data)
    body = "\n".join(part for part in (page.raw_block or "", page.body) if part.strip()).strip("\n").rstrip()
    text = body or markdown.text_of(page, "title")
    if not text:
        raise Unfit("it is empty; delete it")
    return Note(
        id=ref_of(store, path),
        path=path,
        sha256=archive.sha256(data),
        title=markdown.title_of(page, markdown.first_sentence(text)),
        text=text,
        details=details(page, text),
        by_person=_by_person(page, stat.st_mtime),
    )


def given_up(store: Store, model: str) -> dict[str, Failure]:
    """The notes that failed too often as they are now, with this model; by path."""
    failures = Failure.objects.filter(store=store.name, model__in=("", model), count__gte=GIVEN_UP)
    rows = {row.ref: row for row in failures}
    found = Document.objects.filter(store_id=store.pk or 0, kind=Kind.FACT, ref__in=rows)
    known = found.values_list("path", "ref", "sha256")
    return {path: rows[ref] for path, ref, sha256 in known if rows[ref].sha256 == sha256}


def count_given_up() -> int:
    """How many notes of all stores failed too often, as they are now, whatever the model."""
    same = Document.objects.filter(kind=Kind.FACT, store__name=OuterRef("store"), ref=OuterRef("ref"))
    return Failure.objects.filter(Exists(same.filter(sha256=OuterRef("sha256"))), count__gte=GIVEN_UP).count()


def failed(store: Store, path: str, model: str, reason: str) -> None:
    """Count one more failure of a note; another version of it, or another model, begins anew."""
    ref = ref_of(store, path)[:255]
    this = {"sha256": hash_of(store, path), "model": model}
    told = {"reason": reason[:300], "at": timezone.now()}

    def write() -> None:
        same = Failure.objects.filter(store=store.name, ref=ref, **this)
        if not same.update(count=F("count") + 1, **told):
            Failure.objects.update_or_create(store=store.name, ref=ref, defaults={**this, **told, "count": 1})

    trail.write(write)


def leave_alone(store: Store, path: str, reason: str) -> None:
    """Have passes pass over a note until it changes, whatever the model."""
    told = {"sha256": hash_of(store, path), "model": "", "count": GIVEN_UP, "reason": reason, "at": timezone.now()}
    ref = ref_of(store, path)[:255]
    trail.write(lambda: Failure.objects.update_or_create(store=store.name, ref=ref, defaults=told))


def once_failed(store: Store) -> set[str]:
    """The ids of notes that failed before, however often."""
    return set(Failure.objects.filter(store=store.name).values_list("ref", flat=True))


def settled(store: Store, ref: str) -> None:
    """Forget the failures of a note that is organized."""
    trail.write(lambda: Failure.objects.filter(store=store.name, ref=ref[:255]).delete())


def ref_of(store: Store, path: str) -> str:
    """The id that callers know a file by, also one that cannot be read."""
    return retrieval.ref_of(store, path) or Path(path).stem


def hash_of(store: Store, path: str) -> str:
    """The hash of a file's bytes; empty when it cannot be read."""
    try:
        return archive.sha256(fs.read(store_service.folder(store) / path))
    except OSError:
        return ""


def details(page: markdown.Page, text: str) -> str:
    """Title, description and foreign keys that say more than the text does, one a line."""
    held = " ".join(text.split())
    title, description = markdown.text_of(page, "title"), markdown.text_of(page, "description")
    if title == markdown.first_sentence(page.body):
        title = ""
    more = [f"{key}: {_words(value)}" for key, value in page.meta.items() if key not in _OURS]
    lines = [" ".join(line.split()) for line in (title, description, *more)]
    return "\n".join(line for line in lines if line and line not in held)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    return ", ".join(_words(item) for item in value) if isinstance(value, list) else str(value)


def _by_person(page: markdown.Page, modified: float) -> bool:
    """Whether a person wrote any of it: a file touched after its own stamps may have been corrected by hand."""
    about = page.meta.get("metadata")
    if not isinstance(about, dict) or about.get("actor") != "agent":
        return True
    created, updated = (markdown.timestamp(markdown.text_of(page, key)) for key in ("created_at", "updated_at"))
    if created is None or created != updated:
        return True
    return modified > (created + _SETTLED).timestamp()
