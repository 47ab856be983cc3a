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
        yield Finding("ok", "index", f"{_files(Document.objects.count())} indexed")
    problems = Document.objects.exclude(problem="").count()
    if problems:
        need = "needs" if problems == 1 else "need"
        yield Finding("warning", "files", f"{_files(problems)} {need} a look; `coffer memory reindex` names them.")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
