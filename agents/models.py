"""The agents on this machine, and what was delivered to them: ids, sizes and times only, never content."""

from django.db import models
from django.utils import timezone


class Agent(models.Model):
    """One coding agent; named by its kind unless it is a second one of it."""

    name = models.CharField(max_length=60, unique=True)
    type = models.CharField(max_length=20)
    folder = models.CharField(max_length=4096, blank=True)  # where it lives, when that is not where its kind does
    disable_native_memory = models.BooleanField(default=False)
    prompt_context = models.BooleanField(default=False)
    trust = models.JSONField(default=dict, blank=True)  # what the agent said of our hooks, see services.trust
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One time that a hook of an agent fired, and what became of it."""

    agent = models.CharField(max_length=60)
    event = models.CharField(max_length=20)
    session = models.CharField(max_length=255, blank=True)
    project = models.CharField(max_length=40, blank=True)  # the store's name, blank outside of a project
    bytes = models.PositiveIntegerField(default=0)
    items = models.PositiveIntegerField(default=0)
    ms = models.FloatField(default=0)
    outcome = models.CharField(max_length=20)  # delivered, silent, late, failed, or what the end of a session came to
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name_plural = "deliveries"
        indexes = [models.Index(fields=["agent", "-at"], name="delivery_of_agent")]

    def __str__(self) -> str:
        return f"{self.agent} {self.event}"
