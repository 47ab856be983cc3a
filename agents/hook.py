"""``coffer-hook``: what an agent runs at a moment of its session; it prints what the daemon gives for it, or nothing.

It must never hold up or break an agent: whatever happens, it ends with code 0 and without a word, at the latest 2 s
after it was started. So it is two processes. The outer one loads nothing and waits, and an alarm takes it out in time;
the inner one does all that may hang: code and files on a slow disk, the agent's JSON, a daemon that must start first.
Standard library only.
"""

import os
import signal
import sys
import time

SECONDS = {"SessionStart": 1.9, "SessionEnd": 1.0, "UserPromptSubmit": 0.5}  # from the start of the process to its end
_MARGIN = 0.1  # that the inner process stops earlier, so that it can still note why
_LEAST = 0.05
_LOG_BYTES = 64 * 1024


def main() -> int:
    """Serve the command line ``--agent NAME --event EVENT``; ends the process, always with code 0."""
    try:
        agent, event = _options(sys.argv[1:])
        if agent and event in SECONDS:
            _outer(agent, event, max(SECONDS[event] - _age(), _MARGIN + _LEAST))
    finally:
        os._exit(0)  # whatever was raised


class _TooLateError(BaseException):
    """The inner process is out of time; no ordinary error, for nobody may take it for one and go on."""


def _outer(agent: str, event: str, seconds: float) -> None:
    """Print what the inner process found, if it has found all of it in time."""
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _open_standard_files()
    reader, writer = os.pipe()
    inner = os.fork()
    if inner == 0:
        os.close(reader)
        _inner(agent, event, seconds - _MARGIN, writer)
    os.close(writer)
    found = b"".join(iter(lambda: os.read(reader, 65536), b""))
    os.waitpid(inner, 0)
    if found.endswith(b"\n"):
        _write(1, found)


def _inner(agent: str, event: str, seconds: float, writer: int) -> None:
    """Find the answer and write it as one line; or note in the log why there is none."""
    try:
        signal.signal(signal.SIGALRM, _raise_too_late)
        signal.setitimer(signal.ITIMER_REAL, seconds, _LEAST)  # again and again, should one get lost
        deadline = time.monotonic() + seconds
        for handle in (1, 2):  # the agent waits until nobody has its pipes open any more
            os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
        from agents import question  # noqa: PLC0415 - only this process may wait for what it loads

        line = question.answer(agent, event, deadline)
        if line:
            _write(writer, line.encode("utf-8", "replace") + b"\n")
    except _TooLateError:
        _note(agent, event, f"no answer within {seconds:.1f} s")
    except BaseException as error:
        ours = type(error).__name__ in ("NoDaemon", "NoAnswer")  # the text of any other may hold content
        _note(agent, event, str(error) if ours else type(error).__name__)
    finally:
        os._exit(0)


def _options(words: list[str]) -> tuple[str, str]:
    """The agent's name and the event, empty where they are missing."""
    found = {"--agent": "", "--event": ""}
    parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for name, value in zip(parts[::2], parts[1::2], strict=False):
        if name in found:
            found[name] = value
    return found["--agent"], found["--event"]


def _age() -> float:
    """How long ago this process was started: a Python that came up slowly has used its share of the time."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, LookupError, AttributeError):
        return _LEAST
    return age if 0 <= age < 10 else _LEAST  # in some containers the two clocks differ


def _open_standard_files() -> None:
    """See to it that 0, 1 and 2 are open: else the next file to be opened would be taken for one of them."""
    while os.open(os.devnull, os.O_RDWR) <= 2:
        pass


def _write(handle: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(handle, data) :]
        except BlockingIOError:
            time.sleep(0.005)  # until the alarm
        except OSError:
            return  # nobody reads it


def _raise_too_late(*_: object) -> None:
    raise _TooLateError


def _note(agent: str, event: str, what: str) -> None:
    """Add a line to logs/hook.log, which begins anew when it is full; where there is no home there is no log.

    A hook that is only tried notes ``Check``: no session went without its memory.
    """
    from agents import link  # noqa: PLC0415 - as above

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _MARGIN)
    path = os.path.join(link.home(), "logs", "hook.log")
    full = os.path.exists(path) and os.path.getsize(path) > _LOG_BYTES
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_TRUNC if full else 0)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    event = "Check" if "--check" in sys.argv else event
    line = f"{stamp} {event} {agent[:60]!r} {' '.join(what.split())[:300]}\n"
    _write(os.open(path, flags, 0o600), line.encode("utf-8", "replace"))
