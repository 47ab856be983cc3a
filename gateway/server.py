"""The MCP server over streamable HTTP: stateless, one JSON answer per request, for clients of both protocol eras.

It stands on the SDK's low-level server: the schemas and the texts of errors are then ours to the letter, and no empty
list of prompts is announced.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_types import Tool as ToolEntry
from starlette.responses import Response

from coffer import __version__
from coffer.errors import CofferError
from coffer.guard import BODY_LIMIT, Application, Message, Receive, Scope, Send
from gateway import invocations
from gateway.caller import Caller, identify
from gateway.resources import INDEX, MIME_TYPE
from gateway.tools import TOOLS, Tool

INSTRUCTIONS = (
    "Coffer is the one memory that all coding agents on this machine share. Recall before you work on something that "
    "may have been settled before, remember what a later session should know, and prefer both over a memory of your "
    "own; resume when the user wants to go on with earlier work."
)
# A pair of surrogate escapes, a lone one, or any other escape (so that an escaped backslash is not taken for one).
_ESCAPE = re.compile(rb"(?i)\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)", re.DOTALL)


def build() -> Server[Any]:
    """The server with its five tools and one resource."""
    return Server(
        "coffer",
        title="Coffer",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_resource_templates,
        on_read_resource=_read_resource,
    )


def http_app(path: str) -> Application:
    """The server as an ASGI application for one path and lifespan; the guard in front has checked names and sizes."""
    app = build().streamable_http_app(
        streamable_http_path=path,
        stateless_http=True,
        json_response=True,
        max_request_body_size=BODY_LIMIT,
        # Ours has looked already; theirs refuses LOCALHOST and a Host without its port.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] != "POST":
            # A GET would open a stream on which, without sessions, nothing ever comes.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
        else:
            await app(scope, _mended(receive), send)

    return serve


async def _list_tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[_entry(tool) for tool in TOOLS.values()])


async def _call_tool(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(code=INVALID_PARAMS, message=f"There is no such tool; use one of {', '.join(TOOLS)}.")
    try:
        answer = await invocations.run(tool, _caller(ctx), params.arguments or {})
    except CofferError as error:
        return CallToolResult(content=[_text(f"{error.code}: {error.message}")], is_error=True)
    content = _text(json.dumps(answer.content, ensure_ascii=False))
    return CallToolResult(content=[content], structured_content=json.loads(content.text))


async def _list_resources(
    ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
) -> ListResourcesResult:
    index = Resource(
        uri=INDEX.name,
        name="memory index",
        title=INDEX.title,
        description=INDEX.description,
        mime_type=MIME_TYPE,
    )
    return ListResourcesResult(resources=[index])


async def _list_resource_templates(
    ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=[])  # some clients ask, and take an error for a defect


async def _read_resource(ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> ReadResourceResult:
    if str(params.uri) != INDEX.name:
        raise MCPError(code=INVALID_PARAMS, message=f"There is no such resource; there is {INDEX.name}.")
    try:
        answer = await invocations.run(INDEX, _caller(ctx), {})
    except CofferError as error:
        raise MCPError(code=INTERNAL_ERROR, message=f"{error.code}: {error.message}") from None
    text = _text(answer.content["text"]).text
    return ReadResourceResult(contents=[TextResourceContents(uri=INDEX.name, mime_type=MIME_TYPE, text=text)])


def _entry(tool: Tool) -> ToolEntry:
    return ToolEntry(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=False,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
        # Else Claude Code lists only the names, and a memory that must be searched for first is not used.
        _meta={"anthropic/alwaysLoad": True},
    )


def _caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
    headers: Mapping[str, str] | None = getattr(ctx.request, "headers", None)
    client = ctx.session.client_params
    return identify(headers, ctx.meta, client.client_info.name if client else "")


def _text(text: str) -> TextContent:
    """A text that every client can decode; a path on disk may hold bytes that are no UTF-8."""
    return TextContent(type="text", text=text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _mended(receive: Receive) -> Receive:
    """Replace half a surrogate pair in the body by U+FFFD: the SDK would refuse the whole request (BC-002)."""

    async def mended() -> Message:
        message = await receive()
        body = message.get("body", b"")
        if b"\\ud" in body.lower():
            message = {**message, "body": _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], body)}
        return message

    return mended
