"""How a browser gets in: a one-time code that only this user's programs can have, exchanged for a session.

Threats answered here: another user or website that wants in (the code has 256 bits, is good for a minute and for one
use, and only its hash is kept, in the daemon's memory); the code in a process list or a log (it travels in a 0600
file); another daemon or program on another port of this host (cookies carry the port in their name).
"""

import hashlib
import html
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from coffer import fs, paths
from coffer.guard import SIGN_IN
from coffer.middleware import note_damage

SECONDS = 60.0
OWNER = "owner"
_WITHOUT_SESSION = ("/api/v1/", SIGN_IN)
_codes: dict[str, float] = {}
_lock = threading.Lock()
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>Opening Coffer</title>
<body style="font: 16px/1.5 system-ui, sans-serif; margin: 4rem auto; max-width: 40ch; padding: 0 1rem">
<form method="post" action="{url}">
<input type="hidden" name="code" value="{code}">
<p>Opening Coffer&hellip;</p>
<p><button style="font: inherit; padding: .4rem .8rem">Continue</button></p>
</form>
<script>document.forms[0].submit()</script>
</body>
</html>
"""


def issue() -> str:
    """A new code, good once and for a minute; only the daemon that made it knows it."""
    code, now = secrets.token_urlsafe(32), time.monotonic()
    with _lock:
        for old in [digest for digest, deadline in _codes.items() if deadline < now]:
            del _codes[old]
        _codes[_digest(code)] = now + SECONDS
    return code


def redeem(code: str) -> bool:
    """Whether a code is good now; whatever the answer, it is not good a second time."""
    with _lock:
        deadline = _codes.pop(_digest(code), None)
    return deadline is not None and time.monotonic() <= deadline


def write_page(url: str, code: str) -> Path:
    """The 0600 file that posts the code by itself, or by its button; older ones are removed."""
    folder = fs.ensure_dir(paths.home() / "open")
    for old in folder.glob("*.html"):
        old.unlink(missing_ok=True)
    page = _page_of(code)
    text = _PAGE.format(url=html.escape(f"{url.rstrip('/')}{SIGN_IN}"), code=html.escape(code))
    fs.write(page, text.encode())
    return page


def link(url: str, code: str) -> str:
    """The address that signs in when it is opened once."""
    return f"{url.rstrip('/')}{SIGN_IN}?code={code}"


@csrf_exempt  # the code is the secret: who does not have it gets nowhere, and no session is needed to send it
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Exchange a code for a session.

    The answer to the file's form moves on by meta refresh: a redirect would still belong to the file, and a browser
    sends no SameSite=Strict cookie there.
    """
    code = (request.POST if request.method == "POST" else request.GET).get("code", "")
    if not redeem(code):
        return locked(request, used_up=bool(code))
    request.session.clear_expired()
    login(request, owner())
    with suppress(OSError):
        _page_of(code).unlink()
    return redirect("/") if request.method == "GET" else render(request, "signin/welcome.html")


def owner() -> User:
    """The one who owns this memory, as a user of Django: made at need, without any password that could be typed."""
    user, made = User.objects.get_or_create(username=OWNER, defaults={"is_staff": True, "is_superuser": True})
    if made:
        user.set_unusable_password()
        user.save()
    return user


def locked(request: HttpRequest, *, used_up: bool = False) -> HttpResponse:
    """What whoever is not signed in gets, whatever they ask for."""
    return render(request, "signin/locked.html", {"used_up": used_up}, status=401)


class SignedIn:
    """Pages are for who is signed in; the others learn how to, and nothing else. REST has its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(_WITHOUT_SESSION[0]) or request.path == _WITHOUT_SESSION[1]:
            return self._get_response(request)
        if not _is_signed_in(request):
            return locked(request)
        response = self._get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class PortCookies:
    """Name our cookies with the port: cookies belong to a host, whatever else listens there on other ports."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        names = {name: f"{name}-{request.META['SERVER_PORT']}" for name in _cookie_names()}
        for name, wire in names.items():
            if wire in request.COOKIES:
                request.COOKIES[name] = request.COOKIES.pop(wire)
        response = self._get_response(request)
        for name, wire in names.items():
            if (morsel := response.cookies.pop(name, None)) is not None:
                response.cookies[wire] = morsel.value
                response.cookies[wire].update(morsel)
        return response


def _cookie_names() -> tuple[str, str]:
    return settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME


def _is_signed_in(request: HttpRequest) -> bool:
    try:
        return request.user.is_authenticated and request.user.is_staff
    except DatabaseError as error:
        note_damage(request, error)
        raise


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def _page_of(code: str) -> Path:
    """The file of a code; its name tells nothing of it."""
    return paths.home() / "open" / f"{_digest(code)[:16]}.html"
