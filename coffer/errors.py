"""Every error a caller may see, drawn as one tree.

    CofferError
    ├── NotFound             404  MEMORY_STORE_NOT_FOUND, MEMORY_NOT_FOUND, NOT_FOUND
    ├── Invalid              422  INVALID
    │   ├── Rejected         422  MEMORY_REJECTED
    │   ├── ConfigInvalid    422  CONFIG_INVALID
    │   └── ScopeUnresolved  422  SCOPE_UNRESOLVED
    ├── Conflict             409  CONFLICT
    ├── Unauthorized         401  UNAUTHORIZED
    ├── Forbidden            403  FORBIDDEN
    ├── TooLarge             413  TOO_LARGE
    ├── Busy                 503  BUSY
    └── StorageFailed        507  STORAGE

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
