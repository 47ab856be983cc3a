"""Addresses of the agents' pages."""

from django.urls import path

from agents import views

urlpatterns = [
    path("agents", views.overview, name="agents"),
    path("agents/<name>", views.agent, name="agent"),
]
