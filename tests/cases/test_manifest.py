"""Every handed case of the spine has a test named by its id, or waits for the part named here."""

import os
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
KINDS = (
    "encoding", "CRLF/BOM", "concurrency", "path/identity", "frontmatter", "YAML types", "query syntax",
    "FTS operators", "symlinks", "worktrees", "submodules", "monorepo", "bare repos", "home directory",
    "remote URLs", "remote rename", "ssh config aliases", "branch names", "detached HEAD", "unicode norm", "huge files",
    "partial writes", "disk full", "permission denied", "port in use", "stale lock", "stale PID", "zombie",
    "hook blocking", "duplicate ids", "index corruption", "chunking", "path traversal", "DNS rebinding",
    "token leakage", "timezones", "command injection", "tool payload", "transcripts being written", "resumed sessions",
    "transcript format", "memory echo", "clock skew", "Windows/macOS paths", "payload size", "prompt injection",
    "LLM output", "agent config files",
)  # fmt: skip
ALSO = {"038", "041", "047", "052", "066", "098", "145"}
WAITING = {}


def named() -> set[str]:
    """The ids in the names of all tests."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")):
            found |= set(re.findall(r"bc_?(\d{3})", name))
    return found


def test_no_case_both_waits_and_has_a_test() -> None:
    assert WAITING.keys() & named() == set()


def test_every_handed_case_of_the_spine_is_covered_or_waits() -> None:
    shared = os.environ.get("COFFER_SHARED")
    if not shared:
        pytest.skip("COFFER_SHARED does not name the folder with the cases")
    wanted = set()
    for line in Path(shared, "cases", "handout.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| BC-(\d{3}) \|", line):
            kind = line.split(" | ")[3]
            if match[1] in ALSO or any(word in kind for word in KINDS):
                wanted.add(match[1])
    assert wanted - named() - WAITING.keys() == set()
