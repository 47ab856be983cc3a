"""Full-text search with SQLite's FTS5 over text that the analyser has cut (FR-008, FR-032).

One table holds the passages of all stores, so that one ranking compares them; a store is picked by its scope token.
Every function takes a plain `sqlite3.Connection` and leaves transactions to the caller.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memory.retrieval import glossary
from memory.retrieval.analyser import JOINTS, bigrams, cjk_runs, index_text, is_cjk, query_terms

# (rowid, scope token, title, body, ctx), as a person wrote them.
Row = tuple[int, str, str, str, str]

# Typo repair: shorter words have too many neighbours, and only so many words of one query are worth the look-ups.
MIN_REPAIRED_CHARS, MAX_REPAIRED_CHARS = 4, 24
MAX_REPAIRED_TERMS = 3
MAX_REPAIRS = 3
_ENOUGH = 12  # rows, to choose a few documents from
_TELLING = 4  # a word tells something that at most one row in so many holds
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

_CREATE = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS memory_fts USING fts5(
    scope, title, body, ctx,
    tokenize="porter unicode61 remove_diacritics 2 tokenchars '{JOINTS.replace("'", "''")}'"
)
"""
_ADD = "INSERT OR REPLACE INTO memory_fts(rowid, scope, title, body, ctx) VALUES (?, ?, ?, ?, ?)"
# The weights are those of scope, title, body and ctx. Sorting by the function takes a third less time than by FTS5's
# hidden rank column (measured on SQLite 3.40.1).
_SCORED = "SELECT memory_fts.rowid, -bm25(memory_fts, 0.0, 2.0, 1.0, 0.3) AS score FROM memory_fts"
_SEARCH = f"""
{_SCORED} WHERE memory_fts MATCH ? ORDER BY score DESC LIMIT ?
"""
# The same of one kind of document: asked here, because the best of all kinds may hold none of it.
_SEARCH_KIND = f"""
{_SCORED}
CROSS JOIN memory_chunk AS chunk ON chunk.id = memory_fts.rowid
CROSS JOIN memory_document AS document ON document.id = chunk.document_id
WHERE memory_fts MATCH ? AND document.kind = ? ORDER BY score DESC LIMIT ?
"""
_KNOWN = """
SELECT value FROM json_each(?)
WHERE EXISTS (SELECT 1 FROM memory_fts WHERE memory_fts MATCH value)
"""
# How many rows match each expression, counted no further than asked for.
_COUNTS = """
SELECT value, (SELECT count(*) FROM (SELECT 1 FROM memory_fts WHERE memory_fts MATCH value LIMIT ?)) FROM json_each(?)
"""
_COUNT = "SELECT count(*) FROM memory_fts WHERE memory_fts MATCH ?"


@dataclass(frozen=True, slots=True)
class Query:
    """What a text asks for: its own words, and their translations, which count for half as much."""

    terms: tuple[str, ...]
    translations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a query is taken for in some scopes, in words: those that some row holds, and what stands in for others."""

    asked: tuple[str, ...] = ()
    repaired: dict[str, list[str]] = field(default_factory=dict)  # a likely typo: words one slip away, likeliest first
    translations: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # no row holds them, or anything close

    @property
    def likeliest(self) -> list[str]:
        """The words asked for, and of each typo its likeliest repair."""
        return [*self.asked, *(words[0] for words in self.repaired.values())]

    @property
    def guessed(self) -> list[str]:
        return [*self.translations, *(word for words in self.repaired.values() for word in words[1:])]


def parse(text: str) -> Query:
    """Return the query for any text a person can type; one without words has no terms and finds nothing."""
    terms = query_terms(text)
    return Query(terms=terms, translations=glossary.translations(cjk_runs(text), terms))


def create(con: sqlite3.Connection) -> None:
    """Create the full-text table where there is none."""
    con.execute(_CREATE)


def drop(con: sqlite3.Connection) -> None:
    """Drop the full-text table and all it holds, also one that is too damaged to be opened."""
    try:
        con.execute("DROP TABLE IF EXISTS memory_fts")
    except sqlite3.DatabaseError:
        # SQLite opens a virtual table before it drops it: this one's entry and its tables have to go one by one.
        con.execute("PRAGMA writable_schema = ON")
        con.execute("DELETE FROM sqlite_master WHERE name = 'memory_fts'")
        con.execute("PRAGMA writable_schema = RESET")
    left = con.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'memory_fts_*'").fetchall()
    for (table,) in left:
        con.execute(f"DROP TABLE {table}")


def add(con: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Index rows of raw text, each in the place of a row that had its id."""
    con.executemany(
        _ADD,
        (
            (rowid, _scope_word(scope), index_text(title), index_text(body), index_text(ctx))
            for rowid, scope, title, body, ctx in rows
        ),
    )


