"""The five tools (FR-015). Each one resolves where its caller stands, calls one service and shapes the answer.

The descriptions say when to use a tool: an agent decides by them alone.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coffer import scrub
from coffer.errors import Invalid
from gateway.caller import Caller
from memory.services import facts, handoff, stores
from memory.services import recall as recall_service
from memory.services.stores import Place

# Gemini CLI adds this argument to the schema of every tool and sends it along (seen in 0.61).
_HARNESS = frozenset({"wait_for_previous"})
_NEWEST = 100


@dataclass(frozen=True)
class Answer:
    """What a call gives back, and what its invocation row may say about it."""

    content: dict[str, Any]
    items: int
    store: str = ""


@dataclass(frozen=True)
class Tool:
    """One tool: what agents read about it, and the function behind it."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    run: Callable[..., Answer]
    read_only: bool
    idempotent: bool

    @property
    def required(self) -> list[str]:
        """The arguments that the function has no default for."""
        parameters = inspect.signature(self.run).parameters
        return [name for name in self.arguments if parameters[name].default is inspect.Parameter.empty]

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.arguments.items()},
            "required": self.required,
            "additionalProperties": False,
        }

    def call(self, caller: Caller, arguments: Mapping[str, Any]) -> Answer:
        """Check the arguments' names and types, then run; raises Invalid with what would be right."""
        given = {name: value for name, value in arguments.items() if value is not None and name not in _HARNESS}
        takes = ", ".join(self.arguments) or "no arguments"
        for name in given.keys() - self.arguments.keys():
            raise Invalid(f"{self.name} does not know the argument {name[:60]!r}; it takes {takes}.")
        for name in self.required:
            if name not in given:
                raise Invalid(f"{self.name} needs the argument {name}.")
        return self.run(caller, **{name: _typed(name, self.arguments[name], value) for name, value in given.items()})


TOOLS: dict[str, Tool] = {}


def _tool(
    title: str, *, about: str, read_only: bool, idempotent: bool, **arguments: Mapping[str, Any]
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    def register(run: Callable[..., Answer]) -> Callable[..., Answer]:
        name = f"coffer__{run.__name__}"
        TOOLS[name] = Tool(name, title, about, arguments, run, read_only, idempotent)
        return run

    return register


def _text(description: str) -> Mapping[str, Any]:
    return {"type": "string", "description": description}


def _scope(description: str, *allowed: str) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(allowed), "description": description}


@_tool(
    "Recall from shared memory",
    about="Use before you answer, decide or change something that an earlier session, yours or another agent's, may "
    "have settled: decisions, conventions, commands, traps, where things are. It finds what any agent or the user "
    "saved about this project or in general, best match first; when nothing fits, ask once more in other words.",
    read_only=True,
    idempotent=True,
    query=_text(
        "What you want to know, in every wording that a note on it may have: synonyms, the exact names of commands, "
        "files, settings and errors, and the same in English and in the user's other language. A word that no note "
        "holds does no harm, a missing one may cost the answer; for example: API rate limit throttle quota 429 "
        "requests per minute 限流 每分钟请求数."
    ),
    scope=_scope("Where to look; default both.", "project", "global", "both"),
    top_k={
        "type": "integer",
        "description": f"How many hits at most, 1 to {recall_service.MAX_TOP_K}; "
        f"default {recall_service.DEFAULT_TOP_K}.",
    },
)
def recall(caller: Caller, *, query: str, scope: str = "both", top_k: int = recall_service.DEFAULT_TOP_K) -> Answer:
    """Passages over the project's and the global store, one per document (FR-009)."""
    place = stores.locate(caller.cwd)
    wanted = max(1, min(recall_service.MAX_TOP_K, top_k))
    hits = recall_service.recall(stores.for_reading(place, scope), query, top_k=wanted)
    return _answer(place, {"hits": [hit.as_dict() for hit in hits]}, items=len(hits))


