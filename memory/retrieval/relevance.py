"""Which passages clearly belong to a text that nobody wrote as a query, such as what a person asks of an agent.

A rank says which passage fits best, never that it fits. So words are weighed: one that a single passage holds weighs 1,
a common one close to 0, one that no passage holds 1 as well. A passage belongs to a text when the words that it holds
of one of its sentences weigh enough, for themselves and against the whole sentence: see ``CLEAR``.

Measured on the 64 developer facts of the tests: of what is then given 96 % is right, and 48 % of the questions get it;
of 49 everyday requests to an agent 47 get nothing, of 658 questions about other things 656.
"""

import json
import math
import re
import sqlite3
from collections.abc import Sequence

from memory.retrieval import keyword
from memory.retrieval.analyser import query_terms

CLEAR = ((1.8, 0.35), (1.5, 0.8))  # weight of the words, and their share of the sentence's: either pair will do
LOOKED_AT = 12
MOST_CHARS = 2_000  # of a text: further down stands what was pasted
# In a small store every word is rare; how common it is in the language is not known, so a store counts as this large.
FEWEST_PASSAGES = 64
_SENTENCE_END = re.compile(r"[\n。！？]+|[.!?;](?=\s)")
_COUNT = "SELECT count(*) FROM memory_fts WHERE memory_fts MATCH ?"
_HOLDING = """
SELECT words.value, memory_fts.rowid FROM json_each(?) AS words CROSS JOIN memory_fts
WHERE memory_fts MATCH words.value AND memory_fts.rowid IN (SELECT value FROM json_each(?))
"""


def belonging(con: sqlite3.Connection, scopes: Sequence[str], text: str, ranked: Sequence[int]) -> set[int]:
    """Those of some passages, the best first, that clearly belong to the text; only the very best are looked at."""
    passages = ranked[:LOOKED_AT]
    sentences = [terms for part in _SENTENCE_END.split(text[:MOST_CHARS]) if (terms := query_terms(part))]
    expressions = {term: keyword.holding(term) for terms in sentences for term in terms}
    held: dict[str, set[int]] = {expression: set() for expression in expressions.values()}
    for expression, rowid in con.execute(_HOLDING, (json.dumps(list(held)), json.dumps(passages))):
        held[expression].add(rowid)
    weights = _weights(con, scopes, list(held))
    chosen = set()
    for terms in sentences:
        words = [expressions[term] for term in terms]
        whole = sum(weights[word] for word in words)
        for passage in passages:
            found = sum(weights[word] for word in words if passage in held[word])
            if any(found >= weight and found >= share * whole for weight, share in CLEAR):
                chosen.add(passage)
    return chosen


def _weights(con: sqlite3.Connection, scopes: Sequence[str], expressions: Sequence[str]) -> dict[str, float]:
    where = keyword.within(scopes)
    total = max(con.execute(_COUNT, (where,)).fetchone()[0], FEWEST_PASSAGES)

    def weight(expression: str) -> float:
        count = max(con.execute(_COUNT, (f"{where} AND {expression}",)).fetchone()[0], 1)
        return math.log(1 + (total - count + 0.5) / (count + 0.5)) / math.log(1 + (total - 0.5) / 1.5)

    return {expression: weight(expression) for expression in expressions}