def remove(con: sqlite3.Connection, rowids: Iterable[int]) -> None:
    """Forget rows; ids that are not there are no error."""
    con.executemany("DELETE FROM memory_fts WHERE rowid = ?", ((rowid,) for rowid in rowids))


def search(con: sqlite3.Connection, query: Query, scopes: Sequence[str], limit: int) -> list[tuple[int, float]]:
    """Return (rowid, score) of the best rows of the given scopes, best first; a higher score is better."""
    if not query.terms or not scopes or limit < 1:
        return []
    expression = match_expression(con, query, scopes)
    return con.execute(_SEARCH, (expression, limit)).fetchall() if expression else []


def search_kind(
    con: sqlite3.Connection, query: Query, scopes: Sequence[str], limit: int, kind: str
) -> list[tuple[int, float]]:
    """Return the same of one kind of document for a long text, which is no person's query: nothing in it is repaired.

    Words that many rows hold tell little and cost most. They are asked for only where the others find too few.
    """
    if not query.terms or not scopes or limit < 1:
        return []
    where = within(scopes)
    expressions = {term: f"{where} AND {_phrase(term)}" for term in (*query.terms, *query.translations)}
    most = _count(con, where) // _TELLING
    counted = dict(con.execute(_COUNTS, (most + 1, json.dumps(list(expressions.values())))))
    held = {term: counted[expression] for term, expression in expressions.items() if counted[expression]}
    translations = tuple(term for term in query.translations if term in held)
    asked = tuple(term for term in query.terms if term in held)
    telling = tuple(term for term in asked if held[term] <= most)
    found: list[tuple[int, float]] = []
    for chosen in (Reading(telling, translations=translations), Reading(asked, translations=translations)):
        if len(found) < min(limit, _ENOUGH) and (expression := _expression(where, chosen)):
            found = con.execute(_SEARCH_KIND, (expression, kind, limit)).fetchall()
    return found


def bare(con: sqlite3.Connection, expression: str, limit: int) -> None:
    """Run the query of an expression and do nothing with its rows."""
    con.execute(_SEARCH, (expression or '""', limit)).fetchall()


def match_expression(con: sqlite3.Connection, query: Query, scopes: Sequence[str]) -> str:
    """Return the FTS5 expression for a query, or an empty one when no row of the scopes holds any of its words."""
    where = within(scopes)
    return _expression(where, _read(con, query, where))


def read(con: sqlite3.Connection, query: Query, scopes: Sequence[str]) -> Reading:
    """Return what is looked for in the scopes, for a person to read."""
    return _read(con, query, within(scopes)) if scopes else Reading(unknown=query.terms)


def within(scopes: Sequence[str]) -> str:
    """Return the expression that every row of the scopes matches."""
    return "(" + " OR ".join(_quoted(_scope_word(scope)) for scope in scopes) + ")"


def holding(term: str) -> str:
    """Return the expression that rows match whose own text holds a term, their neighbours' not counted."""
    return f"{{title body}} : {_phrase(term)}"


def count(con: sqlite3.Connection) -> int:
    """Return how many rows are indexed."""
    return int(con.execute("SELECT count(*) FROM memory_fts_docsize").fetchone()[0])