@_tool(
    "Remember for every agent",
    about="Use as soon as you learn something that a later session or another agent should know: a decision and its "
    "reason, a convention, a command that works, a trap and the way around it. Save one fact per call, the conclusion "
    "as its first sentence, readable on its own and free of secrets.",
    read_only=False,
    idempotent=False,
    text=_text(
        "The fact, in plain words or markdown. Its first sentence becomes the title, which is all that a new session "
        "sees of it: let it state the conclusion with its numbers, names and paths ('Clients may make 600 API calls a "
        "minute', not 'Rate limits'). Spell commands, files, settings and errors exactly, as they are searched for."
    ),
    scope=_scope("project (default), or global for what holds in every project.", "project", "global"),
)
def remember(caller: Caller, *, text: str, scope: str = "project") -> Answer:
    """Save one fact; the answer means that its file is durable (FR-003)."""
    place = stores.locate(caller.cwd)
    saved = facts.remember_at(place, scope, text, actor="agent", session=caller.session)
    content = {"id": saved.id, "path": str(saved.path), "scope": saved.scope}
    return _answer(place, {**content, "indexed": saved.indexed, "masked": saved.masked}, items=1)


@_tool(
    "List what is remembered",
    about="Use when you want to see what is remembered and do not know which words to search for, or to check for a "
    f"double before you save. It gives the titles of the newest {_NEWEST} facts and topics, newest first, and how "
    "many there are.",
    read_only=True,
    idempotent=True,
    scope=_scope("Which memory; default project, global outside a project.", "project", "global", "both"),
)
def list_memory(caller: Caller, *, scope: str | None = None) -> Answer:
    """The newest facts and topics, without their texts."""
    place = stores.locate(caller.cwd)
    if scope is None:
        scope = "global" if place.project is None else "project"
    newest, total = facts.newest(stores.for_reading(place, scope), limit=_NEWEST)
    listed = [{**one.as_dict(), "title": scrub.redact(one.title).text} for one in newest]
    return _answer(place, {"facts": listed, "total": total}, items=len(newest))


@_tool(
    "Save the working state",
    about="Use when work stops half done, or the user says to pause, hand over or switch to another agent: save what "
    "you were doing, what comes next, the files in flight and the open questions. There is one scene per git branch; "
    "a new one replaces it.",
    read_only=False,
    idempotent=True,
    body=_text("The scene as markdown, for someone who knows nothing of this session; secrets are taken out."),
)
def set_handoff(caller: Caller, *, body: str) -> Answer:
    """Replace the current branch's scene (FR-023, FR-024, FR-026)."""
    place = stores.locate(caller.cwd)
    scene = handoff.save(place, body)
    content = {"status": "saved", "branch": scene.branch, "scope": scene.scope, "path": str(scene.path)}
    return _answer(place, content | ({"masked": scene.masked} if scene.masked else {}), items=1)


@_tool(
    "Resume earlier work",
    about='Use when the user wants to go on with earlier work ("continue", "where were we", "resume"), before you '
    "look around yourself. It gives the scene that was saved for the current git branch, by whichever agent, with its "
    "age and what changed since.",
    read_only=True,
    idempotent=True,
)
def resume(caller: Caller) -> Answer:
    """The current branch's scene, or found=false; never an error for a missing one (FR-025)."""
    place = stores.locate(caller.cwd)
    scene = handoff.resume(place)
    return _answer(place, scene.as_dict(), items=int(scene.found))


def _answer(place: Place, content: dict[str, Any], *, items: int) -> Answer:
    """Name the project in every reply, so that a wrong one is noticed at once."""
    project = place.project
    return Answer(
        {**content, "project": project.as_dict() if project else None}, items, project.store if project else ""
    )


def _typed(name: str, schema: Mapping[str, Any], value: Any) -> str | int:
    if schema["type"] == "string":
        if isinstance(value, str):
            return value
        allowed = schema.get("enum")
        raise Invalid(f"{name} must be {'one of ' + ', '.join(allowed) if allowed else 'text'}.")
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        raise Invalid(f"{name} must be a whole number. {schema['description']}")
    return int(value)
