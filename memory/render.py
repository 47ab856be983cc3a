"""Markdown to HTML that can do nothing: what agents write is shown, never run and never fetched.

Three doors, one behind the other: the parser passes no raw HTML, the cleaner keeps only the tags named here, and the
pages' Content-Security-Policy loads nothing from elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from coffer.text import visible, visible_line
from memory.files.titles import shorten

# Characters of one text: what is written to be read is shorter, and of what is written to be slow this takes a second.
LONGEST = 100_000
_LONGEST_LINE = 2000
_TAGS = {
    *(
        "p",
        "br",
        "hr",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "pre",
        "code",
        "em",
        "strong",
        "s",
    ),
    *("a", "table", "thead", "tbody", "tr", "th", "td", "span", "div"),
}
_WITH_DIRECTION = {"p", "h2", "h3", "h4", "h5", "h6", "li", "blockquote", "th", "td"}
_ATTRIBUTES = {**{tag: {"dir"} for tag in _WITH_DIRECTION}, "a": {"href", "title"}, "ol": {"start"}}
_CLASSES = {"span": {"picture"}, "div": {"wide"}, "th": {"right", "center"}, "td": {"right", "center"}}
_FIXED = {"pre": {"tabindex": "0"}, "div": {"tabindex": "0", "role": "group", "aria-label": "Table"}}
_SCHEMES = {"http", "https", "mailto"}
_LOWEST = 6


def render(text: str, *, top: int = 2, title: str = "", whole: str = "") -> SafeString:
    """Safe HTML of a text in markdown; its headings begin at level ``top`` and never skip one.

    A heading at the start that only repeats ``title`` is left out. Of a text longer than LONGEST the beginning is
    rendered, and a note says so and leads to ``whole``, the address of all of it.
    """
    tokens = _without_title(_parser.parse(visible(text[:LONGEST])), title)
    _number_headings(tokens, top)
    for token in tokens:
        _adjust(token)
    html = _cleaned(str(_parser.renderer.render(tokens, _parser.options, {})))
    return html + _note(len(text), whole) if len(text) > LONGEST else html


def line(text: str) -> SafeString:
    """Safe HTML of one line: code, emphasis and links only."""
    return _cleaned(_parser.renderInline(shorten(visible_line(text), _LONGEST_LINE)))


def _cleaned(html: str) -> SafeString:
    return mark_safe(  # noqa: S308 - cleaned by the line that follows
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            allowed_classes=_CLASSES,
            set_tag_attribute_values=_FIXED,
            url_schemes=_SCHEMES,
            url_relative="deny",
            link_rel="noopener noreferrer nofollow",
        )
    )


def _note(characters: int, whole: str) -> SafeString:
    said = format_html("The first {} of {} characters are shown here.", f"{LONGEST:,}", f"{characters:,}")
    link = format_html(' <a href="{}">Read all of it as plain text</a>', whole) if whole else ""
    return format_html('<p class="cut">{}{}</p>', said, link)


def _without_title(tokens: list[Token], title: str) -> list[Token]:
    """The tokens without a heading at the start that says what stands above the text already."""
    if title and len(tokens) > 3 and tokens[0].type == "heading_open" and _plain(tokens[1].content) == _plain(title):
        return tokens[3:]
    return tokens


def _plain(words: str) -> str:
    return " ".join(words.split()).casefold()


def _number_headings(tokens: Sequence[Token], top: int) -> None:
    """Renumber headings by how they nest, so that a document that starts at ### is still an outline."""
    open_levels: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            while open_levels and open_levels[-1] >= level:
                open_levels.pop()
            open_levels.append(level)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(top - 1 + len(open_levels), _LOWEST)}"


def _adjust(token: Token) -> None:
    """Give text its own direction, and columns a class in place of a style."""
    if token.nesting == 1 and token.tag in _WITH_DIRECTION:
        token.attrSet("dir", "auto")
    style = token.attrs.pop("style", "")
    if isinstance(style, str) and style.startswith("text-align:"):
        token.attrSet("class", style.removeprefix("text-align:"))


def _picture(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """A picture is named, never loaded: fetching it would tell somebody that this page was read."""
    token = tokens[at]
    words = renderer.renderInlineAsText(token.children or [], options, env) or "without a name"
    return f'<span class="picture">picture: {escapeHtml(words)} ({escapeHtml(str(token.attrGet("src")))})</span>'


def _table_open(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return '<div class="wide"><table>'


def _table_close(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return "</table></div>"


def _made() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _picture)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    return parser


_parser = _made()
