"""Filters of all pages: names that agents chose, times, sizes, counts."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from html import escape

from django import template
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString, mark_safe

from coffer import text

register = template.Library()
_SKEW = timedelta(minutes=1)
_CODE = re.compile(r"`([^`]+)`")


@register.filter
def name(value: object) -> SafeString:
    """A title, label or sentence as one isolated, escaped line; what cannot be seen is spelled out, `code` is code."""
    return mark_safe(f"<bdi>{with_code(text.visible_line(str(value)))}</bdi>")  # noqa: S308 - escaped by with_code


def with_code(line: str) -> str:
    """Escaped HTML of a line, what stands between backticks set as code; the one mark that titles are full of."""
    return _CODE.sub(r"<code>\1</code>", escape(line))


@register.filter
def plain(value: object) -> str:
    """The line alone for places that hold text only, as <title> and attributes."""
    return text.visible_line(str(value))


@register.filter
def shown(value: object) -> str:
    """Text of several lines, its line ends kept."""
    return text.visible(str(value))


@register.filter
def exactly(moment: datetime | None) -> SafeString | str:
    """A time that the script turns into the local one, not into an age."""
    return mark_safe(when(moment).replace("<time ", "<time data-exact "))  # noqa: S308 - made by format_html


@register.filter
def when(moment: datetime | str | None) -> SafeString | str:
    """A time in UTC that says so; the script turns it into local words. One still to come is said to be wrong."""
    moment = _moment(moment) if isinstance(moment, str) else moment
    if moment is None or moment.year < 2000:
        return "at an unknown time"
    stamp = moment.astimezone(UTC).isoformat(timespec="seconds")[:19]
    words, exact, stamp = f"{stamp[:10]} {stamp[11:16]} UTC", f"{stamp[:10]} {stamp[11:]} UTC", f"{stamp}Z"
    if moment > datetime.now(UTC) + _SKEW:
        return format_html(
            '<span class="warn"><time datetime="{}" title="{}" data-exact>{}</time>, from the future: a clock was wrong'
            "</span>",
            *(stamp, exact, words),
        )
    return mark_safe(f'<time datetime="{stamp}" title="{exact}">{words}</time>')  # noqa: S308 - digits only


@register.filter
def planned(moment: datetime) -> SafeString:
    """A time to come, which the script turns into the local one."""
    stamp = moment.astimezone(UTC).isoformat(timespec="seconds")[:19]
    return format_html('<time datetime="{}Z" data-exact>{} UTC</time>', stamp, f"{stamp[:10]} {stamp[11:16]}")


@register.filter
def size(count: int) -> str:
    """Bytes as a person says them."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


@register.filter
def number(count: int) -> str:
    return f"{count:,}"


@register.filter
def counted(count: int, noun: str) -> str:
    """``1,200 facts``; the noun is given as ``fact`` or as ``entry,entries``."""
    one, _, many = noun.partition(",")
    return f"{count:,} {one if count == 1 else many or one + 's'}"


@register.filter
def spelled(event: str) -> str:
    """``fact_added`` as ``fact added``."""
    return event.replace("coffer__", "").replace("_", " ")


@register.filter
def of(names: Mapping[str, str], key: str) -> str:
    return names.get(key, key)


@register.filter
def pairs(counts: Mapping[str, object]) -> str:
    """``3 items, 12 ms``; what is no number stands for itself."""
    numbers = (f"{value:,} {_noun(key, value)}" for key, value in counts.items() if isinstance(value, int))
    return ", ".join([*numbers, *(str(value) for value in counts.values() if not isinstance(value, int))])


@register.filter
def labelled(cells: Iterable[str], headers: Iterable[Mapping[str, object]]) -> list[SafeString]:
    """Cells of the admin's lists, each with its column's name: a phone shows them one below the other."""
    return [_labelled(cell, strip_tags(str(head["text"]))) for cell, head in zip(cells, headers, strict=True)]


def _labelled(cell: str, label: str) -> SafeString:
    """Columns without a name hold no text, but a box to tick; empty cells of the others are marked, to be left out."""
    if not label or not cell.startswith("<td"):
        return mark_safe(cell)  # noqa: S308 - made by the admin, as below
    empty = strip_tags(cell).replace("&nbsp;", "").strip() in ("", "-") and "<img" not in cell
    mark = "data-empty" if empty else f'data-label="{escape(label[:1].upper() + label[1:])}"'
    return mark_safe(cell.replace("<td", f"<td {mark}", 1))  # noqa: S308


def _noun(key: str, count: int) -> str:
    words = key.replace("_", " ")
    return words[:-1] if count == 1 and words.endswith("s") and words != "ms" else words


def _moment(stamp: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
