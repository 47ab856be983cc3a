"""What the logs may hold."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from coffer import auth, logs


@pytest.fixture
def written(home: Path) -> "Callable[[logging.LogRecord], str]":
    return logs.Discreet().format


def record(name: str, text: str, *values: object, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord(name, logging.WARNING, "/lib/somewhere.py", 12, text, values, exc_info)


def failing() -> Exception:
    try:
        try:
            raise KeyError("my secret note")
        except KeyError as inner:
            raise RuntimeError("about my secret note") from inner
    except RuntimeError as error:
        return error


def test_our_own_lines_are_kept_in_full_with_the_time_in_utc(written: Callable[[logging.LogRecord], str]) -> None:
    line = written(record("coffer.daemon", "started port=%d", 8765))
    assert line.endswith("Z WARNING coffer.daemon started port=8765")


def test_what_a_library_says_is_reduced_to_the_place_it_says_it(written: Callable[[logging.LogRecord], str]) -> None:
    line = written(record("django.request", "Not Found: /%s", "my secret note"))
    assert "secret" not in line
    assert "django.request (not ours: text withheld) at somewhere:12" in line


def test_an_error_is_its_type_and_place_but_never_its_words(written: Callable[[logging.LogRecord], str]) -> None:
    line = written(record("coffer.api", "request failed", error=failing()))
    assert "secret" not in line
    assert "RuntimeError" in line
    assert "KeyError" in line
    assert "test_logs.py" in line


def test_the_token_is_struck_out_even_of_our_own_lines(written: Callable[[logging.LogRecord], str]) -> None:
    assert auth.token() not in written(record("coffer.api", "got %s", auth.token()))


def test_a_log_file_is_rotated_and_only_a_few_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_BYTES", 2000)
    handler = logs.rotating(home / "logs" / "test.log")
    for number in range(200):
        handler.handle(logging.LogRecord("coffer", logging.INFO, "", 0, f"line {number} {'x' * 50}", None, None))
    handler.close()
    files = sorted(file.name for file in (home / "logs").iterdir())
    assert files == ["test.log", "test.log.1", "test.log.2"]
    assert all(file.stat().st_size <= 2000 for file in (home / "logs").iterdir())
