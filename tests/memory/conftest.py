"""Fixtures for memory's tests."""

from collections.abc import Iterator

import pytest

from tests.nursery import Nursery
from tests.processes import machine  # noqa: F401


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()
