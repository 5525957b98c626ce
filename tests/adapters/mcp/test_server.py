"""What a client of the MCP server meets: over a real process, over HTTP, in both eras."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
)

from schedule_adapters.mcp.remote import connected
from schedule_adapters.mcp.wire import ACKNOWLEDGE, DUE_URI, HOST_META, HOST_TOOLS, TAKE
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.stores import SetClock
from schedule_core import TOOLS
from schedule_core.text import parse_json
from tests.adapters.mcp.mcp_world import FIRST, HANG_S, ServerWorld, create, stdio

MODERN, LEGACY = "2026-07-28", "legacy"
WAYS = [(way, era) for way in ("stdio", "http", "proxy") for era in (MODERN, LEGACY)]
HOST: Any = {HOST_META: True}
HALF_AN_EMOJI = "half \ud83d"


@asynccontextmanager
async def client_of(world: ServerWorld, root: Path, way: str, era: str) -> AsyncIterator[Client]:
    """A client that reaches the server that way."""
    async with asyncio.timeout(HANG_S), AsyncExitStack() as begun:
        if way == "stdio":
            client = Client(stdio(root), mode=era)
        else:
            served = await begun.enter_async_context(world.served())
            url, token = served.endpoint.url, served.endpoint.token
            if way == "proxy":
                relay = stdio(root, "--proxy", url, SESSION_SCHEDULE_TOKEN=token)
                client = Client(relay, mode=era)
            else:
                http = httpx2.AsyncClient(headers=served.endpoint.headers)
                await begun.enter_async_context(http)
                client = Client(streamable_http_client(url, http_client=http), mode=era)
        yield await begun.enter_async_context(client)


@pytest.fixture
def world(tmp_path: Path) -> ServerWorld:
    clock = SetClock()
    return ServerWorld(JsonlStore(tmp_path, clock=clock), clock)


def text_of(result: CallToolResult) -> object:
    """The JSON value of the one text of a result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return parse_json(content.text)


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_every_way_gives_the_three_tools_and_their_answers(
    world: ServerWorld, tmp_path: Path, way: str, era: str
) -> None:
    """Names, descriptions and schemas as the catalog has them; values as every adapter's."""
    async with client_of(world, tmp_path, way, era) as client:
        listed = (await client.list_tools()).tools
        created = await create(client, "stretch")
        rows = await client.call_tool("schedule_list", {})
        refused = await client.call_tool("schedule_create", {"prompt": "", "after_seconds": 1})
        deleted = await client.call_tool("schedule_delete", {"id": FIRST})
        again = await client.call_tool("schedule_delete", {"id": FIRST})
        with pytest.raises(MCPError):
            await client.call_tool("schedule_cancel", {"id": FIRST})

    assert [(t.name, t.description, t.input_schema) for t in listed] == [
        (tool.name, tool.description, tool.parameters) for tool in TOOLS
    ]
    assert (created["id"], created["prompt"]) == (FIRST, "stretch")
    assert text_of(rows) == [created]
    assert text_of(deleted) == deleted.structured_content == {"id": FIRST, "deleted": True}
    assert not deleted.is_error
    assert refused.is_error
    assert text_of(refused) == refused.structured_content
    assert text_of(refused) == {"code": "invalid_prompt", "message": "prompt is empty"}
    assert again.structured_content == {
        "id": FIRST,
        "deleted": False,
        "code": "schedule_not_found",
    }
    assert not again.is_error


@pytest.mark.parametrize(
    ("era", "structured", "has_schemas"), [(MODERN, [], True), (LEGACY, None, False)]
)
async def test_a_list_is_structured_only_where_the_protocol_allows_it(
    world: ServerWorld, tmp_path: Path, era: str, structured: object, *, has_schemas: bool
) -> None:
    """Before 2026-07-28 structured content is an object, and so is the root of its schema."""
    async with client_of(world, tmp_path, "http", era) as client:
        listed = (await client.list_tools()).tools
        rows = await client.call_tool("schedule_list", {})

    assert rows.structured_content == structured
    assert text_of(rows) == []
    schemas = [tool.output for tool in TOOLS] if has_schemas else [None, None, None]
    assert [tool.output_schema for tool in listed] == schemas


async def test_text_that_cannot_be_utf_8_is_sent_all_the_same(
    world: ServerWorld, tmp_path: Path
) -> None:
    """As an escape in the text; replaced in the structured content."""
    async with world.served() as served:
        schedule = served.hosted.schedule
        await schedule.call_tool("schedule_create", {"prompt": HALF_AN_EMOJI, "after_seconds": 60})
    async with client_of(world, tmp_path, "http", MODERN) as client:
        rows = await client.call_tool("schedule_list", {})

    shown = text_of(rows)
    assert isinstance(shown, list)
    assert [row["prompt"] for row in shown] == [HALF_AN_EMOJI]
    assert [row["prompt"] for row in rows.structured_content] == ["half \ufffd"]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_the_hosts_tools_are_not_there_for_the_model(
    world: ServerWorld, tmp_path: Path, era: str
) -> None:
    """Neither in the list nor by name: a model writes no `_meta`."""
    async with client_of(world, tmp_path, "http", era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        for tool in HOST_TOOLS:
            with pytest.raises(MCPError):
                await client.call_tool(tool.name, {"_meta": HOST})
        asked = PaginatedRequestParams(_meta=HOST)
        with_host = {tool.name for tool in (await client.session.list_tools(params=asked)).tools}

    assert names == {tool.name for tool in TOOLS}
    assert with_host == names | {TAKE, ACKNOWLEDGE}


async def test_a_bad_acknowledgement_is_refused(world: ServerWorld, tmp_path: Path) -> None:
    """It is the host's mistake, not an answer."""
    async with client_of(world, tmp_path, "http", MODERN) as client:
        for arguments in ({}, {"delivery": 1}, {"delivery": "x", "outcome": "great"}):
            call = CallToolRequestParams(name=ACKNOWLEDGE, arguments=arguments, _meta=HOST)
            with pytest.raises(MCPError):
                await client.session.send_request(CallToolRequest(params=call), CallToolResult)


async def test_the_resource_says_what_is_due_and_takes_nothing(world: ServerWorld) -> None:
    """With the exact framed messages, earliest first; then when the next one is due."""
    async with world.served() as served, connected(served.endpoint) as client:
        for prompt, after_s in (("drink", 60), ("stretch", 30), ("call", 3600)):
            await create(client, prompt, after_s)
        [resource] = (await client.list_resources()).resources
        served.pass_time(60)
        read = await client.read_resource(resource.uri)
        before = await world.types()
        taken = await served.hosted.take()
        again = await client.read_resource(DUE_URI, cache_mode="bypass")
        with pytest.raises(MCPError):
            await client.read_resource("schedule://other")

    [content] = read.contents
    assert isinstance(content, TextResourceContents)
    value = parse_json(content.text)
    assert isinstance(value, dict)
    assert [each["id"] for each in value["due"]] == ["schedule-2", "schedule-1"]
    assert value["due"][0]["message"] == taken.message  # type: ignore[union-attr]
    assert before == ["create", "create", "create"]
    assert again.contents[0].text == content.text  # type: ignore[union-attr]
