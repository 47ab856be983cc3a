"""Fixtures for the cases."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def wait_until_settled() -> Callable[..., None]:
    """Date files back, so that their time stamps are trusted at once instead of after two seconds."""

    def settle(*files: Path) -> None:
        past = time.time_ns() - 60_000_000_000
        for file in files:
            os.utime(file, ns=(past, past))

    return settle
