"""A model that may call plain functions, in a loop of two nodes: ask the model, act on what it wants; bounded.

The functions are the caller's and keep its promises; the loop only carries words between them and the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from coffer.errors import (
    BadAnswer,
    BudgetSpent,
    Cancelled,
    CofferError,
    EngineError,
    NoModel,
    Refused,
    Unavailable,
)
from coffer.llm import answers, conversation
from coffer.llm.chat import Message
from coffer.llm.conversation import Conversation
from coffer.llm.replies import Reply, ToolCall

Stopped = Literal["done", "steps", "calls", "tokens", "budget", "bad_answer", "unavailable", "refused", "cancelled"]
_STOPPED: dict[type[EngineError], Stopped] = {
    BudgetSpent: "budget",
    BadAnswer: "bad_answer",
    Unavailable: "unavailable",
    Refused: "refused",
    Cancelled: "cancelled",
}
_TYPES = {"string": str, "boolean": bool, "integer": int, "number": float, "array": list, "object": dict}
_BAD_IN_A_ROW = 3


@dataclass(frozen=True)
class Tool:
    """One function a model may call; ``parameters`` is the JSON schema of its arguments, what it returns is text."""

    name: str
    description: str
    parameters: dict[str, Any]
    call: Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class LoopReport:
    """How a loop went: times the model was asked, tools called, tokens, its last words, and why it stopped."""

    steps: int
    calls: int
    stopped: Stopped
    tokens_in: int
    tokens_out: int
    text: str
    reason: str


def run_tools(
    purpose: str,
    *,
    system: str,
    user: str,
    tools: Sequence[Tool],
    max_steps: int = 24,
    max_calls: int = 200,
    max_tokens: int | None = None,
    store: str = "",
) -> LoopReport:
    """Let a model work with these tools until it says it is done, or a limit ends it.

    What a tool did stays done however the loop ends. A CofferError of a tool is told to the model; any other exception
    comes out. Raises NoModel; every other failure of the engine is a ``stopped``.
    """
    with conversation.begin(purpose, store=store) as talk:
        loop = _Loop(talk, {tool.name: tool for tool in tools}, max_steps, max_calls, max_tokens)
        loop.begin(system, user)
        try:
            _turn(loop)
        except NoModel:
            raise
        except EngineError as error:
            loop.stop(_STOPPED.get(type(error), "unavailable"), error.message)
        return loop.report()


class _State(TypedDict):
    stopped: bool


def _turn(loop: "_Loop") -> None:
    """Run the graph to its end, telling nobody of it."""
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415 - a second that only a loop should pay
    from langsmith import tracing_context  # noqa: PLC0415 - comes with langgraph

    graph = StateGraph(_State)
    graph.add_node("ask", lambda state: {"stopped": loop.ask()})
    graph.add_node("act", lambda state: {"stopped": loop.act()})
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: END if state["stopped"] else "act")
    graph.add_conditional_edges("act", lambda state: END if state["stopped"] else "ask")
    # Variables of the environment could have every step sent to a tracing service.
    with tracing_context(enabled=False):
        graph.compile().invoke({"stopped": False}, {"recursion_limit": 2 * loop.max_steps + 4})


@dataclass
class _Loop:
    talk: Conversation
    tools: Mapping[str, Tool]
    max_steps: int
    max_calls: int
    max_tokens: int | None
    messages: list[Message] = field(default_factory=list)
    wanted: tuple[ToolCall, ...] = ()
    steps: int = 0
    calls: int = 0
    bad: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    text: str = ""
    stopped: Stopped = "done"
    reason: str = ""

    def begin(self, system: str, user: str) -> None:
        said = zip(("system", "user"), self.talk.out(system, user), strict=True)
        self.messages = [{"role": role, "content": text} for role, text in said]

    def ask(self) -> bool:
        """Ask the model for its next step; whether the loop is over."""
        if self.steps >= self.max_steps:
            return self.stop("steps", f"It was not done after {self.max_steps} steps.")
        if self.max_tokens is not None and self.tokens_in + self.tokens_out >= self.max_tokens:
            return self.stop("tokens", f"It was not done after {self.max_tokens:,} tokens.")
        self.steps += 1
        with self.talk.asking(self.messages, tools=[_described(tool) for tool in self.tools.values()]) as reply:
            self.tokens_in += reply.tokens_in or 0
            self.tokens_out += reply.tokens_out or 0
            self.wanted = reply.calls
            if not reply.calls:
                self.text = self.talk.back(reply.text)
        self.messages.append(_echo(reply))
        return not reply.calls

    def act(self) -> bool:
        """Call the tools the model wants; whether the loop is over."""
        for wanted in self.wanted:
            if self.calls >= self.max_calls:
                return self.stop("calls", f"It called tools more than {self.max_calls} times.")
            self.calls += 1
            (result,) = self.talk.out(self._call(wanted))
            self.messages.append({"role": "tool", "tool_call_id": wanted.id, "content": result})
        if self.bad >= _BAD_IN_A_ROW:
            return self.stop("bad_answer", f"{self.bad} calls of tools in a row could not be understood.")
        return False

    def _call(self, wanted: ToolCall) -> str:
        tool = self.tools.get(wanted.name)
        try:
            if tool is None:
                raise BadAnswer(f"there is no such tool; there are {', '.join(self.tools)}")
            arguments = self.talk.back(_arguments(tool, wanted.arguments))
        except BadAnswer as error:
            self.bad += 1
            return f"Error: {error.reason}."
        self.bad = 0
        try:
            return tool.call(arguments)
        except EngineError:
            raise
        except CofferError as error:
            return f"Error: {error.message}"

    def stop(self, stopped: Stopped, reason: str) -> bool:
        self.stopped, self.reason = stopped, reason
        return True

    def report(self) -> LoopReport:
        return LoopReport(self.steps, self.calls, self.stopped, self.tokens_in, self.tokens_out, self.text, self.reason)


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _echo(reply: Reply) -> Message:
    """The model's turn as it has to be repeated in the next question."""
    message: Message = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in reply.calls
        ]
    return message


def _arguments(tool: Tool, given: str) -> dict[str, Any]:
    """Arguments of the right names and types; an optional one that is null counts as left out. Raises BadAnswer."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    needed = tool.parameters.get("required", [])
    found = answers.parse(given if given.strip() else "{}", {})
    found = {name: value for name, value in found.items() if value is not None}
    if unknown := [name for name in found if name not in properties]:
        raise BadAnswer(
            f"{tool.name} takes no argument {unknown[0][:40]!r}; it takes {', '.join(properties) or 'none'}"
        )
    kinds = {name: _TYPES.get(str(properties[name].get("type"))) for name in (*needed, *found)}
    return answers.checked(found, {name: kind for name, kind in kinds.items() if kind})
