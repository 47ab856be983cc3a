"""Markdown from agents becomes HTML that can do nothing."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coffer.text import visible, visible_line
from memory.render import line, render

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/track.png)",
    "![x](file.png)",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt&colon;alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "[click](vbscript:x)",
    "[click][ref]\n\n[ref]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "<form action=https://evil.example><input name=q></form>",
    "<iframe src=https://evil.example></iframe>",
    "<style>body{display:none}</style>",
    "<svg onload=alert(1)>",
    '[x](https://a.example "\\" onmouseover=alert(1) x=\\"")',
    "`<script>`<script>alert(1)</script>",
    "```html\n<script>alert(1)</script>\n```",
    "<!-- --><meta http-equiv=refresh content=0>",
    '<a href="https://a.example" id=q name=location target=_top>x</a>',
]
TAG = re.compile(r"<(/?)([a-z0-9]+)([^>]*)>")
ALLOWED = {
    *("p", "br", "hr", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong"),
    *("s", "a", "table", "thead", "tbody", "tr", "th", "td", "span", "div"),
}


def harmless(html: str) -> bool:
    """Only our tags, no attribute that runs or fetches anything, links to other pages only."""
    for _, tag, attributes in TAG.findall(html):
        if tag not in ALLOWED or re.search(
            r"\s(on\w+|style|src|id|name|target)\s*=", re.sub(r'"[^"]*"', '""', attributes)
        ):
            return False
        for target in re.findall(r'href="([^"]*)"', attributes):
            if not target.startswith(("https://", "http://", "mailto:")):
                return False
    return "<script" not in html


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_shown_as_text(attack: str) -> None:
    assert harmless(render(attack))
    assert harmless(line(attack))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("<>/\"'&;:()[]!#`*-_|\n \\abonjsx="), max_size=80))
def test_no_text_becomes_anything_but_our_tags(text: str) -> None:
    assert harmless(render(text))


def test_links_open_without_a_trace_and_relative_ones_lead_nowhere() -> None:
    html = render("[a](https://a.example/x) [b](/sign-in) [c](other.md)")
    assert '<a href="https://a.example/x" rel="noopener noreferrer nofollow">a</a>' in html
    assert html.count("href") == 1


def test_headings_start_below_the_page_s_title_and_skip_no_level() -> None:
    assert re.findall(r"<(h\d)", render("### a\n\n##### b\n\n# c\n\n## d\n\n###### e")) == [
        "h2",
        "h3",
        "h2",
        "h3",
        "h4",
    ]


def test_code_tables_and_lists_keep_their_form() -> None:
    html = render("1. x\n\n```\n<b>\n```\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n~~old~~")
    for part in ("<ol>", "&lt;b&gt;", '<td dir="auto" class="right">2</td>', "<s>old</s>", 'tabindex="0"'):
        assert part in html


def test_text_of_any_script_has_its_own_direction() -> None:
    assert '<p dir="auto">שלום</p>' in render("שלום")


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u2028", "\u200b", "\x1b", "\U000e0041", "\ufeff", "\x7f"])
def test_what_cannot_be_seen_is_spelled_out(sign: str) -> None:
    name = f"[U+{ord(sign):04X}]"
    assert visible(f"a{sign}b") == f"a{name}b" == visible_line(f"a{sign}b")
    assert sign not in render(f"a{sign}b `c{sign}`")


def test_joiners_and_ordinary_text_stay() -> None:
    family: Any = "\U0001f468\u200d\U0001f469 می\u200cخواهم"
    assert visible_line(family) == family
    assert visible_line("two\n lines\there") == "two lines here"
