"""The way from a small process (shim, hook, command line) to the daemon: find it, have it prove itself, start it.

Threats answered here: another program on the daemon's port must not get the token, so the daemon first proves that it
can read the token file, over a nonce and the port dialled; the token follows on that same connection and never on one
that was opened again. Proxies of the environment are never asked. Standard library only and imported lightly: agents
wait for this code at every start of a session.
"""

import fcntl
import hashlib
import hmac
import http.client
import json
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # where our packages lie: checkout or site-packages
FAILURES = (OSError, http.client.HTTPException)  # what a broken conversation raises
READY, BUSY = b"ready", b"busy"  # what a daemon tells its starter, if not why it cannot start; BUSY: another one runs
PATIENCE = 2.0  # seconds a healthy daemon needs at most to prove itself, on a busy machine
_MOMENT = 0.25  # for whoever answers on the port while no daemon lives in this home: hardly ours
_POLL = 0.05
_ANSWER_LIMIT = 64 * 1024  # of what is read from a program that has not proven itself yet
# All that a daemon gets from the environment of whoever starts it: it outlives them and serves every project.
_KEPT_NAMES = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"} | {
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"),  # to open files in an editor
}
_KEPT_PREFIXES = ("LC_", "XDG_", "COFFER_")


class NoDaemon(Exception):
    """No daemon can be had; the message says why, and what to do."""


class Connection:
    """One proven keep-alive connection; FAILURES mean that it is of no more use."""

    def __init__(self, wire: http.client.HTTPConnection, token: str, instance: str) -> None:
        self.instance = instance  # differs between two daemons that ran one after the other
        self.port = wire.port
        self._wire = wire
        self._token = token

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send one request and read its whole answer: status, headers, body."""
        self.send(method, path, body, headers, timeout)
        response = self.response()
        return response.status, response.headers, response.read()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Send one request; when this raises, the daemon has not got all of it and so did nothing."""
        if self._wire.sock is None:
            raise http.client.NotConnected
        self._wire.sock.settimeout(timeout)
        self._wire.request(method, path, body, {**(headers or {}), "X-Coffer-Token": self._token})

    def response(self) -> http.client.HTTPResponse:
        """The answer to what was sent, its body still to be read; when this raises, the daemon may have acted."""
        return self._wire.getresponse()

    def usable(self) -> bool:
        """Whether an idle connection is still open: an idle peer says nothing, so anything to read is its end."""
        sock = self._wire.sock
        if sock is None:
            return False
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        """End the conversation from another thread."""
        with suppress(OSError, AttributeError):
            self._wire.sock.shutdown(2)

    def close(self) -> None:
        self._wire.close()


def home() -> str:
    """COFFER_HOME as an absolute path, as ``coffer.env`` reads it; NoDaemon for a relative one."""
    given = os.environ.get("COFFER_HOME") or "~/.coffer"
    path = os.path.expanduser(given)
    if not os.path.isabs(path):
        name, value = ("HOME", os.environ.get("HOME")) if f"{given}/".startswith("~/") else ("COFFER_HOME", given)
        raise NoDaemon(f"{name} is {value!r}, a relative path; give an absolute one.")
    return path


def setting(name: str, default: str) -> str:
    """A setting's text: the environment wins over config.env, as in ``coffer.env``."""
    if name in os.environ:
        return os.environ[name]
    with suppress(OSError, UnicodeDecodeError), open(_path("config.env"), encoding="utf-8-sig") as file:
        for line in file:
            key, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and key.strip() == name:
                default = value.strip().strip("\"'")
    return default


def read_daemon_file() -> dict[str, object] | None:
    """What the last daemon wrote about itself (pid, port, url, …), or None; no proof that it still runs."""
    with suppress(OSError, ValueError), open(_path("daemon.json"), encoding="utf-8") as file:
        found = json.load(file)
        if isinstance(found, dict) and isinstance(found.get("port"), int) and 0 < found["port"] < 65536:
            return found
    return None


