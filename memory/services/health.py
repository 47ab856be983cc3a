"""What memory has to say about its own health: for status, doctor and the pages' banner."""

from collections.abc import Iterator

from coffer import paths
from coffer.registry import Finding
from memory import retrieval
from memory.models import Document
from memory.services import stores


def findings() -> Iterator[Finding]:
    """The index, and the files that need a person's look."""
    count = len(stores.names_on_disk())
    yield Finding("ok", "memory", f"{count} store{'s' if count != 1 else ''} in {paths.memory()}")
    if not retrieval.check():
        yield Finding("error", "index", "The search index is damaged; run `coffer memory reindex`.")
    else:
        yield Finding("ok", "index", f"{Document.objects.count()} files indexed")
    problems = Document.objects.exclude(problem="").count()
    if problems:
        yield Finding("warning", "files", f"{problems} files need a look; `coffer memory reindex` names them.")
