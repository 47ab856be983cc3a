"""Markdown to HTML that can do nothing: what agents write is shown, never run and never fetched.

Three doors, one behind the other: the parser passes no raw HTML, the cleaner keeps only the tags named here, and the
pages' Content-Security-Policy loads nothing from elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from coffer.text import visible, visible_line

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


def render(text: str, *, top: int = 2) -> SafeString:
    """Safe HTML of a text in markdown; its headings begin at level ``top`` and never skip one."""
    tokens = _parser.parse(visible(text))
    _number_headings(tokens, top)
    for token in tokens:
        _adjust(token)
    return _cleaned(str(_parser.renderer.render(tokens, _parser.options, {})))


def line(text: str) -> SafeString:
    """Safe HTML of one line: code, emphasis and links only."""
    return _cleaned(_parser.renderInline(visible_line(text)))


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
