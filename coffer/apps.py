"""App configuration of the foundation."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class CofferConfig(AppConfig):
    name = "coffer"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from coffer import checks, db  # noqa: F401, PLC0415 - models first; checks register themselves

        connection_created.connect(db.remember_inode, dispatch_uid="coffer.db")
