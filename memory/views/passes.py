"""Organizing from a store's page: start a pass in the background, or take the last one back."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from memory import schedule
from memory.services import stores
from memory.services import undo as undo_service


@require_POST
def organize(request: HttpRequest, name: str) -> HttpResponse:
    """Hand the store to the background workers."""
    schedule.queue(stores.get(name).name, "user")
    messages.success(request, "The inbox will be organized in the background; this page tells how it went.")
    return redirect("store", name=name)


@require_POST
def reorganize(request: HttpRequest, name: str) -> HttpResponse:
    """The same for a reorganization."""
    schedule.queue_reorg(stores.get(name).name, "user")
    messages.success(request, "The topics will be reorganized in the background; this page tells how it went.")
    return redirect("store", name=name)


@require_POST
def undo(request: HttpRequest, name: str, run: str) -> HttpResponse:
    """Take a pass back."""
    messages.success(request, undo_service.undo(stores.get(name), run).sentence)
    return redirect("store", name=name)
