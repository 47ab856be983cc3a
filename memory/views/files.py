"""Open a memory file in the person's editor, show it in the file manager, or give all of its text as it is."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from coffer import desktop
from coffer.errors import CofferError, MemoryNotFound
from memory.services import browse, stores


@require_safe
def text(request: HttpRequest, name: str, file: str) -> HttpResponse:
    """A page's text as it is written, in one piece, for what is too long to be shown as HTML."""
    store = stores.get(name)
    found = browse.raw(store, file)
    if found is None:
        raise MemoryNotFound(
            f"{stores.display_name(store)} has no such page; its lanes and its archive list all there are."
        )
    return HttpResponse(found, content_type="text/plain; charset=utf-8")


@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """Do what the button says, then go back to the page it stands on, which tells how it went."""
    path, back = request.POST.get("path", ""), request.POST.get("next", "")
    try:
        if request.POST.get("action") == "reveal":
            desktop.reveal(path)
            messages.success(request, "Shown in the file manager.")
        else:
            desktop.open_file(path)
            messages.success(request, "Opened in your editor.")
    except CofferError as error:
        messages.error(request, error.message)
    return redirect(back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else "/")
