"""Text to the words that are indexed and asked for (FR-008, FR-032).

FTS5 cannot cut Chinese, Japanese or Korean into words and drops the joints of identifiers, so the text is cut here
and FTS5 only stems what it is given. The same cut serves documents and queries; only a query drops stop words.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

from memory.files.words import CJK, STOP_WORDS

# A query is cut to this many distinct words: whoever pastes a log file still gets an answer at once.
MAX_QUERY_TERMS = 64
# A longer word is known by its beginning, in documents and queries alike, so that it still finds itself.
MAX_TERM_CHARS = 100

# These stay inside a word when they join letters: `src/api.ts`, `std::vector`, `PROJ-123`, `c++`, `don't`.
JOINTS = "._-/:@#+'"

_CJK_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(r"[\w./:@#+'\-]+")
_VERSION = re.compile(
    r"v?(\d+\.\d+)(?:\.\d+)*(?:[-+.]?(?:a|b|rc|alpha|beta|dev|post)\.?\d*)?", re.ASCII | re.IGNORECASE
)
_SEGMENT_END = re.compile(r"[/:@]+")
_PART_END = re.compile(r"[._\-+#'/:@]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def index_text(text: str) -> str:
    """Return the space-separated words under which `text` is to be found."""
    return " ".join(_words(text, _document_run))


def query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct words that `text` asks for, stop words dropped unless there is nothing else."""
    terms: dict[str, None] = {}
    stops: dict[str, None] = {}
    for group in _words(text, _query_run):
        for term in group.split():
            (stops if term in STOP_WORDS else terms)[term] = None
        if len(terms) >= MAX_QUERY_TERMS:
            break
    return tuple(terms or stops)[:MAX_QUERY_TERMS]


def cjk_runs(text: str) -> list[str]:
    """Return the stretches of Chinese, Japanese or Korean in `text`, in order."""
    return [] if text.isascii() else _CJK_RUN.findall(unicodedata.normalize("NFKC", text))


def bigrams(run: str) -> str:
    """Return the overlapping pairs of a CJK run, or the run itself when it is one character."""
    return " ".join(map("".join, pairwise(run))) if len(run) > 1 else run


def is_cjk(term: str) -> bool:
    """Tell whether a term came from a CJK run."""
    return not term.isascii() and _CJK_RUN.match(term) is not None


def _words(text: str, cut_run: Callable[[re.Match[str]], str]) -> Iterator[str]:
    """Yield, word by word, the space-separated forms of each."""
    if not text.isascii():
        # NFKC makes one of full-width and half-width forms and of composed and decomposed accents.
        text = _CJK_RUN.sub(cut_run, unicodedata.normalize("NFKC", text).replace("\u2019", "'"))
    for match in _WORD.finditer(text):
        word = match[0]
        forms = _remembered_forms(word) if len(word) <= MAX_TERM_CHARS else _forms(word)
        if forms:
            yield forms


def _document_run(match: re.Match[str]) -> str:
    # The last character stands alone too: every character then begins some term, so a prefix finds each of them.
    run = match[0]
    return f" {bigrams(run)} {run[-1]} " if len(run) > 1 else f" {run} "


def _query_run(match: re.Match[str]) -> str:
    return f" {bigrams(match[0])} "


def _forms(word: str) -> str:
    """Return the forms of one word: itself, its core, and what its joints and capitals separate."""
    if word.isalnum() and (word.islower() or word[1:].islower() or word.isupper() or not word.isascii()):
        return word[:MAX_TERM_CHARS].lower()
    whole = word.rstrip("._-/:@'").lstrip("/:'+")
    core = whole.lstrip(JOINTS)
    if not core or not any(map(str.isalnum, core[:MAX_TERM_CHARS])):
        return ""
    # `--force`, `.env` and `#432` are names of their own; a row of dots or dashes before a word is not.
    forms = {core if len(whole) - len(core) > 2 else whole: None, core: None}
    segments = _SEGMENT_END.split(core)
    forms.update(dict.fromkeys(segments))
    for segment in segments:
        forms.update(dict.fromkeys(_parts(segment)))
    return " ".join(form[:MAX_TERM_CHARS].lower() for form in forms if len(form) > 1 or form == core)


def _parts(segment: str) -> Iterator[str]:
    version = _VERSION.fullmatch(segment)
    if version:
        yield segment.lstrip("vV")
        yield version[1]
        return
    for part in _PART_END.split(segment):
        yield part
        if part.isascii() and not (part.islower() or part[1:].islower() or part.isupper()):
            yield from _CAMEL.findall(part)


# Prose repeats its words: most are cut once. Bounded in number here and in length by the caller.
_remembered_forms = lru_cache(maxsize=32_768)(_forms)
