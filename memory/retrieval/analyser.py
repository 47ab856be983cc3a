"""Text to the words that are indexed and asked for (FR-008, FR-032).

FTS5 cannot cut Chinese, Japanese or Korean into words and drops the joints of identifiers, so the text is cut here
and FTS5 only stems what it is given. The same cut serves documents and queries; only a query drops stop words.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from operator import add

from memory.files.words import CJK, STOP_WORDS

# A query is cut to this many distinct words: whoever pastes a log file still gets an answer at once.
MAX_QUERY_TERMS = 64
# A longer word is known by its beginning, in documents and queries alike, so that it still finds itself.
MAX_TERM_CHARS = 100

MAX_REMEMBERED = 32_768

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
    return " ".join(filter(None, map(_remembered.__getitem__, _WORD.findall(_plain(text, _document_run)))))


def query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct words that `text` asks for, stop words dropped unless there is nothing else."""
    terms: dict[str, None] = {}
    stops: dict[str, None] = {}
    for match in _WORD.finditer(_plain(text, _query_run)):
        for term in _remembered[match[0]].split():
            (stops if term in STOP_WORDS else terms)[term] = None
        if len(terms) >= MAX_QUERY_TERMS:
            break
    return tuple(terms or stops)[:MAX_QUERY_TERMS]


def cjk_runs(text: str) -> list[str]:
    """Return the stretches of Chinese, Japanese or Korean in `text`, in order."""
    return [] if text.isascii() else _CJK_RUN.findall(unicodedata.normalize("NFKC", text))


def bigrams(run: str) -> str:
    """Return the overlapping pairs of a CJK run, or the run itself when it is one character."""
    return " ".join(map(add, run, run[1:])) if len(run) > 1 else run


def is_cjk(term: str) -> bool:
    """Tell whether a term came from a CJK run."""
    return not term.isascii() and _CJK_RUN.match(term) is not None


def _plain(text: str, cut_run: Callable[[re.Match[str]], str]) -> str:
    """Return the text with its CJK runs cut, and one form of whatever Unicode can write in several."""
    if text.isascii():
        return text
    # NFKC makes one of full-width and half-width forms and of composed and decomposed accents.
    return _CJK_RUN.sub(cut_run, unicodedata.normalize("NFKC", text).replace("\u2019", "'"))


def _document_run(match: re.Match[str]) -> str:
    # The last character stands alone too: every character then begins some term, so a prefix finds each of them.
    run = match[0]
    return f" {bigrams(run)} {run[-1]} " if len(run) > 1 else f" {run} "


def _query_run(match: re.Match[str]) -> str:
    return f" {bigrams(match[0])} "


def _forms(word: str) -> str:
    """Return the forms of one word: itself, its core, and what its joints and capitals separate."""
    whole = word.rstrip("._-/:@'").lstrip("/:'+")
    if whole.isalnum() and (whole.islower() or whole[1:].islower() or whole.isupper() or not whole.isascii()):
        return whole[:MAX_TERM_CHARS].lower()
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


class _Remembered(dict[str, str]):
    """The forms of words: prose repeats its words, so most are cut once."""

    def __missing__(self, word: str) -> str:
        forms = _forms(word)
        if len(word) <= MAX_TERM_CHARS:
            if len(self) >= MAX_REMEMBERED:
                self.clear()
            self[word] = forms
        return forms


_remembered = _Remembered()
