"""System checks: is this machine able to run Coffer at all?"""

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register

from coffer import paths


@register()
def home_is_private_and_writable(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """coffer.E001 home cannot be written, coffer.W001 others can read it."""
    home = paths.home()
    if not home.exists():
        return []
    found: list[CheckMessage] = []
    if not os.access(home, os.W_OK):
        found.append(Error(f"{home} cannot be written.", hint="Check its owner and mode.", id="coffer.E001"))
    if home.stat().st_mode & 0o077:
        found.append(Warning(f"Other users may enter {home}.", hint=f"chmod 700 {home}", id="coffer.W001"))
    return found


@register()
def sqlite_has_full_text_search(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """coffer.E002 this Python's SQLite lacks FTS5, without which recall cannot work."""
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(x)")
    except sqlite3.OperationalError:
        return [Error("This Python's SQLite has no FTS5.", hint="Use a Python built with it.", id="coffer.E002")]
    finally:
        probe.close()
    return []


@register()
def secrets_are_private(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """coffer.W002 a secret file can be read by other users."""
    return [
        Warning(f"Other users may read {path}.", hint=f"chmod 600 {path}", id="coffer.W002")
        for path in (paths.token(), paths.secret_key(), paths.home() / "config.env")
        if path.exists() and path.stat().st_mode & 0o077
    ]
