"""The token, its proof, and which hosts and origins may ask."""

import threading
from pathlib import Path

import pytest

from coffer import auth, paths


def test_secrets_are_made_once_with_mode_0600_also_by_many_at_once(home: Path) -> None:
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(auth.token())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert set(seen) == {paths.token().read_text().strip()}
    assert paths.token().stat().st_mode & 0o777 == 0o600


def test_only_the_token_matches() -> None:
    token = auth.token()
    assert auth.token_matches(token)
    assert not any(auth.token_matches(given) for given in (None, "", token[:-1], token + "x", "ä", "\ud800"))


def test_a_proof_holds_for_one_nonce_and_one_port() -> None:
    assert auth.proof("n", 1) == auth.proof("n", 1)
    assert len({auth.proof("n", 1), auth.proof("m", 1), auth.proof("n", 2)}) == 3


@pytest.mark.parametrize(
    "host", ["localhost:8765", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST:1", "localhost", "127.0.0.1", "[::1]"]
)
def test_bc_059_every_form_of_this_machines_name_is_allowed(host: str) -> None:
    assert auth.host_allowed(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "localhost.evil.example:1",
        "localhost:evil",
        "localhost:",
        "::1",
        "localhost:1:2",
        "user@localhost",
    ],
)
def test_bc_057_every_other_host_is_refused(host: str | None) -> None:
    assert not auth.host_allowed(host)


def test_only_our_own_origin_on_our_own_port_is_allowed() -> None:
    assert auth.origin_allowed(None, 8765)
    assert auth.origin_allowed("http://localhost:8765", 8765)
    for origin in ("null", "", "http://localhost", "http://localhost:1", "https://localhost:8765", "http://evil:8765"):
        assert not auth.origin_allowed(origin, 8765)


@pytest.mark.parametrize("left", [b"", b"short\n", b"\xff" * 40])
def test_a_secret_that_was_cut_off_is_made_anew(left: bytes) -> None:
    for secret, path in ((auth.token, paths.token()), (auth.secret_key, paths.secret_key())):
        path.write_bytes(left)
        made = secret()
        assert len(made) == 43
        assert secret() == made
        assert path.stat().st_mode & 0o777 == 0o600
