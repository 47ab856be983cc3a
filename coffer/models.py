"""What every app writes or reads: the audit trail, preferences, connections to models and the calls made of them.

The trail and the calls hold ids, sizes and counts only, never content.
"""

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


class LlmConnection(models.Model):
    """An endpoint that may answer, and what may be sent to it; the key stands elsewhere, here is where to look."""

    name = models.CharField(max_length=60, unique=True)
    base_url = models.CharField(max_length=500)
    model = models.CharField(max_length=200)
    key = models.CharField(max_length=200, blank=True)  # env:NAME, keyring:service/user, or blank for none
    is_default = models.BooleanField(default=False)
    allow_organize = models.BooleanField(default=False)
    allow_distill = models.BooleanField(default=False)
    json_mode = models.BooleanField(null=True)  # whether the endpoint offers it; None until it was asked
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        verbose_name = "connection to a model"
        verbose_name_plural = "connections to models"
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="coffer_one_default_connection"
            )
        ]

    def __str__(self) -> str:
        return self.name


class LlmCall(models.Model):
    """One call of a model: written before it is made, completed when it is over."""

    purpose = models.CharField(max_length=40)  # organize, reorg, distill, test, …
    store = models.CharField(max_length=40, blank=True)
    connection = models.CharField(max_length=60)
    model = models.CharField(max_length=200)
    attempts = models.PositiveIntegerField(default=1)  # requests sent; more than one when the first ones failed
    tokens_in = models.PositiveIntegerField(default=0)  # estimated until the endpoint has told
    tokens_out = models.PositiveIntegerField(default=0)
    ms = models.PositiveIntegerField(default=0)
    outcome = models.CharField(max_length=40)  # started, ok, or the reason in one word
    at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name = "call of a model"
        verbose_name_plural = "calls of models"

    def __str__(self) -> str:
        return f"{self.purpose} {self.outcome}"
