"""Addresses of the sessions' pages."""

from django.urls import path

from transcripts import views

urlpatterns = [
    path("sessions", views.overview, name="sessions"),
    path("sessions/distill", views.past, name="distill-past"),
    path("session", views.session, name="session"),
    path("session/distill", views.distill, name="distill-session"),
    path("session/preview", views.preview, name="preview-session"),
]
