"""What every app writes or reads: the audit trail (ids, sizes and counts only, never content) and preferences."""

from django.db import models
from django.utils import timezone


class AuditEntry(models.Model):
    """One change, by whom, when, and how large."""

    event = models.CharField(max_length=40)
    store = models.CharField(max_length=40, blank=True)
    ref = models.CharField(max_length=200, blank=True)
    actor = models.CharField(max_length=10)
    counts = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.event} {self.ref}"


class Preference(models.Model):
    """One choice of the person, by a name and with a value of ``coffer.preferences``."""

    name = models.CharField(max_length=60, primary_key=True)
    value = models.CharField(max_length=200)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
