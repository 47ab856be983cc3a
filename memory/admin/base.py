"""What the admin pages of memory share: lists of index rows, and actions that ask before they call a service.

Stock pages for adding, changing and deleting rows are left out: they would write the cache instead of the files, and
log titles where a delete forever does not reach. For the same reason no message repeats content.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from coffer.admin import reason
from coffer.errors import CofferError, StoreNotFound
from coffer.text import visible_line
from memory.services import stores

View = Callable[..., HttpResponse]
SHOWN = 100  # names in a question; of more only the number
TOLD = 5  # failures of one action that are told one by one


@dataclass(frozen=True)
class Verb:
    """Something done to chosen rows after asking; ``run`` takes one key and says how many things it changed."""

    label: str
    question: str
    consequence: str
    button: str
    done: str  # a sentence with {count}
    run: Callable[..., int]
    form: type[forms.Form] | None = None


class Rows(ChangeList):
    """A list whose links name what a row stands for: the row's own number may be another's by tomorrow."""

    def url_for_result(self, result: Model) -> str:
        admin = cast(ServiceAdmin, self.model_admin)
        return admin.page_of(result)


class ServiceAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A list of index rows, with a page for each and actions on many that go through services."""

    verbs: Mapping[str, Verb] = {}
    actions_on_bottom = False
    show_full_result_count = True

    def page_of(self, row: Any) -> str:
        """The address of a row's page."""
        raise NotImplementedError

    def name_of(self, row: Any) -> str:
        """What a person calls the thing behind a row."""
        raise NotImplementedError

    def key_of(self, row: Any) -> str:
        """What names the thing behind a row, in forms and addresses."""
        raise NotImplementedError

    def names_of(self, keys: Sequence[str]) -> list[str]:
        """What a person calls these things; those that have gone are left out."""
        raise NotImplementedError

    def pages(self) -> list[URLPattern]:
        """The further pages of this admin."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", self.guarded(self.changelist_view, _index), name=f"{name}_changelist"),
            path("act/<str:verb>/", self.guarded(self.act_view, self.list_url), name=f"{name}_act"),
            *self.pages(),
        ]

    def list_url(self, **_: str) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def act_url(self, verb: str) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_act", args=[verb])

    def guarded(self, view: View, back: Callable[..., str]) -> View:
        """A view whose errors with a reason outside the program become a message on the page before it."""

        @functools.wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not self.has_change_permission(request):
                raise PermissionDenied
            try:
                return view(request, *args, **kwargs)
            except (CofferError, OSError, DatabaseError) as error:
                told = reason(error)
                if told is None:
                    raise
                messages.error(request, told)
                return redirect(self.list_url() if isinstance(error, StoreNotFound) else back(**kwargs))

        return self.admin_site.admin_view(answer)

    def show(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """A page of ours in the admin's frame."""
        frame = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "list_url": self.list_url(),
        }
        return TemplateResponse(request, f"admin/memory/{template}.html", {**frame, **context})

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list, after bringing the index in line with the files."""
        for store in stores.all_stores():
            behind = stores.refresh(store).behind
            if behind:
                name = stores.display_name(store)
                messages.warning(request, f"{name}: {len(behind)} files changed that the index could not take yet.")
        return super().changelist_view(
            request, {"title": str(self.opts.verbose_name_plural).capitalize(), **(extra_context or {})}
        )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return Rows

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {name: (None, name, verb.label) for name, verb in self.verbs.items()}

    @admin.display(description="")
    def action_checkbox(self, obj: Any) -> SafeString:
        box = forms.CheckboxInput(
            {"class": "action-select", "aria-label": f"Choose {visible_line(self.name_of(obj))}"}, lambda _: False
        )
        return box.render(helpers.ACTION_CHECKBOX_NAME, self.key_of(obj))

    def response_action(  # type: ignore[override]  # the stubs know a later Django
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        """Ask about the chosen things; nothing is done yet."""
        verb = next((name for name in request.POST.getlist("action") if name in self.verbs), None)
        if verb is None:
            messages.warning(request, "No action was chosen; nothing was done.")
            return None
        if request.POST.get("select_across") == "1":
            return self.ask(request, verb, [self.key_of(row) for row in queryset])
        return self.ask(request, verb, request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))

    def ask(
        self, request: HttpRequest, verb: str, keys: Sequence[str], form: forms.Form | None = None
    ) -> TemplateResponse:
        """The question before an action: it names the things, and says what follows."""
        asked = self.verbs[verb]
        names = self.names_of(keys)
        if form is None and asked.form is not None:
            form = asked.form()
        return self.show(
            request,
            "confirm",
            asked.question,
            consequence=asked.consequence,
            button=asked.button,
            names=names[:SHOWN],
            count=len(names),
            more=max(0, len(names) - SHOWN),
            fields={"keys": json.dumps(list(keys))},
            form=form,
            action=self.act_url(verb),
            back=self.list_url(),
        )

    def act_view(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Ask on GET; on POST do it to each, and tell how many it was and what failed."""
        if verb not in self.verbs:
            messages.error(request, "There is no such action.")
            return redirect(self.list_url())
        if request.method != "POST":
            return self.ask(request, verb, request.GET.getlist("key"))
        asked, keys = self.verbs[verb], _read_keys(request.POST.get("keys", ""))
        form = asked.form(request.POST) if asked.form is not None else None
        if form is not None and not form.is_valid():
            return self.ask(request, verb, keys, form)
        self._run(request, asked, keys, form.cleaned_data if form is not None else {})
        return redirect(self.list_url())

    def _run(self, request: HttpRequest, verb: Verb, keys: Iterable[str], choices: Mapping[str, Any]) -> None:
        count, failed = 0, []
        for key in keys:
            try:
                count += verb.run(key, **choices)
            except (CofferError, OSError) as error:
                failed.append(reason(error) or "")
        if count or not failed:
            messages.success(request, verb.done.format(count=count))
        for told in failed[:TOLD]:
            messages.error(request, told)
        if len(failed) > TOLD:
            messages.error(request, f"{len(failed) - TOLD} more failed for reasons like these.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def store_choices() -> list[tuple[str, str]]:
    """Every store by its readable name, with its own name where two read the same."""
    named = [(store.name, stores.display_name(store)) for store in stores.all_stores()]
    read = [name for _, name in named]
    return [(name, shown if read.count(shown) == 1 else f"{shown} ({name})") for name, shown in named]


def laid_out(form: forms.Form) -> helpers.AdminForm:
    """A form as the admin's own templates want it."""
    fields = [(None, {"fields": [field.name for field in form.visible_fields()]})]
    return helpers.AdminForm(cast(Any, form), fields, {})


def _index(**_: str) -> str:
    return reverse("admin:index")


def _read_keys(text: str) -> list[str]:
    try:
        keys = json.loads(text)
    except ValueError:
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
