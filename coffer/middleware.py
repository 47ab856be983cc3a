"""What every request to Django passes: headers, static files, a database that was replaced or damaged meanwhile."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from coffer import db

GetResponse = Callable[[HttpRequest], HttpResponse]


class Headers:
    """Tell browsers that our pages load nothing but our own files, and are shown in no other page.

    No style or script may stand in a page itself, so that text which slipped through all other care does nothing.
    """

    POLICY = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers["Content-Security-Policy"] = self.POLICY
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response


class Static(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise has no types
    """Static files in one piece: they are small, and a synchronous stream makes Django's ASGI handler warn."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        streamed = WhiteNoiseMiddleware.serve(static_file, request)
        whole = HttpResponse(b"".join(streamed.streaming_content), status=streamed.status_code)
        streamed.close()
        whole.headers = streamed.headers
        return whole


class Heal:
    """Use the database file that is there now; when it turns out damaged, rebuild it and ask the view once more.

    A view may be asked twice safely: services let no database error out once a file is written.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        db.refresh_connection()
        response = self._get_response(request)
        if getattr(request, "met_damage", False):
            db.recover()
            request.met_damage = False  # type: ignore[attr-defined]
            response = self._get_response(request)
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> None:
        note_damage(request, error)


def note_damage(request: HttpRequest, error: Exception) -> None:
    """Mark a request whose view failed because of the database file."""
    if db.damaged(error):
        request.met_damage = True  # type: ignore[attr-defined]
