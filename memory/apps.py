"""App configuration: what the foundation must know of memory."""

from django.apps import AppConfig

from coffer import registry


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory.services import (  # noqa: PLC0415 - models can be imported only now
            embedding,
            health,
            merge_scan,
            passes,
            quiet,
            stores,
        )

        registry.add_health_check("memory", health.findings)
        registry.add_health_check("organizer", passes.findings)
        registry.add_health_check("merge", merge_scan.findings)
        registry.add_health_check("vectors", embedding.findings)
        registry.add_rebuilder("memory", stores.rebuild)
        registry.add_rebuilder("organizer", quiet.arm_waiting)
        registry.add_waiting("organizer", quiet.arm_unfiled)
        registry.add_recurring("adopt stores", "memory.jobs.consolidate")
        registry.add_recurring("organize what waits", "memory.jobs.arm_unfiled")
        registry.add_openable("memory", stores.places)
        registry.add_navigation("Stores", "stores", order=10, under=("/stores/",))
        registry.add_navigation("Search", "search", order=20)
        registry.add_navigation("Activity", "activity", order=80)
