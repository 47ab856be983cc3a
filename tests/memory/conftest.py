"""Fixtures for memory's tests."""

from tests.processes import machine  # noqa: F401
