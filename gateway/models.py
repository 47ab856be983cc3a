"""One row per tool call: who, when, how long, how it went; never arguments or what came back (FR-016)."""

from django.db import models
from django.utils import timezone


class Invocation(models.Model):
    tool = models.CharField(max_length=40)
    agent = models.CharField(max_length=60, blank=True)
    session = models.CharField(max_length=255, blank=True)
    project = models.CharField(max_length=40, blank=True)
    outcome = models.CharField(max_length=40)  # ok, or the error's code
    items = models.PositiveIntegerField(default=0)
    ms = models.PositiveIntegerField()
    at = models.DateTimeField(default=timezone.now, db_index=True)  # of the call: the row may be written later

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.tool} {self.outcome}"
