"""Processes for the tests of this folder."""

from tests.processes import machine  # noqa: F401
