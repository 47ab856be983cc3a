"""Stores, the rebuildable index of their files, and ledgers of what was done. Deleting these rows loses no memory."""

from django.db import models
from django.utils import timezone


class Store(models.Model):
    """One scope's memory, as ``store.yaml`` and the folder say; roots are machine-local and learnt on resolve."""

    name = models.CharField(max_length=40, unique=True)  # global, or project-<26-character ULID>
    project_id = models.CharField(max_length=26)
    remote = models.CharField(max_length=500, blank=True)
    former_remotes = models.JSONField(default=list)
    label = models.CharField(max_length=200, blank=True)
    config = models.JSONField(default=dict)
    merged_identities = models.JSONField(default=list)
    project_root = models.CharField(max_length=4096, blank=True)  # where it was last seen; all places: Checkout
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    # Grows with each change of the index: a process whose copy of the listing is older reads it again.
    generation = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Checkout(models.Model):
    """A place on this machine where a project was seen, and the origin that it had there; learnt again when lost.

    A folder whose origin changes, or in which repositories take turns, has a row for each: what they say together
    tells a rename from a fork, and one repository from another.
    """

    store = models.CharField(max_length=40, db_index=True)  # by name, as a row of the index may be made anew
    root = models.CharField(max_length=4096)
    remote = models.CharField(max_length=500, blank=True)
    mark = models.CharField(max_length=100)  # which git folder it was: `lineage.Mark`
    born = models.BigIntegerField(default=0, db_index=True)  # of the mark, to be found by
    roots = models.JSONField(default=list)  # first commits of its history, when git could tell
    head = models.CharField(max_length=64, blank=True)  # its last commit, when it was learnt
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["root", "remote", "mark"], name="one_row_per_checkout")]

    def __str__(self) -> str:
        return self.root


class Document(models.Model):
    """The index's row for one file that recall may return, or that it reports as unreadable."""

    store = models.ForeignKey(Store, on_delete=models.CASCADE, related_name="documents", db_index=False)
    path = models.CharField(max_length=1024)  # relative to the store's folder
    kind = models.CharField(max_length=10)  # fact, topic or journal
    ref = models.CharField(max_length=255)  # the id that callers see, unique in its store
    claimed = models.CharField(max_length=255)  # the id that the file itself claims
    title = models.TextField()
    description = models.TextField(blank=True)
    actor = models.CharField(max_length=10, blank=True)
    session = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(null=True)
    time = models.DateTimeField()  # updated_at as written, else the file's mtime; a journal's day
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    ctime_ns = models.BigIntegerField()
    inode = models.BigIntegerField()
    hashed_ns = models.BigIntegerField()  # when the bytes were read; close to mtime means: look again
    problem = models.TextField(blank=True)

    class Meta:
        verbose_name, verbose_name_plural = "fact or topic", "facts and topics"  # what the admin lists of them
        constraints = [
            models.UniqueConstraint(fields=["store", "path"], name="one_document_per_file"),
        ]
        indexes = [
            models.Index(fields=["store", "ref"], name="document_ref"),
            models.Index(fields=["store", "claimed"], name="document_claimed"),
            models.Index(fields=["store", "-time"], name="document_time"),
        ]

    def __str__(self) -> str:
        return self.path


class Chunk(models.Model):
    """One passage of a document; its id is the row of the full-text table."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    heading = models.TextField(blank=True)
    text = models.TextField()

    def __str__(self) -> str:
        return f"{self.document_id}:{self.position}"


class Use(models.Model):
    """How often one document was delivered, recalled or opened; by name, so that a re-index does not touch it."""

    store = models.CharField(max_length=40)
    ref = models.CharField(max_length=255)
    delivered = models.PositiveIntegerField(default=0)
    recalled = models.PositiveIntegerField(default=0)
    opened = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["store", "ref"], name="one_use_row_per_document")]

    def __str__(self) -> str:
        return f"{self.store} {self.ref}"


class Pass(models.Model):
    """One run of the engine over a store: what it did, in counts, never in words of the store."""

    run = models.CharField(max_length=26, unique=True)  # stands beside what the pass archived, too
    store = models.CharField(max_length=40)
    kind = models.CharField(max_length=10)  # organize or reorg
    actor = models.CharField(max_length=10)
    status = models.CharField(max_length=20)  # running until it is over
    stopped = models.TextField(blank=True)  # why it ended before all was done
    model = models.CharField(max_length=200, blank=True)
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict)
    undone = models.BooleanField(default=False)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        verbose_name_plural = "passes"
        indexes = [models.Index(fields=["store", "kind", "-started_at"], name="pass_of_store")]

    def __str__(self) -> str:
        return f"{self.kind} {self.store} {self.status}"


class Failure(models.Model):
    """A note that could not be organized: how often this version of it failed with this model, and why at last."""

    store = models.CharField(max_length=40)
    ref = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    model = models.CharField(max_length=200)
    count = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=300)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["store", "ref"], name="one_failure_row_per_note")]

    def __str__(self) -> str:
        return f"{self.store} {self.ref} {self.count}"


class Verdict(models.Model):
    """What the engine said of two stores, by the hash of what it was asked: the same question is not asked twice."""

    key = models.CharField(max_length=64, primary_key=True)
    same_project = models.BooleanField()
    confidence = models.CharField(max_length=20)
    reason = models.TextField()
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.key
