"""Topics as sections: what is shown of a long one, what may be replaced, where a note is appended."""

from memory.files import sections

BODY = "Intro\n\n# One\n\nalpha\n\n```\n# no heading\n```\n\n## Two ##\n\nbeta gamma\n\n# Three\ndelta"


def test_sections_together_are_the_whole_text() -> None:
    assert "\n".join(section.text for section in sections.split(BODY)) == BODY
    assert [(section.level, section.title) for section in sections.split(BODY)] == [
        (0, ""),
        (1, "One"),
        (2, "Two"),
        (1, "Three"),
    ]
    assert [section.text for section in sections.split("")] == [""]


def test_the_outline_is_the_headings() -> None:
    assert sections.outline(BODY) == ["# One", "## Two", "# Three"]


def test_the_section_of_a_passage_is_found() -> None:
    assert sections.holding(BODY, "# One\n## Two ##\nbeta gamma") == "## Two ##\n\nbeta gamma"
    assert sections.holding(BODY, "nowhere").startswith("Intro")


def test_one_part_is_replaced_and_nothing_else() -> None:
    assert sections.spliced(BODY, "## Two ##\n\nbeta gamma", "## Two\n\nnew\n") == BODY.replace(
        "## Two ##\n\nbeta gamma", "## Two\n\nnew"
    )
    assert sections.spliced(BODY, "## Two ##\n\nbeta", "x") is None
    assert sections.spliced("a\nb\na", "a", "x") is None


def test_a_piece_goes_below_a_dated_heading_that_stands_once() -> None:
    once = sections.appended("# T\n\nold\n\n", "## 2026-11-30", "new\n")
    assert once == "# T\n\nold\n\n## 2026-11-30\n\nnew"
    assert sections.appended(once, "## 2026-11-30", "newer") == f"{once}\n\nnewer"
    assert sections.appended(once, "## 2026-12-01", "newer") == f"{once}\n\n## 2026-12-01\n\nnewer"
    assert sections.appended("", "## 2026-11-30", "new") == "## 2026-11-30\n\nnew"
