"""Facts and topics: found by title or text, added, corrected against the version that was read, deleted, moved."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from coffer.admin import reason, words
from coffer.errors import CofferError, Conflict, NotFound, Rejected
from coffer.templatetags.coffer import when
from memory import retrieval
from memory.admin.base import ServiceAdmin, Verb, laid_out, store_choices
from memory.admin.forms import FactForm, MoveForm, NewFactForm, of_fact
from memory.files import markdown
from memory.files.lanes import Kind
from memory.models import Chunk, Document
from memory.services import facts, moves, stores
from memory.services.facts import Fact

BEST = 50  # of what recall finds beside the rows that hold the words literally
BATCH = 1000  # ids that one query may name
LONGEST = 1000  # characters of a search that are looked for literally

CHANGED = (
    "The file was changed by somebody else since you opened it; nothing was saved. What is there now stands below, "
    "what you typed is still in the form. Saving again replaces their version, which then lies in superseded/."
)
GONE = (
    "This is no longer there: since you opened it somebody deleted or moved it, or took away the right to read its "
    "file. What you typed is still in the form and can be saved as a new fact; the store's page Superseded has what "
    "was deleted."
)
NOT_THERE = (
    "That fact or topic is no longer there, or its file cannot be read, which this list then says. The store's page "
    "Superseded has those that were deleted."
)


class StoreFilter(admin.SimpleListFilter):
    """By store, under its readable name."""

    title = "store"
    parameter_name = "store"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return store_choices()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(store__name=self.value()) if self.value() else queryset


class KindFilter(admin.SimpleListFilter):
    """Facts as they came in, or topics that were made of them."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(Kind.FACT, "Facts in the inbox"), (Kind.TOPIC, "Topics")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


def _delete(key: str, *, forever: bool = False) -> int:
    store, _, ref = key.partition("/")
    facts.delete(stores.get(store), ref, forever=forever)
    return 1


def _erase(key: str) -> int:
    return _delete(key, forever=True)


def _move(key: str, target: str) -> int:
    store, _, ref = key.partition("/")
    moves.move(stores.get(store), ref, stores.get(target))
    return 1


