"""How the engine is, for doctor, status and the pages' banner."""

from collections.abc import Iterator

from coffer import connections
from coffer.connections import FEATURES, Connection
from coffer.errors import ConfigInvalid, NoModel
from coffer.llm.budget import OUTCOMES, remaining
from coffer.models import LlmCall, LlmConnection
from coffer.registry import Finding

_SUBJECT = "engine"
_FAILED = [outcome for outcome in OUTCOMES.values() if outcome not in ("cancelled", "budget")]


def health() -> Iterator[Finding]:
    """What is wrong with the connection in use, its last call or the budget; else one line that all is well."""
    try:
        found = list(_troubles())
    except ConfigInvalid as error:
        found = [error.message]
    if found:
        yield from (Finding("warning", _SUBJECT, message) for message in found)
    else:
        yield Finding("ok", _SUBJECT, _well())


def _troubles() -> Iterator[str]:
    if half := connections.half_set():
        yield half
    connection = connections.in_use()
    if connection is None:
        if LlmConnection.objects.exists():
            yield "No connection is the default, so none is used; `coffer engine set --name NAME --default` sets it."
        return
    try:
        connections.key_of(connection)
    except NoModel as error:
        yield error.message
    last = LlmCall.objects.filter(connection=connection.name).exclude(outcome="started").first()
    if last is not None and last.outcome in _FAILED:
        yield (
            f"The last call of {connection.model} at {connection.host} failed ({last.outcome.replace('_', ' ')}, "
            f"{last.at:%Y-%m-%d %H:%M} UTC); `coffer engine test` says more."
        )
    left = remaining()
    if not left.calls or not left.tokens:
        yield (
            f"The day's limit for models is used up ({left.used_calls} calls, {left.used_tokens} tokens); it starts "
            "again at 00:00 UTC."
        )


def _well() -> str:
    connection = connections.in_use()
    if connection is None:
        return "No model is connected; everything but tidying and distilling works without one."
    left = remaining()
    return (
        f"{connection.model} at {connection.host} may {_uses(connection)}; {left.used_calls} of {left.limit_calls} "
        f"calls and {left.used_tokens} of {left.limit_tokens} tokens are used today."
    )


def _uses(connection: Connection) -> str:
    allowed = [name for name in FEATURES if connection.allows(name)]
    return " and ".join(allowed) if allowed else "be tested, and nothing else until you allow it"
