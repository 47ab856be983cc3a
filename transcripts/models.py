"""Past sessions as they were read last, and the ledger of what was distilled of them: never a word of a conversation.

What is known of files is derived from them, and titles in it are without secrets. The ledger is refilled from the ids
of sessions in journal entries when the database is lost.
"""

from django.db import models
from django.utils import timezone


class KnownSource(models.Model):
    """A file, database or tree of an agent's as it was read: read again once it differs from this."""

    agent = models.CharField(max_length=60)
    place = models.CharField(max_length=4096)  # its path; where that cannot be written, a spelling of it
    size = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    version = models.PositiveIntegerField()  # of the readers
    problem = models.TextField(blank=True)  # why it gives no sessions
    state = models.TextField(blank=True)  # where the reader stopped, of files that may still grow

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "place"], name="one_row_per_source")]

    def __str__(self) -> str:
        return self.place


class KnownSession(models.Model):
    """One session as a list shows it."""

    source = models.ForeignKey(KnownSource, on_delete=models.CASCADE, related_name="sessions")
    agent = models.CharField(max_length=60)
    session_id = models.CharField(max_length=255)
    title = models.CharField(max_length=200, null=True)
    name = models.CharField(max_length=200, blank=True)  # that the agent keeps elsewhere; it outranks the title
    searched = models.TextField()  # title and path, folded
    project_path = models.CharField(max_length=4096, null=True)
    message_count = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    last_activity_at = models.DateTimeField()
    active_at = models.DateTimeField()  # the same, unless a clock was wrong
    notes = models.JSONField(default=list)  # what was not read, and why

    class Meta:
        ordering = ["-last_activity_at", "-id"]
        indexes = [
            models.Index(fields=["agent", "session_id"], name="known_session"),
            models.Index(fields=["agent", "-active_at"], name="known_session_active"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} {self.session_id}"

    @property
    def shown_title(self) -> str | None:
        return self.name or self.title

    @property
    def mark(self) -> str:
        """Changes whenever something may have been said in it."""
        return f"{self.message_count} {self.last_activity_at.isoformat()}"


class Distilled(models.Model):
    """How far one session was distilled, and what came of it."""

    agent = models.CharField(max_length=60)
    session_id = models.CharField(max_length=255)
    store = models.CharField(max_length=40, blank=True)  # where its entries went
    mark = models.CharField(max_length=100, blank=True)  # of the session when it was done; blank while some is left
    cursor = models.PositiveIntegerField(default=0)  # turns that are done, from the start
    digest = models.CharField(max_length=32, blank=True)  # of these turns
    through = models.DateTimeField(null=True)  # in place of a cursor: turns up to this time are done
    outcome = models.CharField(max_length=20)  # distilled, nothing, partly, failed
    insights = models.PositiveIntegerField(default=0)  # entries written of it so far
    failures = models.PositiveIntegerField(default=0)  # since something was done
    reason = models.CharField(max_length=300, blank=True)  # of the last failure
    next_try_at = models.DateTimeField(null=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name, verbose_name_plural = "distilled session", "distilled sessions"
        constraints = [models.UniqueConstraint(fields=["agent", "session_id"], name="one_ledger_row_per_session")]

    def __str__(self) -> str:
        return f"{self.agent} {self.session_id} {self.outcome}"


class SeenTurn(models.Model):
    """A turn that was distilled, by a hash of its id or its words: a copy in another session is known by it."""

    key = models.BigIntegerField(primary_key=True)

    def __str__(self) -> str:
        return f"{self.key:x}"


class Sweep(models.Model):
    """One look for sessions to distill, in counts."""

    started_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    distilled = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    insights = models.PositiveIntegerField(default=0)
    remaining = models.PositiveIntegerField(default=0)  # sessions left for later passes
    stopped = models.TextField(blank=True)  # why it ended before all was done

    class Meta:
        ordering = ["-started_at", "-id"]

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M} {self.distilled}"
