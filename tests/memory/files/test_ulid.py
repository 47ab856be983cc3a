from hypothesis import given
from hypothesis import strategies as st

from memory.files import ulid


def test_a_remote_key_gives_the_documented_project_id() -> None:
    assert ulid.project_id("remote:github.com/wyx-sg/coffer") == "556M7HVWHVZ4J22E1DTAEP0PMJ"


def test_a_bare_path_gives_the_documented_project_id() -> None:
    assert ulid.project_id("/home/me/repo") == "3MPE9FBJC24NTD7VJ6YGD0D2S0"


def test_a_path_that_is_no_utf_8_has_an_id_too() -> None:
    assert ulid.is_ulid(ulid.project_id("/srv/caf\udce9"))


@given(st.binary(min_size=16, max_size=16))
def test_sixteen_bytes_can_be_read_back_from_the_id(raw: bytes) -> None:
    number = 0
    for char in ulid.encode(raw):
        number = number * 32 + ulid.ALPHABET.index(char)
    assert number.to_bytes(16, "big") == raw
    assert ulid.is_ulid(ulid.encode(raw))


def test_ids_sort_by_the_time_they_were_made() -> None:
    made = [ulid.new(now_ms=1_780_000_000_000 + step) for step in range(100)]
    assert made == sorted(made)
    assert ulid.new(now_ms=0)[:10] == "0" * 10


def test_ids_of_one_moment_differ() -> None:
    assert len({ulid.new(now_ms=5) for _ in range(1000)}) == 1000


def test_only_our_own_spelling_counts_as_an_id() -> None:
    good = "556M7HVWHVZ4J22E1DTAEP0PMJ"
    assert ulid.is_ulid(good)
    for bad in (good.lower(), good[:-1], good + "0", "8" + good[1:], "I" + good[1:], good + "\n", ""):
        assert not ulid.is_ulid(bad)
