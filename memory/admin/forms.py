"""The admin's forms: what is typed stays typed, whatever the service says to it."""

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget

from memory.admin.base import store_choices
from memory.services import facts
from memory.services.facts import Fact

FIELDS = ("title", "description", "text")


class FactForm(forms.Form):
    """The words of a fact or topic, and the hash of the file they were read from."""

    title = forms.CharField(
        required=False,
        widget=AdminTextInputWidget({"dir": "auto"}),
        help_text="States the conclusion: agents see titles first. Left empty, the first sentence of the text.",
    )
    description = forms.CharField(required=False, widget=AdminTextInputWidget({"dir": "auto"}))
    text = forms.CharField(strip=False, widget=AdminTextareaWidget({"dir": "auto", "rows": 20}))
    sha256 = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean_title(self) -> str:
        return self._short("title")

    def clean_description(self) -> str:
        return self._short("description")

    def clean_text(self) -> str:
        """Browsers send CR LF; files have LF."""
        text: str = self.cleaned_data["text"]
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def changes(self, fact: Fact | None) -> dict[str, str]:
        """What differs from the file as it is now; everything when it is gone."""
        return {
            name: self.cleaned_data[name] for name in FIELDS if self.cleaned_data[name] != getattr(fact, name, None)
        }

    def read_again(self, sha256: str) -> None:
        """Let the next save be a change of the version that has just been shown beside this one."""
        self.data = {**{name: self.data.get(name, "") for name in FIELDS}, "sha256": sha256}

    def _short(self, name: str) -> str:
        text: str = self.cleaned_data[name]
        if name in self.changed_data and len(text) > facts.MAX_TITLE:
            raise forms.ValidationError(f"{len(text)} characters are too many; {facts.MAX_TITLE} are kept.")
        return text


class NewFactForm(FactForm):
    """A new fact, and the store it goes to."""

    store = forms.ChoiceField(choices=store_choices)
    field_order = ("store", *FIELDS)


class LabelForm(forms.Form):
    """The readable name of a store."""

    label = forms.CharField(
        label="Name",
        required=False,
        widget=AdminTextInputWidget({"dir": "auto"}),
        help_text="What people call this store. Left empty, the name of its folder.",
    )


class SearchForm(forms.Form):
    """How a store is searched; what is left empty follows the global settings."""

    retrieval = forms.ChoiceField(
        label="Searched by",
        required=False,
        choices=(("", "as COFFER_RETRIEVAL says"), ("keyword", "words"), ("hybrid", "words and vectors")),
        help_text="Vectors also find what says the same in other words, or in the other language.",
    )
    provider = forms.ChoiceField(
        label="Vectors by",
        required=False,
        choices=(
            ("", "the endpoint that is set, else the local model"),
            ("endpoint", "the endpoint"),
            ("local", "the local model"),
        ),
        help_text="COFFER_EMBEDDING_BASE_URL and COFFER_EMBEDDING_MODEL set the endpoint; it gets every passage of "
        "this store and every question to it. coffer[semantic] brings the local model, and nothing leaves.",
    )

    def settings(self) -> dict[str, Any]:
        """The same for the service."""
        provider = self.cleaned_data["provider"]
        return {
            "retrieval": self.cleaned_data["retrieval"] or None,
            "embedding": {"provider": provider} if provider else None,
        }


class RuleForm(forms.Form):
    """A new rule."""

    text = forms.CharField(
        label="New rule",
        strip=False,
        widget=AdminTextareaWidget({"dir": "auto", "rows": 3}),
        help_text="What agents must always or never do, in one line.",
    )


class MoveForm(forms.Form):
    """Where to move facts to."""

    target = forms.ChoiceField(label="Move to", choices=store_choices)


def of_fact(fact: Fact) -> dict[str, Any]:
    """The form's fields as the file has them."""
    return {**{name: getattr(fact, name) for name in FIELDS}, "sha256": fact.sha256}
