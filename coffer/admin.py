"""Django admin over what every app writes: the audit trail to read, preferences to choose."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django_q.models import Failure, OrmQ, Schedule, Success, Task

from coffer import db, preferences
from coffer.errors import CofferError
from coffer.models import AuditEntry, Preference
from coffer.templatetags.coffer import name, planned, when
from coffer.text import visible_line

admin.site.site_header = admin.site.site_title = "Coffer admin"
admin.site.index_title = "Correct what is remembered"
admin.site.enable_nav_sidebar = False
admin.site.unregister([User, Group])  # there is one owner, who has no password: see coffer.signin


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ledger: to be read, filtered and searched."""

    actions: tuple[str, ...] | None = None
    list_per_page = 100

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": str(self.opts.verbose_name_plural).capitalize()})

    @admin.display(description="when", ordering="at")
    def shown_time(self, row: Any) -> SafeString | str:
        return when(row.at)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def reason(error: Exception) -> str | None:
    """The sentence a person reads about an error whose reason lies outside the program; None for any other."""
    if isinstance(error, CofferError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'} cannot be used ({error.strerror or 'no reason given'})."
    if db.locked(error) and not db.damaged(error):
        return "Another program is writing to Coffer's database; try again in a moment."
    return None


def words(text: str, limit: int = 200) -> SafeString:
    """Somebody's words in a list: one line, one piece whatever its direction, cut when it is long."""
    shown = visible_line(text)
    return name(shown if len(shown) <= limit else f"{shown[: limit - 1]}…")


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("shown_time", "event", "shown_store", "shown_ref", "actor", "shown_counts")
    list_filter = ("event", "actor", "at")
    search_fields = ("event", "store", "ref")
    search_help_text = "An event, a store's own name, or an id."

    @admin.display(description="store", ordering="store")
    def shown_store(self, row: AuditEntry) -> SafeString:
        return words(row.store)

    @admin.display(description="what", ordering="ref")
    def shown_ref(self, row: AuditEntry) -> SafeString:
        return words(row.ref)

    @admin.display(description="counts")
    def shown_counts(self, row: AuditEntry) -> str:
        return ", ".join(f"{name} {count}" for name, count in row.counts.items())


admin.site.unregister([Schedule, Success, Failure, OrmQ])


class TaskAdmin(ReadOnlyAdmin):
    """The queue's own pages would let one name any function to be called; here it is looked at."""

    search_fields = ("name", "func")
    search_help_text = "A task's name, or the function it calls."

    @admin.display(description="started", ordering="started")
    def shown_start(self, row: Task) -> SafeString | str:
        return when(row.started)

    @admin.display(description="seconds")
    def seconds(self, row: Task) -> str:
        return f"{(row.stopped - row.started).total_seconds():.1f}"


@admin.register(Schedule)
class ScheduleAdmin(TaskAdmin):
    list_display = ("name", "func", "schedule_type", "shown_next")

    @admin.display(description="next run", ordering="next_run")
    def shown_next(self, row: Schedule) -> SafeString:
        return planned(row.next_run)


@admin.register(Success)
class SuccessAdmin(TaskAdmin):
    list_display = ("name", "func", "group", "shown_start", "seconds")


class DisposableAdmin(ReadOnlyAdmin):
    """Read, and thrown away when it was understood or is not wanted any more."""

    actions = ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super(ReadOnlyAdmin, self).has_delete_permission(request, obj)


@admin.register(Failure)
class FailureAdmin(DisposableAdmin, TaskAdmin):
    list_display = ("name", "func", "group", "shown_start", "seconds", "shown_result")

    @admin.display(description="why")
    def shown_result(self, row: Failure) -> SafeString:
        return words(str(row.result))


@admin.register(OrmQ)
class QueueAdmin(DisposableAdmin):
    list_display = ("name", "func", "group", "lock")
    fields = ("name", "func", "group", "args", "kwargs", "lock")


class PreferenceForm(forms.Form):
    """Every known preference with the values it may have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for known in preferences.KNOWN:
            fixed = preferences.fixed_by(known.name)
            self.fields[known.name] = forms.ChoiceField(
                choices=[(value, value) for value in known.allowed],
                initial=preferences.get(known.name),
                disabled=bool(fixed),
                help_text=f"Set by {known.setting} in {fixed}; change it there." if fixed else known.help,
            )


@admin.register(Preference)
class PreferenceAdmin(ReadOnlyAdmin):
    """One page for all preferences, chosen or not, in place of a list of those that were chosen."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super(ReadOnlyAdmin, self).has_change_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show what is in force; save what differs through the service."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        form = None
        try:
            form = PreferenceForm(request.POST or None)
            if form.is_valid():
                for name in form.changed_data:
                    preferences.set(name, form.cleaned_data[name])
                messages.success(request, "Saved." if form.changed_data else "Nothing was changed.")
                return redirect(request.path)
        except CofferError as error:
            messages.error(request, error.message)
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": "Preferences", "form": form}
        return TemplateResponse(request, "admin/preferences.html", context)


from coffer import engine_admin  # noqa: E402, F401 - registers itself, and needs what stands above
