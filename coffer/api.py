"""The REST API: one NinjaAPI, the token, one translation of errors, and the apps' routers."""

import json
import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI, Schema, Status
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.docs import Swagger
from ninja.security import APIKeyHeader

from agents.api import router as agents_router
from coffer import __version__, auth, db, signin
from coffer.engine_routes import router as engine_router
from coffer.errors import CofferError, where
from coffer.middleware import note_damage
from coffer.routes import router as own_router
from gateway.api import router as gateway_router
from memory.api import router as memory_router
from transcripts.api import router as transcripts_router

log = logging.getLogger("coffer.api")


class TokenHeader(APIKeyHeader):
    """The daemon's token in ``X-Coffer-Token``."""

    param_name = "X-Coffer-Token"

    def authenticate(self, request: HttpRequest, key: str | None) -> str | None:
        return "token" if auth.token_matches(key) else None


class LocalDocs(Swagger):
    """Ninja's page with its files from this disk: it takes them from another host unless ninja is an app."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        shown = {**self.settings, "url": self.get_openapi_url(api, kwargs)}
        return render(request, self.template, {"swagger_settings": json.dumps(shown), "api": api, "add_csrf": False})


api = NinjaAPI(
    title="Coffer",
    version=__version__,
    urls_namespace="api",
    auth=TokenHeader(),
    docs=LocalDocs(),
    docs_url="/docs",
    openapi_extra={},
)


for _router in (memory_router, agents_router, gateway_router, transcripts_router, engine_router, own_router):
    api.add_router("", _router)


class DaemonStatus(Schema):
    status: str
    version: str
    proof: str | None = None


@api.get("/daemon/status", auth=None, response=DaemonStatus, summary="Whether the daemon answers, and proof of it")
def daemon_status(request: HttpRequest, nonce: str | None = None) -> dict[str, Any]:
    """Needs no token and tells nothing private; with a nonce, proves that this process can read the token file."""
    port = int(request.META["SERVER_PORT"])
    return {"status": "ok", "version": __version__, "proof": auth.proof(nonce, port) if nonce else None}


class SignInCode(Schema):
    code: str


@api.post(
    "/daemon/sign_in_codes", response={201: SignInCode}, summary="A code that signs a browser in, once, within a minute"
)
def make_sign_in_code(request: HttpRequest) -> Status[dict[str, str]]:
    """What `coffer open` asks for; the daemon keeps only its hash, in memory."""
    return Status(201, {"code": signin.issue()})


def _error(request: HttpRequest, status: int, code: str, message: str, details: object = None) -> HttpResponse:
    body = {"error": {"code": code, "message": message, "details": details or {}}}
    return api.create_response(request, body, status=status)


@api.exception_handler(CofferError)
def on_coffer_error(request: HttpRequest, error: CofferError) -> HttpResponse:
    return _error(request, error.status, error.code, error.message, error.details)


@api.exception_handler(AuthenticationError)
def on_missing_token(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    message = "Send the token from COFFER_HOME/token in the header X-Coffer-Token."
    return _error(request, 401, "UNAUTHORIZED", message)


@api.exception_handler(ValidationError)
def on_invalid_request(request: HttpRequest, error: ValidationError) -> HttpResponse:
    # What was sent stays out of the answer: it may be content.
    fields = [{"field": _field(one["loc"]), "reason": one["msg"]} for one in error.errors]
    where = ", ".join(one["field"] for one in fields)
    return _error(request, 422, "INVALID", f"The request is not valid: look at {where}.", {"fields": fields})


@api.exception_handler(HttpError)
def on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    codes = {400: "INVALID", 403: "FORBIDDEN", 404: "NOT_FOUND", 413: "TOO_LARGE"}
    return _error(request, error.status_code, codes.get(error.status_code, "INVALID"), error.message)


@api.exception_handler(Exception)
def on_unexpected(request: HttpRequest, error: Exception) -> HttpResponse:
    if db.locked(error):
        return _error(request, 503, "BUSY", "Another program is writing to Coffer's database; try again in a moment.")
    note_damage(request, error)
    route = request.resolver_match.route if request.resolver_match else "?"
    log.error("request failed route=%s error=%s", route, where(error))
    return _error(request, 500, "INTERNAL", "Something went wrong inside Coffer; logs/daemon.log names the place.")


def _field(place: tuple[str | int, ...]) -> str:
    """The name that the caller knows it by: without where ninja looked for it, and the name of our own parameter."""
    kind, *parts = place
    inner = parts[1:] if kind == "body" else parts
    return ".".join(map(str, inner)) or "the body"
