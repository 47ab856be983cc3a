"""Stores: named, cleared, retired; and the way to what lies in their lanes."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import Case, Count, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from coffer.admin import reason, words
from coffer.errors import CofferError, NotFound
from coffer.templatetags.coffer import when
from coffer.text import visible
from memory import schedule
from memory.admin import merging
from memory.admin.base import ServiceAdmin, Verb, laid_out
from memory.admin.forms import LabelForm, RuleForm, SearchForm
from memory.admin.lanes import LANES, Lane
from memory.files.lanes import Kind
from memory.models import Store
from memory.services import browse, counts, embedding, facts, rules, stores, undo


def _clear(key: str) -> int:
    return facts.clear(stores.get(key))


def _organize(key: str) -> int:
    schedule.queue(stores.get(key).name, "user")
    return 1


def _reorganize(key: str) -> int:
    schedule.queue_reorg(stores.get(key).name, "user")
    return 1


def _undo(key: str) -> int:
    _, done = undo.undo_last(stores.get(key))
    return done.notes + done.topics + done.rules


def _retire(key: str) -> int:
    stores.retire(stores.get(key))
    return 1


SHOWN_ITEMS = 1000


class StoreAdmin(ServiceAdmin):
    list_display = ("shown_name", "facts", "topics", "days", "shown_root", "shown_time")
    search_fields = ("name", "label", "project_root", "remote")
    search_help_text = "A name, a folder or a remote."
    ordering = (Case(When(name="global", then=Value(0)), default=Value(1)), "-updated_at")
    verbs = {
        "clear": Verb(
            "Clear (can be restored)",
            "Clear these stores?",
            "Every fact and topic moves to superseded/, from where the page Superseded brings each back; rules, "
            "journal and handoffs stay. A thousand files take some seconds; the page answers when all is done.",
            "Clear",
            "{count} facts and topics moved to superseded/.",
            _clear,
        ),
        "organize": Verb(
            "Organize the inbox",
            "Organize these stores?",
            "The connected model files the notes of each inbox under topics and rules, in the background. Each note is "
            "sent with up to three topics; what is replaced is kept in superseded/. Without a model nothing happens.",
            "Organize",
            "{count} stores will be organized in the background; each store's page tells how it went.",
            _organize,
        ),
        "reorg": Verb(
            "Reorganize the topics",
            "Reorganize these stores?",
            "The connected model reads topics and journal and merges what overlaps, in the background. No line is "
            "dropped, and what is replaced is kept in superseded/. Without a model nothing happens.",
            "Reorganize",
            "{count} stores will be reorganized in the background; each store's page tells how it went.",
            _reorganize,
        ),
        "undo": Verb(
            "Undo the last pass",
            "Take the last pass over these stores back?",
            "Of the newest organizing or reorganizing of each that was not undone yet, notes come back into the inbox, "
            "and topics and rules become what they were, unless somebody changed them since; what the pass wrote is "
            "kept in superseded/. The log of each store tells what came back and what stays.",
            "Undo",
            "{count} notes, topics and rules are as they were; the change log tells what stays.",
            _undo,
        ),
        "retire": Verb(
            "Archive the whole store",
            "Archive these stores?",
            "Agents are no longer told anything of them. Each folder moves as it is to retired/ in Coffer's memory "
            "folder; moving it back by hand brings the store back. The global store cannot be archived.",
            "Archive",
            "{count} stores moved to retired/.",
            _retire,
        ),
    }

    def pages(self) -> list[URLPattern]:
        return [
            *merging.pages(self),
            path("<str:store>/change/", self.guarded(self.change_page, self.list_url), name="memory_store_change"),
            path("<str:store>/search/", self.guarded(self.search_view, _store_url), name="memory_store_search"),
            path("<str:store>/<str:lane>/", self.guarded(self.lane_page, _store_url), name="memory_store_lane"),
            path("<str:store>/<str:lane>/item/", self.guarded(self.item_page, _lane_url), name="memory_store_item"),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        kinds = {"facts": Kind.FACT, "topics": Kind.TOPIC, "days": Kind.JOURNAL}
        counts = {f"{name}_count": Count("documents", filter=Q(documents__kind=kind)) for name, kind in kinds.items()}
        return Store.objects.filter(name__in=stores.names_on_disk()).annotate(**counts)

    def page_of(self, row: Store) -> str:
        return reverse("admin:memory_store_change", args=[row.name])

    def name_of(self, row: Store) -> str:
        return stores.display_name(row)

    def key_of(self, row: Store) -> str:
        return row.name

    def names_of(self, keys: Sequence[str]) -> list[str]:
        known = {store.name: store for store in stores.all_stores()}
        return [f"{stores.display_name(known[key])} ({key})" for key in keys if key in known]

    def change_page(self, request: HttpRequest, store: str) -> HttpResponse:
        """One store: its name in a form, what it holds, and the way to its lanes."""
        found = stores.get(store)
        form = LabelForm(request.POST or None, initial={"label": found.label})
        if form.is_valid():
            try:
                stores.set_label(found, form.cleaned_data["label"])
            except (CofferError, OSError) as error:
                form.add_error("label", reason(error) or "")
            else:
                messages.success(request, "The name was saved.")
                return redirect(request.path)
        context = {
            "store": found,
            "store_shown": stores.display_name(found),
            "counts": browse.counts(found),
            "metrics": counts.metrics(found),
            "folder": stores.folder(found),
            "config": stores.config(found),
            "search_form": SearchForm(initial=_search_settings(found)),
            "vectors": embedding.about(found),
            "lanes": [lane for lane in LANES.values() if not lane.of_projects or stores.scope_of(found) == "project"],
            "verbs": [(name, verb.label) for name, verb in self.verbs.items()],
        }
        return self.show(request, "store", "Store", form=form, adminform=laid_out(form), **context)

    def search_view(self, request: HttpRequest, store: str) -> HttpResponse:
        """Save how a store is searched, or try its embedding model out."""
        found = stores.get(store)
        form = SearchForm(request.POST or None)
        if "test" in request.POST:
            _tell_trial(request, embedding.trial(found))
        elif form.is_valid():
            stores.configure(found, form.settings())
            messages.success(request, "How it is searched was saved.")
        return redirect(_store_url(store))

    def lane_page(self, request: HttpRequest, store: str, lane: str) -> HttpResponse:
        """What lies in one lane of a store; a POST does something to one item, after asking where that is needed."""
        found, of = stores.get(store), _lane(lane)
        form = RuleForm() if of.name == "rules" else None
        if request.method == "POST" and request.POST.get("verb") == "add" and form is not None:
            form = RuleForm(request.POST)
            if form.is_valid() and _rule_added(form, found):
                messages.success(request, "The rule was added; agents are told it from their next session on.")
                return redirect(request.path)
        elif request.method == "POST":
            return self._act_on_item(request, found, of)
        items = of.items(found)
        shown = items[:SHOWN_ITEMS]
        frame = {"store": found, "store_shown": stores.display_name(found), "lane": of}
        return self.show(request, "lane", of.title, items=shown, count=len(items), form=form, **frame)

    def item_page(self, request: HttpRequest, store: str, lane: str) -> HttpResponse:
        """The text of one item, as it is written."""
        found, of, key = stores.get(store), _lane(lane), request.GET.get("key", "")
        text = of.read(found, key) if of.read is not None else ""
        item = next((item for item in of.items(found) if item.key == key), None)
        frame = {"store": found, "store_shown": stores.display_name(found), "lane": of, "item": item}
        return self.show(request, "item", of.title, text=visible(text), **frame)

    def _act_on_item(self, request: HttpRequest, store: Store, lane: Lane) -> HttpResponse:
        name, key = request.POST.get("verb", ""), request.POST.get("key", "")
        item = next((item for item in lane.items(store) if item.key == key), None)
        verb = next((verb for verb in item.verbs if verb.name == name), None) if item is not None else None
        if item is None or verb is None:
            messages.error(request, "That is no longer there, or this cannot be done to it; nothing was done.")
        elif verb.asks and "confirmed" not in request.POST:
            fields = {"verb": name, "key": key, "confirmed": "yes"}
            frame = {"names": [item.title], "count": 1, "fields": fields, "back": request.path}
            title = f"{verb.button} this?"
            return self.show(request, "confirm", title, consequence=verb.asks, button=verb.button, **frame)
        else:
            try:
                verb.run(store, key)
                messages.success(request, verb.done)
            except (CofferError, OSError) as error:
                messages.error(request, reason(error) or "")
        return redirect(request.path)

    @admin.display(description="name", ordering="label")
    def shown_name(self, row: Store) -> SafeString:
        return words(stores.display_name(row))

    @admin.display(description="last write", ordering="updated_at")
    def shown_time(self, row: Store) -> SafeString | str:
        return when(row.updated_at)

    @admin.display(description="in the inbox", ordering="facts_count")
    def facts(self, row: Any) -> int:
        return int(row.facts_count)

    @admin.display(description="topics", ordering="topics_count")
    def topics(self, row: Any) -> int:
        return int(row.topics_count)

    @admin.display(description="journal days", ordering="days_count")
    def days(self, row: Any) -> int:
        return int(row.days_count)

    @admin.display(description="folder or remote", ordering="project_root")
    def shown_root(self, row: Store) -> SafeString:
        return words(row.project_root or row.remote)


def _search_settings(store: Store) -> dict[str, str]:
    own = store.config
    return {"retrieval": own.get("retrieval") or "", "provider": (own.get("embedding") or {}).get("provider", "")}


def _tell_trial(request: HttpRequest, trial: embedding.Trial) -> None:
    said = f" It says: {trial.said}" if trial.said else ""
    tell = messages.success if trial.ok else messages.error
    tell(request, f"{trial.message}{said}")
    for warning in trial.warnings:
        messages.warning(request, warning)


def _lane(name: str) -> Lane:
    if name not in LANES:
        raise NotFound("A store has no such page.")
    return LANES[name]


def _rule_added(form: RuleForm, store: Store) -> bool:
    try:
        if rules.append(store, form.cleaned_data["text"], actor="user"):
            return True
        form.add_error("text", "There is an equal rule already; nothing was added.")
    except (CofferError, OSError) as error:
        form.add_error("text", reason(error) or "")
    return False


def _store_url(store: str, **_: str) -> str:
    return reverse("admin:memory_store_change", args=[store])


def _lane_url(store: str, lane: str) -> str:
    return reverse("admin:memory_store_lane", args=[store, lane])