def check(con: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` when the index and the text it holds do not agree."""
    con.execute("INSERT INTO memory_fts(memory_fts) VALUES ('integrity-check')")


def optimize(con: sqlite3.Connection) -> None:
    """Merge the index into one piece, which also lets go of what removed rows left in it."""
    con.execute("INSERT INTO memory_fts(memory_fts) VALUES ('optimize')")


def _read(con: sqlite3.Connection, query: Query, where: str) -> Reading:
    phrases = {term: _phrase(term) for term in (*query.terms, *query.translations)}
    # A word that no row holds adds nothing to any score; knowing that saves its search and tells what may be a typo.
    known = _known(con, [f"{where} AND {phrase}" for phrase in phrases.values()])
    held = {term for term, phrase in phrases.items() if f"{where} AND {phrase}" in known}
    typos = [term for term in query.terms if term not in held and _may_be_typo(term)][:MAX_REPAIRED_TERMS]
    repaired = {term: words for term in typos if (words := _repairs(con, term, where))}
    return Reading(
        asked=tuple(term for term in query.terms if term in held),
        repaired=repaired,
        translations=tuple(term for term in query.translations if term in held),
        unknown=tuple(term for term in query.terms if term not in held and term not in repaired),
    )


def _expression(where: str, reading: Reading) -> str:
    asked, guessed = [list(map(_phrase, words)) for words in (reading.likeliest, reading.guessed)]
    if not asked and not guessed:
        return ""
    # BM25 adds up phrase by phrase, so a word written twice weighs twice: what was asked beats what was guessed.
    return f"{where} AND ({' OR '.join(asked * 2 + guessed if guessed else asked)})"


def _repairs(con: sqlite3.Connection, term: str, where: str) -> list[str]:
    """Return the words one slip away from `term` that the scopes hold, the likeliest first."""
    candidates = _known(con, [_quoted(word) for word in _one_slip_away(term)])
    counted = [(_count(con, f"{where} AND {word}"), _unquoted(word)) for word in candidates]
    # People seldom mistake the first letter; after that the commoner word is the likelier one.
    ranked = sorted((word[0] != term[0], -count, word) for count, word in counted if count)
    return [word for _, _, word in ranked[:MAX_REPAIRS]]


def _one_slip_away(word: str) -> set[str]:
    """Return all words that one letter left out, put in, mistaken, or swapped with the next makes of `word`."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    slips = {head + tail[1:] for head, tail in cuts if tail}
    slips.update(head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1)
    slips.update(head + letter + tail[1:] for head, tail in cuts if tail for letter in _LETTERS)
    slips.update(head + letter + tail for head, tail in cuts for letter in _LETTERS)
    return slips - {word}


def _may_be_typo(term: str) -> bool:
    # Numbers, versions and paths are right or wrong: their neighbours are something else.
    return MIN_REPAIRED_CHARS <= len(term) <= MAX_REPAIRED_CHARS and term.isascii() and term.isalpha()


def _known(con: sqlite3.Connection, expressions: list[str]) -> set[str]:
    """Return those of the FTS5 expressions that match some row."""
    return {row[0] for row in con.execute(_KNOWN, (json.dumps(expressions),))}


def _count(con: sqlite3.Connection, expression: str) -> int:
    return int(con.execute(_COUNT, (expression,)).fetchone()[0])


def _phrase(term: str) -> str:
    if not is_cjk(term):
        return _quoted(term)
    # One character begins a term at each place it stands; a longer word of the glossary is its pairs in a row.
    return f"{_quoted(term)} *" if len(term) == 1 else _quoted(bigrams(term))


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _unquoted(phrase: str) -> str:
    return phrase[1:-1].replace('""', '"')


def _scope_word(scope: str) -> str:
    # The analyser drops a leading plus, so no text holds this word; and FTS5 stems nothing that ends in one.
    return f"+{scope}+"
