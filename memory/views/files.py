"""Open a memory file in the person's editor, or show it in the file manager."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from coffer import desktop
from coffer.errors import CofferError


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
