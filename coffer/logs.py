"""Logs that may be shown to anybody: what happened and where, never content, tokens or keys.

Our own loggers are written as they are, since they hold ids, counts and times only. What a library says may quote a
request, so of that only the logger's name, the place and the type of the error are kept. An exception's own words are
never written.
"""

import logging
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from coffer import auth, env, fs

OURS = ("coffer", "memory", "transcripts", "agents", "gateway")
_BYTES, _KEPT = 1_000_000, 2  # the file written to and two older ones

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Discreet(logging.Formatter):
    """One line a record, its frames indented below it; the token is struck out wherever it turns up."""

    def __init__(self) -> None:
        super().__init__("%(asctime)sZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime
        self._token = auth.token()

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] not in OURS:
            words = f"(not ours: text withheld) at {record.module}:{record.lineno}"
            record = logging.makeLogRecord({**record.__dict__, "msg": words, "args": None})
        record.exc_text = None
        return super().format(record).replace(self._token, "[token]")

    def formatException(self, ei: _ExcInfo) -> str:
        return place(ei[1]) if ei[1] is not None else ""


def place(error: BaseException) -> str:
    """Type and frames of an error and of what caused it, without a word of their messages."""
    lines = [f"  {type(error).__name__}"]
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f"    {code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join([*lines, place(cause)] if cause else lines)


def rotating(path: Path) -> RotatingFileHandler:
    """A handler for one file of logs/, kept to a few megabytes."""
    fs.ensure_dir(path.parent)
    with fs.storage_errors(path):
        return RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_KEPT, encoding="utf-8")


def to(handler: logging.Handler) -> None:
    """Send everything this process logs to one handler; libraries are heard from WARNING on."""
    handler.setFormatter(Discreet())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    level = env.choice("COFFER_LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR"))
    for name in OURS:
        logging.getLogger(name).setLevel(level)
    for name in list(logging.root.manager.loggerDict):
        logger = logging.getLogger(name)
        logger.handlers.clear()  # a library may have brought its own way to the terminal
        logger.propagate = True
        if name.partition(".")[0] not in OURS and logger.level < logging.WARNING:
            logger.setLevel(logging.NOTSET)
