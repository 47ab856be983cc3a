"""Django admin over agents, whose actions go through the services, and over the ledger of deliveries."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.safestring import SafeString

from agents.models import Agent, Delivery
from agents.services import health, hooks, registration
from coffer.admin import ReadOnlyAdmin, words
from memory.admin.base import ServiceAdmin, Verb


def _install(key: str) -> int:
    hooks.install(registration.get(key))
    return 1


def _uninstall(key: str) -> int:
    hooks.uninstall(registration.get(key))
    return 1


def _prompts_on(key: str) -> int:
    registration.change(key, prompt_context=True)
    return 1


def _prompts_off(key: str) -> int:
    registration.change(key, prompt_context=False)
    return 1


def _memory_off(key: str) -> int:
    registration.change(key, disable_native_memory=True)
    return 1


def _memory_back(key: str) -> int:
    registration.change(key, disable_native_memory=False)
    return 1


@admin.register(Agent)
class AgentAdmin(ServiceAdmin):
    list_display = ("shown_name", "shown_health", "shown_hook", "prompt_context", "disable_native_memory")
    search_fields = ("name", "type", "folder")
    search_help_text = "A name, a kind, or a folder."
    verbs = {
        "install": Verb(
            "Install hooks",
            "Install the hooks of these agents?",
            "Coffer's entries are added to each agent's own configuration; what else stands there stays as it is.",
            "Install",
            "Hooks installed, for so many agents: {count}.",
            _install,
        ),
        "uninstall": Verb(
            "Uninstall hooks",
            "Uninstall the hooks of these agents?",
            "Their sessions no longer begin with what is remembered, and their ends are no longer reported. A memory "
            "of their own that Coffer switched off is given back.",
            "Uninstall",
            "Hooks uninstalled, for so many agents: {count}.",
            _uninstall,
        ),
        "prompts-on": Verb(
            "Context beside prompts: on",
            "Give these agents context beside their prompts?",
            "At each prompt up to three facts that clearly belong to it are added, or nothing. Installed hooks are "
            "installed anew, with one for prompts.",
            "Switch on",
            "Context beside prompts switched on, for so many agents: {count}.",
            _prompts_on,
        ),
        "prompts-off": Verb(
            "Context beside prompts: off",
            "Give these agents no more context beside their prompts?",
            "Their sessions still begin with what is remembered.",
            "Switch off",
            "Context beside prompts switched off, for so many agents: {count}.",
            _prompts_off,
        ),
        "memory-off": Verb(
            "Their own memory: off",
            "Switch the own memory of these agents off?",
            "The switch in each agent's own configuration is set, and what it said before is kept to be given back.",
            "Switch off",
            "Own memory switched off, for so many agents: {count}.",
            _memory_off,
        ),
        "memory-back": Verb(
            "Their own memory: as it was",
            "Give these agents their own memory back?",
            "The switch in each agent's own configuration says again what it said before.",
            "Give back",
            "Own memory given back, for so many agents: {count}.",
            _memory_back,
        ),
    }

    def pages(self) -> list[URLPattern]:
        return []  # the viewer has them

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; no store has to be looked at for it."""
        return admin.ModelAdmin.changelist_view(self, request, {"title": "Agents"})

    def page_of(self, row: Agent) -> str:
        return reverse("agent", args=[row.name])

    def name_of(self, row: Agent) -> str:
        return row.name

    def key_of(self, row: Agent) -> str:
        return row.name

    def names_of(self, keys: Sequence[str]) -> list[str]:
        names = {agent.name for agent in registration.listing()}
        return [key for key in keys if key in names]

    @admin.display(description="agent", ordering="name")
    def shown_name(self, row: Agent) -> SafeString:
        return words(health.of(row).title)

    @admin.display(description="health")
    def shown_health(self, row: Agent) -> SafeString:
        found = health.of(row)
        return words(" ".join([f"{found.line}.", *(trouble.message for trouble in found.troubles)]))

    @admin.display(description="hook")
    def shown_hook(self, row: Agent) -> str:
        hook = health.of(row).hook
        return "unknown" if hook is None else "installed" if hook.installed else "not installed"


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ("shown_time", "shown_agent", "event", "project", "outcome", "bytes", "items", "ms")
    list_filter = ("event", "outcome", "agent", "at")
    search_fields = ("agent", "event", "session", "project", "outcome")
    search_help_text = "An agent, an event, a session's id, a store's own name, or an outcome."

    @admin.display(description="agent", ordering="agent")
    def shown_agent(self, row: Delivery) -> SafeString:
        return words(row.agent)
