"""REST routes that hooks call: what a session begins with, and what belongs to a prompt.

Only a request with the header ``X-Coffer-Hook: 1`` comes from a hook and is a delivery; any other is a look at what
would be given, and nothing is written down.
"""

from typing import Annotated

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import StringConstraints

from agents.services import context
from coffer.rest import Name, StrictSchema

router = Router(tags=["agents"])
Path = Annotated[str, StringConstraints(max_length=8192)]


class ContextOut(Schema):
    additional_context: str


class PromptIn(StrictSchema):
    prompt: str
    cwd: Path = ""
    session_id: str = ""


@router.get("/agents/{name}/session-context", response=ContextOut, summary="What a session begins with")
def session_context(
    request: HttpRequest, name: Name, cwd: Path = "", session_id: str = "", source: str = "", folder: Path = ""
) -> dict[str, str]:
    """Rules and the index of memory for a working directory; never empty.

    ``source`` is the agent's word for why; ``check`` is ours for a try of the hook, which is no delivery to a session.
    """
    event = context.CHECK if source == "check" else "SessionStart"
    if event == context.CHECK or _is_hook(request):
        found = context.session_context(name, cwd=cwd, session=session_id, event=event, folder=folder)
    else:
        found = context.session_preview(name, cwd=cwd)
    return {"additional_context": found.text}


@router.post("/agents/{name}/prompt-context", response=ContextOut, summary="What clearly belongs to a prompt")
def prompt_context(request: HttpRequest, name: Name, body: PromptIn) -> dict[str, str]:
    """Empty when nothing does, and when it is not switched on for the agent."""
    given = context.prompt_context if _is_hook(request) else context.prompt_preview
    found = given(name, prompt=body.prompt, cwd=body.cwd, session=body.session_id)
    return {"additional_context": found.text}


def _is_hook(request: HttpRequest) -> bool:
    return request.headers.get("X-Coffer-Hook") == "1"
