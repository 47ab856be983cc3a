"""Every URL of the daemon."""

from django.contrib import admin
from django.urls import include, path

from coffer import signin
from coffer.api import api
from coffer.guard import SIGN_IN

admin.autodiscover()  # here and not in every process: a command line needs no pages

urlpatterns = [
    path("api/v1/", api.urls),
    path("admin/", admin.site.urls),
    path(SIGN_IN.lstrip("/"), signin.sign_in, name="sign-in"),
    path("", include("memory.urls")),
    path("", include("agents.urls")),
    path("", include("transcripts.urls")),
]
handler403 = "coffer.pages.forbidden"
handler404 = "coffer.pages.not_found"
handler500 = "coffer.pages.server_error"
