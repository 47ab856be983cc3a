"""Django admin over tool calls: who, when, how long, how it went."""

from django.contrib import admin
from django.utils.safestring import SafeString

from coffer.admin import ReadOnlyAdmin, words
from gateway.models import Invocation


@admin.register(Invocation)
class InvocationAdmin(ReadOnlyAdmin):
    list_display = ("shown_time", "tool", "shown_agent", "project", "outcome", "items", "ms")
    list_filter = ("tool", "outcome", "agent", "at")
    search_fields = ("tool", "agent", "session", "project", "outcome")
    search_help_text = "A tool, an agent, a session's id, a store's own name, or an outcome."

    @admin.display(description="agent", ordering="agent")
    def shown_agent(self, row: Invocation) -> SafeString:
        return words(row.agent)
