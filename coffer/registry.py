"""What apps tell the foundation when they are ready, so that it need not know them.

Doctor, status and the pages' banner read the health checks; a lost database is filled again by the rebuilders.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line of health: what was looked at, how it is, and what to do when it is not well."""

    level: Literal["ok", "warning", "error"]
    subject: str
    message: str


HealthCheck = Callable[[], Iterable[Finding]]
Rebuilder = Callable[[], None]

_health_checks: dict[str, HealthCheck] = {}
_rebuilders: dict[str, Rebuilder] = {}


def add_health_check(name: str, check: HealthCheck) -> None:
    _health_checks[name] = check


def add_rebuilder(name: str, rebuild: Rebuilder) -> None:
    """Register what brings an app's rows back from files after the database was lost or restored."""
    _rebuilders[name] = rebuild


def health() -> list[Finding]:
    """Ask every check, in the order of registration."""
    return [finding for check in _health_checks.values() for finding in check()]


def rebuild() -> None:
    for rebuilder in _rebuilders.values():
        rebuilder()
