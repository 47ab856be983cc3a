"""What the apps' REST routes share: strict bodies, pages of a list, moments, and who asks."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import AfterValidator, ConfigDict, StringConstraints

Actor = Literal["agent", "user"]
MAX_OFFSET = 1_000_000_000  # further than any list, nearer than what SQLite can count


class StrictSchema(Schema):
    """A body in which a misspelt key is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid")


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


Name = Annotated[str, StringConstraints(max_length=200)]
Ref = Annotated[str, StringConstraints(max_length=300)]  # an id, or a file's name
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET)]
LedgerLimit = Annotated[int, Query(ge=1, le=500)]
Moment = Annotated[datetime, AfterValidator(_aware)]  # one without a zone is UTC


def actor(request: HttpRequest) -> Actor:
    """Who writes: the user, unless the program says that it does so for an agent."""
    return "agent" if request.headers.get("X-Coffer-Actor", "").strip().lower() == "agent" else "user"
