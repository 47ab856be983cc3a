"""Processes for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.fake_daemon import FakeDaemon
from tests.processes import Machine, machine  # noqa: F401


@pytest.fixture
def daemon(machine: Machine) -> Iterator[FakeDaemon]:  # noqa: F811
    """A stand-in that no hook may replace by a real one."""
    machine.env["COFFER_AUTOSTART"] = "0"
    fake = FakeDaemon(machine.home)
    yield fake
    fake.close()
