"""App configuration: what the foundation must know of past sessions."""

from django.apps import AppConfig

from coffer import registry


class TranscriptsConfig(AppConfig):
    name = "transcripts"
    verbose_name = "Sessions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from transcripts.services import health, ledger, listing  # noqa: PLC0415 - models can be imported only now

        registry.add_rebuilder("transcripts", ledger.rebuild)
        registry.add_health_check("sessions", health.findings)
        registry.add_openable("transcripts", listing.places)
        registry.add_navigation("Sessions", "sessions", order=25, under=("/session",))
        registry.add_recurring("sweep sessions", "transcripts.jobs.sweep")
