"""Admin pages as the signed-in owner's browser asks for them."""

import ctypes
import html
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse


class Admin:
    """A browser without JavaScript: follows links and redirects, sends the forms that a page has."""

    def __init__(self) -> None:
        from django.contrib.auth.models import User

        self._client = Client()
        self._client.force_login(User.objects.create_superuser("owner"))

    def get(self, name: str, *arguments: str, **query: str) -> str:
        """The text of a page, by the name of its view."""
        return self._read(self._client.get(self.address(name, *arguments, **query), follow=True))

    def post(self, name: str, *arguments: str, fields: dict[str, Any], **query: str) -> str:
        """What the browser shows after a form was sent."""
        return self._read(self._client.post(self.address(name, *arguments, **query), fields, follow=True))

    def address(self, name: str, *arguments: str, **query: str) -> str:
        return reverse(f"admin:{name}", args=arguments) + (f"?{urlencode(query)}" if query else "")

    def confirm(self, name: str, verb: str, key: str, **choices: str) -> str:
        """Answer the question that an action asks about one thing."""
        asked = self.get(name, verb, key=key)
        return self.post(name, verb, fields={"keys": hidden(asked, "keys"), **choices})

    def _read(self, answer: Any) -> str:
        assert answer.status_code == 200
        text: str = answer.content.decode()
        InlineCode().feed(text)
        return text


class InlineCode(HTMLParser):
    """Finds what our Content-Security-Policy forbids a page to hold: style and script in the page itself."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert tag != "style"
        assert tag != "script" or "src" in names
        assert not [name for name in names if name == "style" or name.startswith("on")], (tag, attrs)


def hidden(page: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    assert found, f"no hidden field {name}"
    return html.unescape(found[1])


def shown(page: str) -> str:
    """What a reader sees of a page, in one line."""
    body = page.partition("<body")[2].partition(">")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.fixture
def site(home: Any) -> Admin:
    return Admin()


@pytest.fixture
def no_overrides() -> Iterator[None]:
    """Let the modes of files stop this thread even when it is root's (Linux: without its two capabilities for that)."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    kept = (ctypes.c_uint32 * 6)()
    if not hasattr(libc, "capget") or libc.capget(header, kept):
        pytest.skip("nothing stops root here")
    reduced = (ctypes.c_uint32 * 6)(*kept)
    reduced[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if libc.capset(header, reduced):
        pytest.skip("nothing stops root here")
    yield
    libc.capset(header, kept)
