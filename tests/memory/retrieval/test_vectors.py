"""The file of vectors: what is kept, what is near, and that nothing of it is missed when it is lost."""

import random
from array import array
from collections.abc import Mapping
from pathlib import Path

import apsw
import pytest

from memory.retrieval import vectors
from memory.retrieval.vectors import Embedded, Place, Space, State
from tests.rounds import rounds


def unit(*values: float) -> bytes:
    length = sum(value * value for value in values) ** 0.5
    return array("f", [value / length for value in values]).tobytes()


NORTH, NORTH_EAST, EAST, SOUTH = unit(0, 1, *[0] * 6), unit(1, 1, *[0] * 6), unit(1, *[0] * 7), unit(0, -1, *[0] * 6)


@pytest.fixture
def space() -> Space:
    return vectors.add_space("a model", NORTH, 0.1, True)


def keep(space: Space, files: Mapping[str, bytes], store: str = "global", sha256: str = "s") -> None:
    made = [Embedded(path, State(sha256, 0, 0.0), [(0, path.encode(), vector)]) for path, vector in files.items()]
    vectors.keep(space, store, made, lambda: dict.fromkeys(files, sha256))


def near(space: Space, *stores: str, limit: int = 10) -> list[str]:
    return [place.path for place, _ in vectors.nearest(space, stores or ("global",), NORTH, limit)]


def test_the_nearest_come_first_with_their_cosines(space: Space) -> None:
    keep(space, {"east.md": EAST, "north.md": NORTH, "between.md": NORTH_EAST, "south.md": SOUTH})
    assert near(space) == ["north.md", "between.md", "east.md", "south.md"]
    (first, cosine), *_ = vectors.nearest(space, ["global"], NORTH, 1)
    assert first == Place("global", "north.md", "s", 0)
    assert cosine == pytest.approx(1.0)
    assert vectors.cosines(space, NORTH, [Place("global", "east.md", "s", 0)]).popitem()[1] == pytest.approx(0.0)


def test_only_the_stores_asked_for_are_searched(space: Space) -> None:
    keep(space, {"a.md": NORTH}, "one")
    keep(space, {"b.md": EAST}, "two")
    assert near(space, "one") == ["a.md"]
    assert near(space, "two", "one") == ["a.md", "b.md"]
    assert near(space) == []


def test_two_spaces_are_never_mixed(space: Space) -> None:
    other = vectors.add_space("another model", NORTH, 0.1, True)
    keep(space, {"a.md": NORTH})
    keep(other, {"b.md": NORTH})
    assert near(space) == ["a.md"]
    assert vectors.known(other, [b"a.md"]) == {}
    vectors.retain_space(other, "global")
    assert near(space) == []
    assert vectors.spaces() == [other]


def test_a_file_that_is_embedded_again_leaves_nothing_of_before(space: Space) -> None:
    keep(space, {"a.md": NORTH})
    keep(space, {"a.md": SOUTH}, sha256="t")
    assert vectors.nearest(space, ["global"], NORTH, 5)[0][0].sha256 == "t"
    assert len(vectors.nearest(space, ["global"], NORTH, 5)) == 1
    assert vectors.cosines(space, NORTH, [Place("global", "a.md", "s", 0)]) == {}


def test_the_same_text_elsewhere_has_its_vector_already(space: Space) -> None:
    keep(space, {"a.md": NORTH}, "one")
    assert vectors.known(space, [b"a.md", b"other"]) == {b"a.md": NORTH}


def test_what_left_the_index_while_it_was_embedded_is_not_kept(space: Space) -> None:
    made = [Embedded("erased.md", State("s", 0, 0.0), [(0, b"digest", NORTH)])]
    vectors.keep(space, "global", made, dict)
    assert near(space) == []


def test_nothing_stays_in_the_file_of_what_was_dropped(space: Space, home: Path) -> None:
    keep(space, {"kept.md": NORTH, "secret-name.md": unit(*range(1, 9))})
    vectors.retain("global", ["kept.md"])
    vectors.compact()
    data = b"".join(path.read_bytes() for path in home.glob("vectors.sqlite3*"))
    assert b"secret-name" not in data
    assert unit(*range(1, 9)) not in data
    assert NORTH in data


def test_stores_that_are_no_more_are_dropped(space: Space) -> None:
    keep(space, {"a.md": NORTH}, "one")
    keep(space, {"b.md": NORTH}, "two")
    vectors.retain_stores(["two"])
    assert near(space, "one", "two") == ["b.md"]


@pytest.mark.parametrize("harm", ["lost", "garbage", "cut", "emptied", "newer"])
def test_a_file_that_is_lost_or_damaged_is_one_to_begin_anew(space: Space, home: Path, harm: str) -> None:
    keep(space, {f"{number}.md": NORTH for number in range(50)})
    vectors.compact()
    file = home / "vectors.sqlite3"
    if harm == "newer":
        with apsw.Connection(str(file)) as con:
            con.execute("PRAGMA user_version = 99")
        con.close()
    data = file.read_bytes()
    for path in home.glob("vectors.sqlite3*"):
        path.unlink()
    if harm != "lost":
        new = {"garbage": b"no database at all" * 1000, "cut": data[: len(data) // 2], "emptied": b""}.get(harm, data)
        file.write_bytes(new)
    near(space)  # whatever it finds, nothing is raised
    try:
        begun = vectors.add_space("a model", NORTH, 0.1, True)
    except vectors.FAILURES:
        begun = vectors.add_space("a model", NORTH, 0.1, True)
    keep(begun, {"a.md": NORTH})
    assert near(begun) == ["a.md"]


def test_the_rough_look_over_bits_loses_none_of_the_nearest(space: Space) -> None:
    dice = random.Random(7)
    wide = vectors.add_space("wide", unit(*[1] * 256), 0.0, True)
    made = {f"{number}.md": unit(*(dice.gauss(0, 1) for _ in range(256))) for number in range(rounds(100) * 20)}
    keep(wide, made)
    asked = unit(*(dice.gauss(0, 1) for _ in range(256)))
    exact = sorted(
        made, key=lambda path: -sum(a * b for a, b in zip(array("f", made[path]), array("f", asked), strict=True))
    )
    found = [place.path for place, _ in vectors.nearest(wide, ["global"], asked, 10)]
    assert len(set(found) & set(exact[:10])) >= 6  # vectors of texts lie closer together than these
