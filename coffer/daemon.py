"""The server process, ``python -m coffer.daemon``: one per home, on loopback only, with one cluster of workers.

It holds ``locks/daemon.lock`` for its life, with its pid inside: whoever finds the lock taken knows whom to ask.
daemon.json says where it listens, from the moment it can answer until it stops.
"""

import argparse
import errno
import fcntl
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import django
import uvicorn
from django.core.exceptions import ImproperlyConfigured

from coffer import __version__, auth, cluster, db, env, fs, later, launchers, logs, paths
from coffer.errors import Busy, CofferError

LOCK_NAME = "daemon.lock"
STOP_SECONDS = 8.0  # from SIGTERM to the end, whatever still runs
_REQUEST_SECONDS = 4
_KEEP_ALIVE_SECONDS = 75  # a shim's connection, with its proof, outlives the pauses of a conversation
_TICKS = 10  # one second
_LOCK_SECONDS = 2.0  # others look at the lock for a moment, and a predecessor may be on its last steps

log = logging.getLogger("coffer.daemon")


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM; 1, with a sentence, when this home's daemon cannot run here."""
    options = _options(arguments)
    if options.home:
        os.environ["COFFER_HOME"] = options.home
    news = News(options.news)
    if options.detach:
        _detach()
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _leave)
    try:
        lock = _be_the_only_one()
        _prepare()
        Daemon(news, lock).run()
    except (CofferError, ImproperlyConfigured) as error:
        news.tell("busy" if isinstance(error, AnotherRuns) else str(error))
        sys.stderr.write(f"coffer: {error}\n")
        return 1
    return 0


class AnotherRuns(Busy):
    """This home has a daemon already."""


class News:
    """The pipe to whoever started this daemon: told once how that went."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe
        if pipe is not None:
            os.set_inheritable(pipe, False)

    def tell(self, words: str) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with suppress(OSError):
                os.write(pipe, words.encode())
            os.close(pipe)


class Daemon(uvicorn.Server):
    """uvicorn, which in its time writes daemon.json, runs the cluster and takes both down again."""

    def __init__(self, news: News, lock: int) -> None:
        config = uvicorn.Config(
            "coffer.asgi:application",
            lifespan="on",
            loop="asyncio",
            http="h11",
            ws="none",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_REQUEST_SECONDS,
        )
        config.load()
        _log_to_file()  # again: loading has set up Django's own logging
        super().__init__(config)
        self._news = news
        self._lock = lock
        self._cluster = cluster.Keeper()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on the configured port, or on any free one when that is taken; return when all has ended."""
        listener = _bind(env.number("COFFER_PORT", most=65535))
        try:
            super().run(sockets=[listener])
        except SystemExit as end:  # of uvicorn, or of the SIGTERM that it passes on
            if end.code:
                raise CofferError("Coffer's daemon could not start; logs/daemon.log names the place.") from end
        finally:
            self._cluster.stop(cluster.GRACE + 1)
            _remove_daemon_file()
            later.flush(1.0)
            log.info("stopped")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open for requests, then say so."""
        await super().startup(sockets)
        if self.started and sockets and not self.should_exit:
            port = sockets[0].getsockname()[1]
            _write_daemon_file(port)
            self._news.tell("ready")
            log.info("started version=%s port=%d pid=%d", __version__, port, os.getpid())
            self._cluster.start()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; also ends a daemon whose home was deleted or replaced under it."""
        if counter % _TICKS == 0 and not _still_named(self._lock, paths.locks() / LOCK_NAME):
            log.warning("the home is gone")
            return True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close for requests; from here the end is certain, even when a thread never comes back."""
        from coffer import llm  # noqa: PLC0415 - its models need Django to be set up

        llm.shut_down()
        threading.Thread(target=self._force, daemon=True).start()
        self._cluster.ask_to_stop()
        _remove_daemon_file()
        await super().shutdown(sockets)

    def _force(self) -> None:
        time.sleep(STOP_SECONDS)
        self._cluster.stop(0)
        log.warning("stopped with requests under way")
        os._exit(0)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m coffer.daemon", description="Coffer's server process.")
    parser.add_argument("--home", help="COFFER_HOME, also for the process list")
    parser.add_argument("--detach", action="store_true", help="go on in a process of its own, without parents")
    parser.add_argument("--news", type=int, help="file descriptor that is told `ready`, or why not")
    return parser.parse_args(arguments)


def _detach() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _be_the_only_one() -> int:
    """Take the lock for the rest of this process' life: the system frees it, however that ends."""
    path = fs.ensure_dir(paths.locks()) / LOCK_NAME
    with fs.storage_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.read(handle, 20).decode("ascii", "replace").strip() or "unknown"
                message = f"Another daemon (process {holder}) already runs in {paths.home()}; `coffer down` ends it."
                raise AnotherRuns(message) from None
            time.sleep(0.02)
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def _still_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
    except OSError:
        return True  # a disk that is away for a moment


def _prepare() -> None:
    auth.token()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coffer.settings")
    django.setup()
    _log_to_file()
    sys.excepthook = lambda kind, error, trace: log.critical("ended by an error", exc_info=error)
    threading.excepthook = lambda given: log.error("a thread ended by an error", exc_info=given.exc_value)
    db.prepare()


def _log_to_file() -> None:
    logs.to(logs.rotating(paths.logs() / "daemon.log"))


def _bind(port: int) -> socket.socket:
    """A socket on 127.0.0.1: the port asked for, or any free one when somebody has it."""
    # asyncio turns Nagle's wait off (40 ms an answer) only where the protocol is spelled out.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # already here: two programs may bind one port, but only one can listen
    except OSError as error:
        listener.close()
        if port == 0 or error.errno not in {errno.EADDRINUSE, errno.EACCES}:
            raise CofferError(f"Port {port} of 127.0.0.1 cannot be opened ({error.strerror}).") from error
        log.warning("port %d is taken; listening on another", port)
        return _bind(0)
    return listener


def _write_daemon_file(port: int) -> None:
    about = {
        "pid": os.getpid(),
        "port": port,
        "url": f"http://127.0.0.1:{port}/",
        "version": __version__,
        "started_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "build": launchers.build(),
    }
    fs.write(paths.daemon_file(), json.dumps(about, indent=1).encode() + b"\n")


def _remove_daemon_file() -> None:
    """Remove daemon.json while it is still ours."""
    with suppress(OSError, ValueError, TypeError):
        if json.loads(paths.daemon_file().read_bytes())["pid"] == os.getpid():
            paths.daemon_file().unlink()


if __name__ == "__main__":
    sys.exit(main())
