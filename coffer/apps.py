"""App configuration of the foundation."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class CofferConfig(AppConfig):
    name = "coffer"
    verbose_name = "Settings and activity"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from coffer import audit, checks, db, llm, registry  # noqa: F401, PLC0415 - models first; checks register themselves

        registry.add_health_check("engine", llm.health)
        registry.add_activity_source("changes", "Changes", audit.recent)
        registry.add_navigation("Admin", "admin:index", order=90, under=("/admin/",))
        connection_created.connect(db.remember_inode, dispatch_uid="coffer.db")