class DocumentAdmin(ServiceAdmin):
    list_display = ("shown_title", "shown_store", "kind", "actor", "shown_time", "shown_problem")
    list_filter = (StoreFilter, KindFilter)
    list_select_related = ("store",)
    search_fields = ("title",)
    search_help_text = "Words of a title or text; what answers best stands first."
    ordering = ("-time", "-id")
    verbs = {
        "delete": Verb(
            "Delete (can be restored)",
            "Delete these?",
            "Agents are no longer told them from now on. The files move to superseded/ of their store, from where the "
            "page Superseded brings them back.",
            "Delete",
            "{count} deleted; the store's page Superseded brings them back.",
            _delete,
        ),
        "move": Verb(
            "Move to another store",
            "Move these to another store?",
            "They keep their ids. The files here move to superseded/.",
            "Move",
            "{count} moved.",
            _move,
            MoveForm,
        ),
        "erase": Verb(
            "Delete forever",
            "Delete these forever?",
            "Nothing brings them back: the files, their earlier versions and every trace in the database go. The "
            "database is rewritten for each, which takes some seconds when it is large; the page answers when all is "
            "done.",
            "Delete forever",
            "{count} deleted forever.",
            _erase,
        ),
    }

    def pages(self) -> list[URLPattern]:
        return [
            path("add/", self.guarded(self.add_page, self.list_url), name="memory_document_add"),
            path(
                "<str:store>/<path:ref>/change/",
                self.guarded(self.change_page, self.list_url),
                name="memory_document_change",
            ),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = Document.objects.exclude(kind=Kind.JOURNAL)
        return rows.filter(store__name__in=stores.names_on_disk()).select_related("store")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return True

    def page_of(self, row: Document) -> str:
        return reverse("admin:memory_document_change", args=[row.store.name, row.ref])

    def name_of(self, row: Document) -> str:
        return row.title

    def key_of(self, row: Document) -> str:
        return f"{row.store.name}/{row.ref}"

    def names_of(self, keys: Any) -> list[str]:
        """Titles with their store, in the order of the keys."""
        pairs = [key.partition("/")[::2] for key in keys]
        wanted = {store: [ref for name, ref in pairs if name == store] for store in {name for name, _ in pairs}}
        found = {
            (row.store.name, row.ref): f"{row.title} ({stores.display_name(row.store)})"
            for store, refs in wanted.items()
            for start in range(0, len(refs), BATCH)
            for row in _rows(store, refs[start : start + BATCH])
        }
        return [found[pair] for pair in pairs if pair in found]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Rows that hold the words as they are typed, and the best of what recall finds; the best first."""
        term = markdown.clean(search_term).strip()
        if not term:
            return queryset, False
        best = self._recalled(term, request.GET.get(StoreFilter.parameter_name))
        literal = term[:LONGEST]
        texts = Chunk.objects.filter(document=OuterRef("pk"), text__icontains=literal)
        named = Q(title__icontains=literal) | Q(description__icontains=literal) | Q(path__icontains=literal)
        found = queryset.filter(named | Q(ref=literal) | Q(pk__in=best) | Exists(texts))
        if "o" not in request.GET:
            places = [When(pk=pk, then=Value(place)) for place, pk in enumerate(best)]
            found = found.order_by(Case(*places, default=Value(len(places))), *self.ordering or ())
        return found, False

    def _recalled(self, term: str, store: str | None) -> list[int]:
        among = [one for one in stores.all_stores() if one.pk is not None and store in (None, "", one.name)]
        hits = [(hit.store, hit.ref) for hit in retrieval.search(among, term, BEST)]
        rows = Document.objects.filter(store__in=among, ref__in=[ref for _, ref in hits])
        pks = {(name, ref): pk for name, ref, pk in rows.values_list("store__name", "ref", "pk")}
        return [pks[hit] for hit in hits if hit in pks]

    def add_page(self, request: HttpRequest) -> HttpResponse:
        """A new fact, into any store."""
        chosen = {"store": request.GET.get("store", "global")}
        form = NewFactForm(request.POST) if request.method == "POST" else NewFactForm(initial=chosen)
        if request.method == "POST" and form.is_valid() and self._added(form, form.cleaned_data["store"]):
            messages.success(request, "Saved; the next recall finds it.")
            again = "_addanother" in request.POST
            return redirect(f"{request.path}?store={form.cleaned_data['store']}" if again else self.list_url())
        return self.show(request, "fact", "Add a fact", form=form, adminform=laid_out(form), add=True, readable=True)

    def change_page(self, request: HttpRequest, store: str, ref: str) -> HttpResponse:
        """One fact or topic: its words in a form, saved only onto the version that they were read from."""
        posted = request.method == "POST"
        fact = _typed_over(store, ref) if posted else _current(store, ref)
        if fact is None and not posted:
            messages.error(request, NOT_THERE)
            return redirect(self.list_url())
        form = FactForm(request.POST, initial=of_fact(fact) if fact else {}) if posted else _form_of(fact)
        if posted and form.is_valid() and (told := self._saved(request, store, ref, form, fact)):
            messages.success(request, told)
            return redirect(self.list_url())
        there = _typed_over(store, ref) if posted and form.has_error("__all__", "conflict") else None
        if there is not None:
            form.read_again(there.sha256)
        context = {
            "fact": fact,
            "there": there,
            "gone": posted and form.has_error("__all__", "gone"),
            "readable": posted or fact is None or bool(fact.text) or not fact.problem,
            "verbs": [(name, verb.label) for name, verb in self.verbs.items()],
            "key_query": urlencode({"key": f"{store}/{ref}"}),
            "store": store,
            "store_shown": dict(store_choices()).get(store, store),
        }
        title = "Correct a topic" if fact is not None and fact.kind == "topic" else "Correct a fact"
        return self.show(request, "fact", title, form=form, adminform=laid_out(form), **context)

    def _saved(self, request: HttpRequest, store: str, ref: str, form: FactForm, fact: Fact | None) -> str:
        """What to tell when it was saved; empty, with the reason in the form, when it was not."""
        if "_asnew" in request.POST:
            return "Saved as a new fact; the next recall finds it." if self._added(form, store) else ""
        changes = form.changes(fact)
        if fact is not None and not changes:
            return "Nothing was changed."
        try:
            version = form.cleaned_data["sha256"]
            facts.edit(
                stores.get(store),
                ref,
                text=changes.get("text"),
                title=changes.get("title"),
                description=changes.get("description"),
                if_sha256=version,
            )
        except Conflict:
            form.add_error(None, forms.ValidationError(CHANGED, "conflict"))
        except NotFound:
            form.add_error(None, forms.ValidationError(GONE, "gone"))
        except (CofferError, OSError) as error:
            _explain(form, error)
        else:
            return "Saved; the next recall answers with it. The version before lies in superseded/."
        return ""

    def _added(self, form: FactForm, store: str) -> bool:
        values = form.cleaned_data
        try:
            facts.add_to(store, values["text"], title=values["title"], description=values["description"])
        except (CofferError, OSError) as error:
            _explain(form, error)
            return False
        return True

    @admin.display(description="title", ordering="title")
    def shown_title(self, row: Document) -> SafeString:
        return words(row.title)

    @admin.display(description="store", ordering="store__name")
    def shown_store(self, row: Document) -> SafeString:
        return words(stores.display_name(row.store), 60)

    @admin.display(description="updated", ordering="time")
    def shown_time(self, row: Document) -> SafeString | str:
        return when(row.time)

    @admin.display(description="needs a look", ordering="problem")
    def shown_problem(self, row: Document) -> SafeString:
        return words(row.problem)


def _rows(store: str, refs: list[str]) -> QuerySet[Document]:
    return Document.objects.filter(store__name=store, ref__in=refs).select_related("store")


def _current(store: str, ref: str) -> Fact | None:
    try:
        return facts.get(stores.get(store), ref)
    except NotFound:
        return None


def _typed_over(store: str, ref: str) -> Fact | None:
    """The same when something was typed that must not go: whatever keeps it from being read, the save will tell."""
    try:
        return _current(store, ref)
    except (CofferError, OSError):
        return None


def _form_of(fact: Fact | None) -> FactForm:
    return FactForm(initial=of_fact(fact) if fact is not None else {})


def _explain(form: FactForm, error: Exception) -> None:
    """The service's reason, beside the field it is about; nothing that was typed goes."""
    form.add_error("text" if isinstance(error, Rejected) else None, reason(error) or "")
