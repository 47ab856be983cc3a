"""Django admin over connections to models, with a test of each, and over the calls that were made."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from coffer import connections, llm
from coffer.admin import ReadOnlyAdmin, words
from coffer.connections import FEATURES
from coffer.errors import CofferError, Invalid
from coffer.models import LlmCall, LlmConnection

_FIELDS = ("name", "base_url", "model", "key")
_CHOICE = (("yes", "Yes"), ("no", "No"))
_USES = (("", "If it stays on this machine"), *_CHOICE)


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]
    """A connection; each field is checked as the service does."""

    use_it = forms.ChoiceField(choices=_CHOICE, help_text="One connection is used; another one gives way.")
    may_organize = forms.ChoiceField(choices=_USES, required=False, help_text=f"Sends {FEATURES['organize']}.")
    may_distill = forms.ChoiceField(choices=_USES, required=False, help_text=f"Sends {FEATURES['distill']}.")

    class Meta:
        model = LlmConnection
        fields = _FIELDS
        labels = {"base_url": "Base URL"}
        help_texts = {
            "name": "As you want to call it.",
            "base_url": "Address of an OpenAI-compatible endpoint, such as https://host/v1.",
            "model": "As the endpoint spells it.",
            "key": "Where the key is, never the key itself: env:NAME, keyring:service/user, or blank for none.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        self.initial["use_it"] = (
            row.is_default if row.pk else not LlmConnection.objects.filter(is_default=True).exists()
        )
        if row.pk:
            for feature in FEATURES:
                self.initial[f"may_{feature}"] = "yes" if getattr(row, f"allow_{feature}") else "no"

    def _clean_fields(self) -> None:
        super()._clean_fields()  # type: ignore[misc]  # Django's own step, unknown to the stubs
        for field in _FIELDS:
            if field in self.cleaned_data:
                try:
                    self.cleaned_data[field] = connections.check(field, self.cleaned_data[field])
                except Invalid as error:
                    self.add_error(field, error.message)

    def values(self) -> dict[str, Any]:
        """The fields for the service; a use that was not chosen, or not changed, is left to it."""
        given = {field: self.cleaned_data[field] for field in _FIELDS}
        for feature in FEATURES:
            chosen = self.cleaned_data[f"may_{feature}"] if f"may_{feature}" in self.changed_data else ""
            given[f"allow_{feature}"] = {"yes": True, "no": False}.get(chosen)
        return {**given, "is_default": self.cleaned_data["use_it"] == "yes"}


@admin.register(LlmConnection)
class ConnectionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = ConnectionForm
    fields = (*_FIELDS, "use_it", "may_organize", "may_distill")
    list_display = ("shown_name", "shown_model", "base_url", "used", "may_organize", "may_distill", "key")
    actions = ("test_connections",)
    actions_on_bottom = False
    change_form_template = "admin/coffer/llmconnection/change_form.html"
    delete_confirmation_template = "admin/coffer/llmconnection/delete_confirmation.html"

    @admin.display(description="name", ordering="name")
    def shown_name(self, row: LlmConnection) -> SafeString:
        return words(row.name)

    @admin.display(description="model", ordering="model")
    def shown_model(self, row: LlmConnection) -> SafeString:
        return words(row.model)

    @admin.display(description="used", boolean=True, ordering="is_default")
    def used(self, row: LlmConnection) -> bool:
        return row.is_default

    @admin.display(description="may organize", boolean=True)
    def may_organize(self, row: LlmConnection) -> bool:
        return row.allow_organize

    @admin.display(description="may distill", boolean=True)
    def may_distill(self, row: LlmConnection) -> bool:
        return row.allow_distill

    @admin.action(description="Test: call them once")
    def test_connections(self, request: HttpRequest, queryset: QuerySet[LlmConnection]) -> None:
        for row in queryset:
            self._test(request, row.pk)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)  # one is forgotten on its own page
        return actions

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        for finding in llm.health():
            level = messages.INFO if finding.level == "ok" else messages.WARNING
            messages.add_message(request, level, finding.message)
        return super().changelist_view(request, {"title": "Connections to models"})

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(require_POST(self.test_view))
        return [path("<int:id>/test/", view, name="coffer_llmconnection_test"), *super().get_urls()]

    def test_view(self, request: HttpRequest, id: int) -> HttpResponse:
        self._test(request, id)
        return redirect(reverse("admin:coffer_llmconnection_change", args=[id]))

    def _test(self, request: HttpRequest, id: int) -> None:
        try:
            connection = connections.get(id)
        except CofferError as error:
            messages.error(request, error.message)
            return
        trial = llm.test(connection)
        said = f" It says: {trial.said}" if trial.said else ""
        tell = messages.success if trial.ok else messages.error
        tell(request, f"{connection.name}: {trial.message}{said}")

    def save_model(self, request: HttpRequest, obj: LlmConnection, form: ConnectionForm, change: bool) -> None:
        """Through the service, which knows what may be sent where."""
        values = form.values()
        saved = connections.change(obj.pk, **values) if change else connections.add(**values)
        obj.pk = saved.id
        for sentence in connections.advice(saved):
            messages.warning(request, sentence)

    def delete_model(self, request: HttpRequest, obj: LlmConnection) -> None:
        connections.remove(obj.pk)


@admin.register(LlmCall)
class CallAdmin(ReadOnlyAdmin):
    list_display = ("shown_time", "purpose", "store", "shown_model", "tokens_in", "tokens_out", "ms", "outcome")
    list_filter = ("purpose", "outcome", "connection", "at")
    search_fields = ("purpose", "store", "connection", "model", "outcome")
    search_help_text = "A purpose, a store's own name, a connection, a model, or an outcome."

    @admin.display(description="model", ordering="model")
    def shown_model(self, row: LlmCall) -> SafeString:
        return words(row.model)