def lock_holder() -> int | None:
    """The pid of the daemon that lives in this home, ready or not: whoever holds its lock; 0 for one that hides it."""
    try:
        handle = os.open(_path("locks", "daemon.lock"), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        written = os.read(handle, 20).strip()
        return int(written) if written.isdigit() else 0
    finally:
        os.close(handle)


def connect(timeout: float = PATIENCE) -> Connection | None:
    """A connection to this home's running daemon; None when none runs, another program has its port, or it hangs."""
    found = read_daemon_file()
    token = _token()
    if found is None or token is None:
        return None
    port = int(str(found["port"]))
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        wire.connect()
        wire.auto_open = 0  # a reopened connection would be one without proof
        if _proven(wire, token, port):
            return Connection(wire, token, f"{found.get('pid')} {found.get('started_at')}")
    except (*FAILURES, ValueError):
        pass
    wire.close()
    return None


def ensure(seconds: float = 20.0, *, autostart: bool | None = None) -> Connection:
    """A connection, if need be to a daemon started here; NoDaemon when there is none after so many seconds.

    Of many that ask at once one starts the daemon and the others wait for it; one that hangs is not waited for.
    ``autostart`` is COFFER_AUTOSTART unless given.
    """
    began = time.monotonic()
    deadline = began + seconds
    connection = _reach(seconds)
    if connection is not None:
        return connection
    if time.monotonic() - began >= PATIENCE and _is_up():
        raise NoDaemon(_too_late(seconds))
    if autostart is None:
        autostart = setting("COFFER_AUTOSTART", "1").strip().lower() not in ("0", "false", "no", "off", "")
    if not autostart:
        raise NoDaemon("Coffer's daemon does not run and COFFER_AUTOSTART=0 is set; start it with `coffer up`.")
    with _start_lock() as handle:
        while not _taken(handle):
            time.sleep(_POLL)
            connection = _reach(PATIENCE)
            if connection is not None:
                return connection
            if time.monotonic() > deadline:
                raise NoDaemon(_too_late(seconds))
        return _reach(PATIENCE) or _start_and_wait(deadline, seconds)


def start() -> int:
    """Start a daemon that outlives this process; the pipe returned tells READY, BUSY or the reason why not."""
    import subprocess  # noqa: PLC0415 - 5 ms that only the one who starts a daemon should pay

    try:
        log = os.open(
            os.path.join(_folder("logs"), "daemon-start.log"),
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND,
            0o600,
        )
    except OSError as error:
        raise NoDaemon(_not_writable(error)) from error
    news, speaker = os.pipe()
    command = [sys.executable, "-P", "-s", "-m", "coffer.daemon", "--home", home(), "--detach", "--news", str(speaker)]
    try:
        starter = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home(),
            env=environment(),
            pass_fds=(speaker,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(news)
        raise NoDaemon(f"{sys.executable} cannot be run ({error.strerror}); run `coffer up` again.") from error
    finally:
        os.close(speaker)
        os.close(log)
    starter.wait()  # it ends at once: the daemon is its child, so that nobody who kills our children kills it
    return news


def environment() -> dict[str, str]:
    """The clean environment for a daemon: nothing of git, Python or the session that happens to start it.

    Proxies are for models on other machines; nothing else of the daemon asks for them.
    """
    kept = {name: value for name, value in os.environ.items() if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)}
    return {**kept, "COFFER_HOME": home(), "PYTHONPATH": ROOT}


def _reach(seconds: float) -> Connection | None:
    return connect(min(seconds, _MOMENT if lock_holder() is None else PATIENCE))


def _is_up() -> bool:
    """Whether the daemon that lives here has said where it listens; one that still starts has not."""
    holder, found = lock_holder(), read_daemon_file()
    return bool(holder) and found is not None and found.get("pid") == holder


def _path(*names: str) -> str:
    return os.path.join(home(), *names)


def _folder(name: str) -> str:
    """A private folder of the home, made when missing, as the home is: only the last of a path gets its mode."""
    for path in (home(), _path(name)):
        os.makedirs(path, mode=0o700, exist_ok=True)
    return _path(name)


def _token() -> str | None:
    try:
        with open(os.open(_path("token"), os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _proven(wire: http.client.HTTPConnection, token: str, port: int) -> bool:
    nonce = os.urandom(16).hex()
    wire.request("GET", f"/api/v1/daemon/status?nonce={nonce}")
    response = wire.getresponse()
    answer = json.loads(response.read(_ANSWER_LIMIT))
    response.close()
    expected = hmac.new(token.encode(), f"{nonce}:{port}".encode(), hashlib.sha256).hexdigest()
    given = answer.get("proof") if isinstance(answer, dict) else None
    return isinstance(given, str) and hmac.compare_digest(given.encode(), expected.encode())


@contextmanager
def _start_lock() -> Iterator[int]:
    try:
        handle = os.open(os.path.join(_folder("locks"), "start.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise NoDaemon(_not_writable(error)) from error
    try:
        yield handle
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start_and_wait(deadline: float, seconds: float) -> Connection:
    news, started = None, False
    try:
        while (left := deadline - time.monotonic()) > 0:
            if news is None and not started and lock_holder() is None:
                news, started = start(), True
            elif news is None:
                time.sleep(_POLL)
            elif select.select([news], [], [], left)[0]:
                words = os.read(news, 4096)
                if words not in (READY, BUSY):
                    raise NoDaemon(words.decode("utf-8", "replace") or _died())
                os.close(news)
                news, started = None, words == READY  # a busy home's other daemon may be on its last steps
            connection = _reach(left)
            if connection is not None:
                return connection
    finally:
        if news is not None:
            os.close(news)
    raise NoDaemon(_too_late(seconds))


def _died() -> str:
    return (
        f"Coffer's daemon ended while it started; {_path('logs')} has daemon-start.log and daemon.log, which say why."
    )


def _too_late(seconds: float) -> str:
    if holder := lock_holder():
        return (
            f"Coffer's daemon (process {holder}) does not answer; `coffer down` ends it and `coffer up` starts another."
        )
    return f"Coffer's daemon was not ready within {seconds:.0f} s; `coffer up` says what keeps it."


def _not_writable(error: OSError) -> str:
    return (
        f"Coffer's daemon does not run and cannot be started from here: {error.filename or home()} cannot be written "
        f"({error.strerror}). Run `coffer up` where it can, or check its permissions."
    )
