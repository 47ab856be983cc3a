"""Text to the words that are indexed and asked for (FR-008, FR-032).

FTS5 cannot cut Chinese, Japanese or Korean into words and drops the joints of identifiers, so the text is cut here
and FTS5 only stems what it is given. The same cut serves documents and queries; only a query drops stop words.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

# A query is cut to this many distinct words: whoever pastes a log file still gets an answer at once.
MAX_QUERY_TERMS = 64
# A longer word is known by its beginning, in documents and queries alike, so that it still finds itself.
MAX_TERM_CHARS = 100

# These stay inside a word when they join letters: `src/api.ts`, `std::vector`, `PROJ-123`, `c++`, `don't`.
JOINTS = "._-/:@#+'"

_CJK = (
    "\u1100-\u11ff\u3005\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(r"[\w./:@#+'\-]+")
_VERSION = re.compile(
    r"v?(\d+\.\d+)(?:\.\d+)*(?:[-+.]?(?:a|b|rc|alpha|beta|dev|post)\.?\d*)?", re.ASCII | re.IGNORECASE
)
_SEGMENT_END = re.compile(r"[/:@]+")
_PART_END = re.compile(r"[._\-+#'/:@]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")

_ENGLISH_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being below between
both but by can could did do does doing don don't down during each few for from further had has have having he
her here hers herself him himself his how i i'm if in into is isn't it it's its itself just let me more most my
myself no nor not now of off on once only or other our ours ourselves out over own please same shall she should
so some such than that that's the their theirs them themselves then there these they this those through to too
under until up us very was we were what what's when where which while who whom why will with would you your yours
yourself yourselves
"""
_CHINESE_STOP_WORDS = """
的 了 是 在 和 与 或 吗 呢 吧 啊 也 都 就 把 被 让 给 对 从 到 我 你 他 她 它 这 那 哪 谁 请
什么 怎么 怎样 如何 为何 哪个 哪些 哪里 多少 是否 可以 我们 你们 他们 这个 那个 这些 那些 一个 一下 以及 或者 还是
"""
ENGLISH_STOP_WORDS = frozenset(_ENGLISH_STOP_WORDS.split())
STOP_WORDS = ENGLISH_STOP_WORDS | frozenset(_CHINESE_STOP_WORDS.split())


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
