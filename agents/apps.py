"""App configuration: what the foundation must know of agents."""

from django.apps import AppConfig

from coffer import registry


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents.services import deliveries, health, registration  # noqa: PLC0415 - models can be imported only now

        registry.add_rebuilder("agents", registration.rebuild)
        registry.add_health_check("agents", health.findings)
        registry.add_navigation("Agents", "agents", order=30)
        registry.add_activity_source("deliveries", "Deliveries to agents", deliveries.recent)
