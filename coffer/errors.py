"""Every error a caller may see, drawn as one tree.

    CofferError
    ├── NotFound             404  MEMORY_STORE_NOT_FOUND, MEMORY_NOT_FOUND, NOT_FOUND
    ├── MethodNotAllowed     405  METHOD_NOT_ALLOWED
    ├── Invalid              422  INVALID
    │   ├── Rejected         422  MEMORY_REJECTED
    │   ├── ConfigInvalid    422  CONFIG_INVALID
    │   └── ScopeUnresolved  422  SCOPE_UNRESOLVED
    ├── UnsupportedAgentType 400  UNSUPPORTED_AGENT_TYPE
    ├── Conflict             409  CONFLICT
    ├── Unauthorized         401  UNAUTHORIZED
    ├── Forbidden            403  FORBIDDEN
    ├── TooLarge             413  TOO_LARGE
    ├── Busy                 503  BUSY
    ├── StorageFailed        507  STORAGE
    └── EngineError          502  of the model that may be connected
        ├── NoModel          409  NO_MODEL_CONFIGURED
        ├── BudgetSpent      429  ENGINE_BUDGET_SPENT
        ├── BadAnswer        502  ENGINE_BAD_ANSWER
        ├── Refused          502  ENGINE_REFUSED
        ├── Unavailable      503  ENGINE_UNAVAILABLE
        └── Cancelled        503  ENGINE_CANCELLED

A message is a sentence: what happened, to what, what to do. Edges translate once: REST to a status, MCP to a tool
error, the command line to exit code 1.
"""

from typing import Any


class CofferError(Exception):
    """A failure that has a name; raise one of its children."""

    code = "INTERNAL"
    status = 500

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if code is not None:
            self.code = code

    def as_dict(self) -> dict[str, Any]:
        """The wire form: ``{"code", "message", "details"}``."""
        return {"code": self.code, "message": self.message, "details": self.details}


def where(error: BaseException) -> str:
    """Type and place of an error for a log, without its message: that may hold content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}" if trace else "?"
    return f"{type(error).__name__} at {place}"


class NotFound(CofferError):
    code = "NOT_FOUND"
    status = 404


class StoreNotFound(NotFound):
    code = "MEMORY_STORE_NOT_FOUND"


class MemoryNotFound(NotFound):
    code = "MEMORY_NOT_FOUND"


class MethodNotAllowed(CofferError):
    code = "METHOD_NOT_ALLOWED"
    status = 405


class Invalid(CofferError):
    code = "INVALID"
    status = 422


class Rejected(Invalid):
    """A text that is no memory item; details hold ``reason`` (empty, too_long) and ``characters``."""

    code = "MEMORY_REJECTED"


class ConfigInvalid(Invalid):
    code = "CONFIG_INVALID"


class ScopeUnresolved(Invalid):
    code = "SCOPE_UNRESOLVED"


class UnsupportedAgentType(CofferError):
    code = "UNSUPPORTED_AGENT_TYPE"
    status = 400


class Conflict(CofferError):
    code = "CONFLICT"
    status = 409


class Unauthorized(CofferError):
    code = "UNAUTHORIZED"
    status = 401


class Forbidden(CofferError):
    code = "FORBIDDEN"
    status = 403


class TooLarge(CofferError):
    code = "TOO_LARGE"
    status = 413


class Busy(CofferError):
    code = "BUSY"
    status = 503


class StorageFailed(CofferError):
    code = "STORAGE"
    status = 507


class EngineError(CofferError):
    """No use can be made of a model now; no message holds a key, or a word of what was sent or answered."""

    code = "ENGINE_ERROR"
    status = 502
    said = ""  # the endpoint's own words, cut and scrubbed; for the test of a connection only


class NoModel(EngineError):
    """No connection may do this; the message names what is missing."""

    code = "NO_MODEL_CONFIGURED"
    status = 409


class BudgetSpent(EngineError):
    """The day's calls or tokens are used up; the next day (UTC) goes on."""

    code = "ENGINE_BUDGET_SPENT"
    status = 429


class BadAnswer(EngineError):
    """An answer that cannot be used; ``reason`` says in a few words what is wrong with it, never what it said."""

    code = "ENGINE_BAD_ANSWER"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The model's answer cannot be used: {reason}.", reason=reason)
        self.reason = reason


class Refused(EngineError):
    """The endpoint does not take what the connection says (key, model, address): asking again will not help."""

    code = "ENGINE_REFUSED"


class Unavailable(EngineError):
    """No answer in time, no connection, or an endpoint that is busy or broken, also after the retries."""

    code = "ENGINE_UNAVAILABLE"
    status = 503


class Cancelled(EngineError):
    """Coffer is stopping, and the call with it."""

    code = "ENGINE_CANCELLED"
    status = 503
