"""Django admin over the ledger of distilled sessions, where a person may have one tried again, and over the sweeps."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.safestring import SafeString

from coffer.admin import ReadOnlyAdmin, words
from coffer.templatetags.coffer import planned, when
from memory.admin.base import ServiceAdmin, Verb
from transcripts.models import Distilled, Sweep
from transcripts.services import ledger, session_end


def _again(key: str) -> int:
    row = ledger.forgive(int(key)) if key.isdecimal() else None
    if row is None:
        return 0
    session_end.queue(row.agent, row.session_id)
    return 1


@admin.register(Distilled)
class DistilledAdmin(ServiceAdmin):
    list_display = (
        "shown_session",
        "agent",
        "outcome",
        "insights",
        "failures",
        "shown_reason",
        "shown_next",
        "shown_time",
    )
    list_filter = ("outcome", "agent", "at")
    search_fields = ("session_id", "agent", "store", "reason")
    search_help_text = "A session's id, an agent, a store's own name, or a reason."
    verbs = {
        "again": Verb(
            "Try again",
            "Try these sessions again?",
            "Their failures are forgotten, and each is distilled in the background from where it was left.",
            "Try again",
            "{count} sessions will be distilled in the background.",
            _again,
        )
    }

    def pages(self) -> list[URLPattern]:
        return []  # the viewer has them

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; no store has to be looked at for it."""
        return admin.ModelAdmin.changelist_view(self, request, {"title": "Distilled sessions"})

    def page_of(self, row: Distilled) -> str:
        return f"{reverse('session')}?{urlencode({'agent': row.agent, 'id': row.session_id})}"

    def name_of(self, row: Distilled) -> str:
        return row.session_id

    def key_of(self, row: Distilled) -> str:
        return str(row.pk)

    def names_of(self, keys: Sequence[str]) -> list[str]:
        known = Distilled.objects.filter(pk__in=[key for key in keys if key.isdecimal()])
        return list(known.values_list("session_id", flat=True))

    @admin.display(description="session", ordering="session_id")
    def shown_session(self, row: Distilled) -> SafeString:
        return words(row.session_id)

    @admin.display(description="why", ordering="reason")
    def shown_reason(self, row: Distilled) -> SafeString:
        return words(row.reason)

    @admin.display(description="next try", ordering="next_try_at")
    def shown_next(self, row: Distilled) -> SafeString | str:
        if row.failures >= ledger.GIVEN_UP:
            return "given up"
        return planned(row.next_try_at) if row.next_try_at else ""

    @admin.display(description="when", ordering="at")
    def shown_time(self, row: Distilled) -> SafeString | str:
        return when(row.at)


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    list_display = ("shown_start", "distilled", "insights", "failed", "remaining", "shown_stop")

    @admin.display(description="when", ordering="started_at")
    def shown_start(self, row: Sweep) -> SafeString | str:
        return when(row.started_at)

    @admin.display(description="ended early", ordering="stopped")
    def shown_stop(self, row: Sweep) -> SafeString:
        return words(row.stopped)
