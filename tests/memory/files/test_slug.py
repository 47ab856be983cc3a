from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.files import lanes
from memory.files.git import branch_slug

NEIGHBOURS = [
    "feature/auth",
    "feature-auth",
    "feature_auth",
    "featureauth",
    "Feature/auth",
    "feature/auth-",
    "FEATURE/AUTH",
]


def digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:10]


def test_bc_089_neighbouring_branches_have_slugs_that_differ_even_without_case() -> None:
    slugs = [branch_slug(name).lower() for name in NEIGHBOURS]
    assert len(set(slugs)) == len(NEIGHBOURS)


def test_a_plain_name_is_its_own_slug() -> None:
    for name in ("main", "release-1.2", "feature_auth", "a" * 60):
        assert branch_slug(name) == name


def test_any_other_name_is_its_letters_and_a_hash() -> None:
    assert branch_slug("feature/auth") == f"featureauth-{digest('feature/auth')}"
    assert branch_slug("a" * 61) == f"{'a' * 60}-{digest('a' * 61)}"
    assert branch_slug("日本語") == f"branch-{digest('日本語')}"


def test_a_name_that_looks_like_a_hashed_slug_is_hashed_itself() -> None:
    imitation = branch_slug("feature/auth")
    assert branch_slug(imitation) != imitation
    assert branch_slug("0123456789") != "0123456789"
    assert branch_slug("detached-0123456789") != "detached-0123456789"


@pytest.mark.parametrize("name", ["con", "nul.txt", "com1", ".hidden", "..", "."])
def test_a_name_that_a_file_system_reserves_is_hashed(name: str) -> None:
    assert branch_slug(name) != name
    assert not branch_slug(name).startswith(".")


@given(st.lists(st.text(min_size=1, max_size=80), min_size=2, max_size=20, unique=True))
def test_no_two_branches_share_a_slug_on_a_disk_that_ignores_case(names: list[str]) -> None:
    assert len({branch_slug(name).casefold() for name in names}) == len(names)


@given(st.text(min_size=1, max_size=200))
def test_a_branch_slug_is_a_short_portable_file_name(name: str) -> None:
    slug = branch_slug(name)
    assert slug.isascii()
    assert len(slug) <= 71
    assert not set(slug) - set("abcdefghijklmnopqrstuvwxyz0123456789._-")


def test_a_fact_is_named_after_its_title_and_the_tail_of_its_id() -> None:
    names = lanes.fact_names("Never push tags; use `make release`!", "01M8PPRF6SHEJ2GYEVQQ3TD3P0")
    assert next(names) == "never-push-tags-use-make-release-3td3p0.md"
    assert next(names) == "never-push-tags-use-make-release-q3td3p0.md"


def test_the_longest_fact_name_has_the_whole_id() -> None:
    *_, last = lanes.fact_names("a title", "01M8PPRF6SHEJ2GYEVQQ3TD3P0")
    assert last == "a-title-01m8pprf6shej2gyevqq3td3p0.md"


def test_accents_lose_their_marks_and_other_scripts_are_left_out() -> None:
    assert next(lanes.fact_names("Überblick café", "0" * 26)) == "uberblick-cafe-000000.md"
    assert next(lanes.fact_names("不要打标签", "0" * 26)) == "fact-000000.md"


def test_a_slug_ends_at_a_word_near_fifty_characters() -> None:
    name = next(lanes.fact_names("word " * 40, "0" * 26)).removesuffix("-000000.md")
    assert 40 <= len(name) <= 50
    assert name.endswith("word")
    assert len(next(lanes.fact_names("x" * 400, "0" * 26))) == 50 + len("-000000.md")


@given(st.text(max_size=300))
def test_every_fact_and_topic_name_is_served_and_portable(title: str) -> None:
    fact = next(lanes.fact_names(title, "01M8PPRF6SHEJ2GYEVQQ3TD3P0"))
    topic = lanes.topic_slug(title)
    assert lanes.recallable(f"{lanes.INBOX}/{fact}") is lanes.Kind.FACT
    assert lanes.recallable(f"{lanes.KNOWLEDGE}/{topic}.md") is lanes.Kind.TOPIC
    assert (fact + topic).isascii()
    assert len(fact) < 100


@pytest.mark.parametrize("title", ["con", "NUL", "Com1", "Index", "tmpfiles"])
def test_a_topic_never_takes_a_reserved_name(title: str) -> None:
    assert lanes.topic_slug(title) == f"{title.lower()}-topic"


def test_topics_without_ascii_letters_stay_apart() -> None:
    assert lanes.topic_slug("标签") != lanes.topic_slug("发布")
