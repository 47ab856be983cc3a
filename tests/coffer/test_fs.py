"""Files are whole or absent, and locks are held across threads and processes."""

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coffer import fs, paths
from coffer.errors import Busy, StorageFailed


def test_write_replaces_a_file_as_a_whole_and_keeps_its_mode(home: Path) -> None:
    path = home / "a.md"
    fs.write(path, b"one")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    fs.write(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o640)
    assert [entry.name for entry in home.glob(".*")] == []


def test_create_and_move_never_replace_a_file(home: Path) -> None:
    fs.create(home / "a", b"first")
    with pytest.raises(FileExistsError):
        fs.create(home / "a", b"second")
    fs.create(home / "b", b"other")
    with pytest.raises(FileExistsError):
        fs.move(home / "a", home / "b")
    fs.move(home / "a", home / "c")
    assert sorted(entry.name for entry in home.iterdir() if len(entry.name) == 1) == ["b", "c"]
    assert (home / "c").read_bytes() == b"first"


def test_read_refuses_a_link(home: Path) -> None:
    (home / "target").write_text("secret")
    (home / "link").symlink_to(home / "target")
    with pytest.raises(OSError, match="symbolic links"):
        fs.read(home / "link")


def test_a_disk_that_takes_no_more_leaves_the_old_file_and_no_other(home: Path) -> None:
    path = home / "a.md"
    fs.write(path, b"old")
    script = (
        f"import sys; from pathlib import Path; from coffer import fs; fs.write(Path({str(path)!r}), b'x' * 100_000)"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-B", "-c", script], preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert "StorageFailed: No space left to write a.md" in done.stderr
    assert path.read_bytes() == b"old"
    assert list(home.glob(".*.tmp")) == []


def test_a_folder_that_may_not_be_written_is_a_storage_failure(home: Path) -> None:
    with pytest.raises(StorageFailed, match="cannot be written"), fs.storage_errors(home / "x"):
        raise PermissionError(13, "Permission denied")


def test_a_lock_is_exclusive_between_threads_and_says_who_is_waited_for() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with fs.locked("some.lock"):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with pytest.raises(Busy, match=r"some\.lock"), fs.locked("some.lock", seconds=0.05):
        pass
    done.set()
    thread.join()
    with fs.locked("some.lock", seconds=1):
        pass


@pytest.mark.parametrize("left", [b"", b"garbage", b"999999", b"1"], ids=["empty", "garbage", "dead pid", "live pid"])
def test_bc_112_a_lock_file_left_behind_blocks_nobody(left: bytes) -> None:
    fs.ensure_dir(paths.locks())
    (paths.locks() / "some.lock").write_bytes(left)
    with fs.locked("some.lock", seconds=1):
        pass


def test_bc_112_a_killed_holder_frees_its_lock() -> None:
    script = (
        "from coffer import fs; import sys\nwith fs.locked('some.lock'): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy), fs.locked("some.lock", seconds=0.05):
            pass
        holder.kill()
    with fs.locked("some.lock", seconds=5):
        pass


def test_a_lock_is_free_at_once_though_a_child_was_started_under_it() -> None:
    until, end = os.pipe()
    with fs.locked("some.lock"):
        child = os.fork()
        if child == 0:
            os.close(end)
            os.read(until, 1)
            os._exit(0)
    try:
        with fs.locked("some.lock", seconds=0):
            pass
    finally:
        os.close(end)
        os.close(until)
        os.waitpid(child, 0)
