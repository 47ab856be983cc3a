"""Coffer: one memory for all the coding agents on a developer's machine."""

__version__ = "0.1.0"
