"""The search page: exactly what an agent would be told, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from coffer.errors import StoreNotFound
from memory.models import Store
from memory.retrieval import Explanation
from memory.services import browse, recall, stores
from memory.services.browse import Why

SCOPES = (("both", "its project and global"), ("project", "its project only"), ("global", "global only"))
TOPS = (5, 10, 20)


@dataclass(frozen=True)
class Search:
    """What was asked, what may be asked, and the answer."""

    query: str
    store: str
    scope: str
    top_k: int
    stores: list[tuple[str, str]]
    searched: list[str] = field(default_factory=list)
    found: list[Why] = field(default_factory=list)
    explanation: Explanation | None = None
    scopes: Sequence[tuple[str, str]] = SCOPES
    tops: Sequence[int] = TOPS


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """The query stays in the address."""
    every = stores.all_stores()
    query = request.GET.get("q", "").strip()
    scope = request.GET.get("scope", "both")
    scope = scope if scope in dict(SCOPES) else "both"
    top = request.GET.get("top", "")
    top_k = int(top) if top in {str(one) for one in TOPS} else recall.DEFAULT_TOP_K
    chosen = _chosen(every, request.GET.get("store", ""))
    choice = [(store.name, stores.display_name(store)) for store in every]
    if not query:
        return render(request, "memory/search.html", {"search": Search("", chosen.name, scope, top_k, choice)})
    searched = stores.with_scope(chosen, scope)
    hits, explanation = recall.explain(searched, query, top_k=top_k)
    answer = Search(
        query,
        chosen.name,
        scope,
        top_k,
        choice,
        [stores.display_name(store) for store in searched],
        browse.explain(searched, query, hits, explanation),
        explanation,
    )
    return render(request, "memory/search.html", {"search": answer})


def _chosen(every: Sequence[Store], name: str) -> Store:
    """The store asked for; else the project that was written to last, as the agent at work would have it."""
    if name:
        found = next((store for store in every if store.name == name), None)
        if found is None:
            raise StoreNotFound("There is no such store; choose one of the list.")
        return found
    return next((store for store in every if store.name != "global"), every[0])
