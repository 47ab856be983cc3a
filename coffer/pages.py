"""What all pages share: the bar, the health dot, and pages for what went wrong."""

import threading
import time
from dataclasses import dataclass
from functools import cached_property

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse

from coffer import db, later, registry
from coffer.errors import CofferError, MethodNotAllowed, NotFound
from coffer.guard import SIGN_IN
from coffer.middleware import GetResponse
from coffer.registry import Finding

HEALTH_SECONDS = 30.0
_ORDER = ("ok", "warning", "error")
_health: tuple[float, list[Finding]] | None = None
_health_lock = threading.Lock()


@dataclass(frozen=True)
class Link:
    title: str
    url: str
    current: bool


@dataclass(frozen=True)
class Health:
    """How everything is: the worst level, and what is not well."""

    level: str
    troubles: list[Finding]

    @property
    def words(self) -> str:
        if not self.troubles:
            return "All is well"
        return f"{len(self.troubles)} {'thing needs' if len(self.troubles) == 1 else 'things need'} a look"


class Frame:
    """What stands around a page's content; asked for by the templates, so that nothing is computed in vain."""

    def __init__(self, request: HttpRequest) -> None:
        self._path = request.path

    @cached_property
    def navigation(self) -> list[Link]:
        return [self._link(entry) for entry in registry.navigation()]

    @cached_property
    def health(self) -> Health:
        return summary(lately())

    def _link(self, entry: registry.NavigationEntry) -> Link:
        url = reverse(entry.view)
        return Link(
            entry.title, url, self._path == url or self._path.startswith(entry.under or (f"{url.rstrip('/')}/",))
        )


def frame(request: HttpRequest) -> dict[str, Frame]:
    """Context processor: ``frame`` in every template."""
    return {"frame": Frame(request)}


def lately() -> list[Finding]:
    """What the health checks found lately: they look at the whole index, too much for every page.

    The first page asks them; after half a minute the next page has them asked again, behind its back.
    """
    global _health
    with _health_lock:
        known = _health
        if known is not None and time.monotonic() - known[0] > HEALTH_SECONDS:
            _health = (time.monotonic(), known[1])  # whoever comes next need not ask too
            later.write(check_now)
    return check_now() if known is None else known[1]


def check_now() -> list[Finding]:
    """Ask all health checks."""
    global _health
    found = registry.health()
    with _health_lock:
        _health = (time.monotonic(), found)
    return found


def summary(findings: list[Finding]) -> Health:
    troubles = [finding for finding in findings if finding.level != "ok"]
    level = max((finding.level for finding in troubles), key=_ORDER.index, default="ok")
    return Health(level, sorted(troubles, key=lambda finding: -_ORDER.index(finding.level)))


class Problems:
    """Turn an error that has a name into a page that says what happened and what to do; REST has its own."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        return not_allowed(request, response) if response.status_code == 405 else response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, CofferError):
            return problem(request, error.status, error.message)
        if db.locked(error) and not db.damaged(error):
            return problem(request, 503, "Another program is writing to Coffer's database; try again in a moment.")
        return None


def problem(request: HttpRequest, status: int, message: str) -> HttpResponse:
    """A page for an error: its message says what happened and what to do."""
    context = {"status": status, "title": _TITLES.get(status, "That did not work"), "message": message}
    return render(request, "error.html", context, status=status)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith("/api/"):
        error = NotFound("There is no such route; /api/v1/openapi.json lists those there are.")
        return JsonResponse({"error": error.as_dict()}, status=404)
    return render(request, "404.html", status=404)


def not_allowed(request: HttpRequest, bare: HttpResponse) -> HttpResponse:
    """In place of the empty answer to a verb that a route does not take; the header ``Allow`` names those it takes."""
    if request.path.startswith("/api/"):
        verbs = sorted(bare.headers.get("Allow", "").split(", "))
        message = f"This route does not take {request.method}; it takes {' and '.join(verbs)}."
        error = MethodNotAllowed(message, allowed=verbs)
        response: HttpResponse = JsonResponse({"error": error.as_dict()}, status=error.status)
    elif request.path == SIGN_IN:
        return bare  # whoever asks may not be signed in, and the bar of a page tells how everything is
    else:
        response = problem(
            request, 405, "This address only takes what a form sends; go back and use the page's button."
        )
    response.headers["Allow"] = bare.headers.get("Allow", "")
    return response


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(request, 403, "This is not for you to see or do. Go back to the stores and try another way.")


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return problem(
        request, 403, "This form is too old, or is not Coffer's own. Go back, reload the page, and try again."
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Without health and bar's database: they may be what failed."""
    return render(request, "500.html", status=500)


_TITLES = {
    403: "Not allowed",
    404: "Not there",
    405: "Not an address to open",
    409: "Changed meanwhile",
    413: "Too large to show",
    422: "That cannot be done",
    503: "Busy",
    507: "The disk refuses",
}
