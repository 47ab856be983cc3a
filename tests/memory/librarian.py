"""Models for the organizer's tests: what they were asked, read back out of the prompt, and one that does its job."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fake_llm import Request

_NOTE = re.compile(r"<note (\w+)>\n(.*?)\n</note \1>", re.DOTALL)
_DOCUMENT = re.compile(r'<document (\w+) slug="([^"]*)" title="[^"]*">\n(.*?)\n</document \1>', re.DOTALL)
_PART = re.compile(r"<part (\w+)>\n(.*?)\n</part \1>", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """One question: the note, and the documents by slug, of a long one the part that may be rewritten."""

    note: str
    documents: dict[str, str] = field(default_factory=dict)


def asked(request: Request) -> Asked:
    found = _NOTE.search(request.user)
    assert found is not None, request.user
    documents = {}
    for match in _DOCUMENT.finditer(request.user):
        part = _PART.search(match[3])
        documents[match[2]] = part[2] if part else match[3]
    return Asked(found[2], documents)


def answer(markdown: str, slug: str = "topic", **more: Any) -> dict[str, Any]:
    """A well-formed answer."""
    said = {"topic_slug": slug, "topic_title": slug.title(), "topic_description": f"About {slug}.", "is_rule": False}
    return {**said, "markdown": markdown, **more}


def sensible(subject: Callable[[str], str]) -> Callable[[Request], dict[str, Any]]:
    """A model that copies the document of the note's subject and adds the note at its end."""

    def reply(request: Request) -> dict[str, Any]:
        question = asked(request)
        slug = subject(question.note)
        before = question.documents.get(slug, f"# {slug}")
        return answer(f"{before}\n\n{question.note}", slug)

    return reply
