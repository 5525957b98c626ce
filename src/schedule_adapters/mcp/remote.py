"""The tools of one of our MCP servers elsewhere, as tools of this process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent, Tool

from schedule_adapters.mcp.http import Endpoint
from schedule_adapters.turn_driver import SessionTool
from schedule_core.text import parse_json


class RemoteError(Exception):
    """The server cannot be reached; one line for a person, without the token."""


@asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[Client]:
    """A client of an HTTP endpoint that shows its token.

    Raises:
        RemoteError: nothing answers there, or it refuses.
    """
    async with AsyncExitStack() as begun:
        http = await begun.enter_async_context(
            httpx2.AsyncClient(headers=endpoint.headers, timeout=None)
        )
        transport = streamable_http_client(endpoint.url, http_client=http)
        try:
            client = await begun.enter_async_context(Client(transport))
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup) as error:
            raise RemoteError(f"no server of ours answers at {endpoint.url}") from error
        yield client


@asynccontextmanager
async def remote_tools(endpoint: Endpoint) -> AsyncIterator[tuple[SessionTool, ...]]:
    """The tools that a server offers, for as long as the context lasts.

    Raises:
        RemoteError: as `connected`.
    """
    async with connected(endpoint) as client:
        listed = await client.list_tools()
        yield tuple(_bind(client, tool) for tool in listed.tools)


def _bind(client: Client, tool: Tool) -> SessionTool:
    async def call(arguments: dict[str, Any]) -> object:
        result = await client.call_tool(tool.name, arguments)
        match result.content:
            case [TextContent(text=text)]:
                return parse_json(text)
            case _:
                raise RemoteError(f"{tool.name} answered with something else than one text")

    return SessionTool(tool.name, tool.description or "", tool.input_schema, call)
