"""Edits of other programs' configuration files that keep every byte which is not ours, and that can be undone."""

from agents.config_files.edits import Edit, Pending, apply, plan, plan_undo, tidy
from agents.config_files.journal import Owner, owners

__all__ = ["Edit", "Owner", "Pending", "apply", "owners", "plan", "plan_undo", "tidy"]
