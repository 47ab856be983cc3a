"""The lines of a list of titles, put together here: a thousand of them in a template take a tenth of a second."""

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from coffer.templatetags.coffer import when, with_code
from coffer.text import visible_line
from memory.files.titles import shorten
from memory.models import Store
from memory.services.browse import Row

_MOST = 300  # characters of one title or description in a list; its page shows all


def titles(store: Store, rows: Sequence[Row]) -> SafeString:
    """One ``<li>`` per document; all that files say is escaped, isolated and made visible."""
    place = reverse("document", args=[store.name, "-"]).removesuffix("-")
    return mark_safe("\n".join([_line(place, row) for row in rows]))  # noqa: S308 - see _line


@lru_cache(maxsize=8192)
def _line(place: str, row: Row) -> str:
    """The same row is the same line: a page that is looked at again is put together from these."""
    by = f"{_text(row.actor)} · {when(row.when)}" if row.actor else when(row.when)
    more = f'<span class="line"><bdi>{_text(row.description)}</bdi></span>' if row.description else ""
    if row.problem:
        more += f'<span class="line warn">Needs a look: <bdi>{_text(row.problem)}</bdi></span>'
    link = f'<a href="{place}{quote(row.id, safe="")}"><bdi>{_text(row.title)}</bdi></a>'
    return f'<li>{link}<span class="by">{by}</span>{more}</li>'


def _text(value: str) -> str:
    return with_code(shorten(visible_line(value), _MOST))
