"""App configuration."""

from django.apps import AppConfig

from coffer import registry


class GatewayConfig(AppConfig):
    name = "gateway"
    verbose_name = "Tool calls"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from gateway import activity  # noqa: PLC0415 - its model can be imported only now

        registry.add_activity_source("calls", "Tool calls", activity.recent)
