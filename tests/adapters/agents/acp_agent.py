"""A small real ACP agent, made with the SDK: its model is a script, its tools are MCP servers.

In a test it runs in this process with the kit's script; as a program it follows the rules
of `obedient`, so that a real process can be spawned.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import acp
import httpx2
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    HttpMcpServer,
    InitializeResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    TextContentBlock,
    ToolCallUpdate,
)
from attrs import define, field
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from schedule_adapters.agents.acp_process import AgentConnection
from schedule_adapters.agents.message_log import CUT_OFF, sendable
from schedule_adapters.testing.agents import (
    CallTool,
    CallTools,
    ModelFailed,
    Say,
    Seen,
    SeenTool,
    Step,
    new_call_id,
)

Think = Callable[[Seen], Awaitable[Step]]


@define
class ScriptedAgent:
    """Keeps each session in a file of `folder`."""

    folder: Path
    think: Think
    has_http: bool = True
    can_load: bool = True
    asks_first: bool = False
    """Whether it asks for permission before each call."""
    late: str = ""
    """Text that it sends after the end of each turn."""
    ignores_cancel: bool = False
    _client: Any = field(default=None, init=False)
    _servers: dict[str, list[Any]] = field(factory=dict, init=False)
    _running: dict[str, asyncio.Task[PromptResponse]] = field(factory=dict, init=False)
    _later: asyncio.Task[None] | None = field(default=None, init=False)

    def on_connect(self, client: Any) -> None:
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        can = AgentCapabilities(
            load_session=self.can_load, mcp_capabilities=McpCapabilities(http=self.has_http)
        )
        return InitializeResponse(protocol_version=protocol_version, agent_capabilities=can)

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        session_id = uuid4().hex
        self._servers[session_id] = mcp_servers or []
        self._save(session_id, [])
        return NewSessionResponse(session_id=session_id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        if not self._file(session_id).exists():
            raise RequestError.resource_not_found(session_id)
        self._servers[session_id] = mcp_servers or []
        for message in self._history(session_id):
            if message["role"] == "assistant":
                await self._tell(session_id, acp.update_agent_message_text(message["text"]))
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        turn = asyncio.get_running_loop().create_task(self._turn(session_id, prompt))
        self._running[session_id] = turn
        try:
            return await turn
        except asyncio.CancelledError:
            return PromptResponse(stop_reason="cancelled")
        except ModelFailed as error:
            raise RequestError.internal_error() from error

    async def cancel(self, session_id: str, **_: Any) -> None:
        if not self.ignores_cancel and session_id in self._running:
            self._running[session_id].cancel()

    async def _turn(self, session_id: str, prompt: list[TextContentBlock]) -> PromptResponse:
        asides = [block.text for block in prompt if block.annotations is not None]
        history = self._history(session_id)
        for block in prompt:
            if block.annotations is None:
                history.append({"role": "user", "text": block.text})
        self._save(session_id, history)
        async with self._tools(session_id) as client:
            while True:
                step = await self.think(await _seen(history, asides, client))
                match step:
                    case Say():
                        await self._say(session_id, history, step)
                        return PromptResponse(stop_reason="end_turn")
                    case CallTool():
                        await self._call(session_id, history, client, step)
                    case CallTools(calls):
                        for call in calls:
                            await self._call(session_id, history, client, call)

    async def _say(self, session_id: str, history: list[dict[str, Any]], step: Say) -> None:
        for piece in step.pieces:
            await self._tell(session_id, acp.update_agent_message_text(sendable(piece)))
        history.append({"role": "assistant", "text": sendable(step.text)})
        self._save(session_id, history)
        if self.late:
            self._later = asyncio.get_running_loop().create_task(self._say_late(session_id))

    async def _say_late(self, session_id: str) -> None:
        await asyncio.sleep(0.01)
        await self._tell(session_id, acp.update_agent_message_text(self.late))

    async def _call(
        self, session_id: str, history: list[dict[str, Any]], client: Client, call: CallTool
    ) -> None:
        entry: dict[str, Any] = {"role": "call", "name": call.name, "result": CUT_OFF}
        history.append(entry)
        self._save(session_id, history)
        call_id = new_call_id()
        await self._tell(session_id, acp.start_tool_call(call_id, call.name))
        if self.asks_first and not await self._is_allowed(session_id, call_id, call.name):
            entry["result"] = "refused"
        else:
            entry["result"] = await _result(client, call)
        self._save(session_id, history)

    async def _is_allowed(self, session_id: str, call_id: str, title: str) -> bool:
        options = [
            PermissionOption(option_id="always", name="Always", kind="allow_always"),
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        asked = ToolCallUpdate(tool_call_id=call_id, title=title)
        answer = await self._client.request_permission(session_id, asked, options)
        match answer.outcome:
            case AllowedOutcome(option_id="yes"):
                return True
            case _:
                return False

    @asynccontextmanager
    async def _tools(self, session_id: str) -> AsyncIterator[Client]:
        """A client of the one MCP server that the session came with."""
        server: HttpMcpServer | McpServerStdio
        [server] = self._servers[session_id]
        async with AsyncExitStack() as begun:
            match server:
                case HttpMcpServer(url=url, headers=headers):
                    shown = {header.name: header.value for header in headers}
                    http = await begun.enter_async_context(
                        httpx2.AsyncClient(headers=shown, timeout=None)
                    )
                    client = Client(streamable_http_client(url, http_client=http))
                case McpServerStdio(command=command, args=args, env=env):
                    environment = {each.name: each.value for each in env}
                    client = Client(
                        StdioServerParameters(command=command, args=args, env=environment)
                    )
            yield await begun.enter_async_context(client)

    async def _tell(self, session_id: str, update: Any) -> None:
        await self._client.session_update(session_id, update)

    def _file(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.json"

    def _history(self, session_id: str) -> list[dict[str, Any]]:
        history: list[dict[str, Any]] = json.loads(self._file(session_id).read_text("utf-8"))
        return history

    def _save(self, session_id: str, history: list[dict[str, Any]]) -> None:
        self._file(session_id).write_text(json.dumps(history), "utf-8")


async def _seen(history: list[dict[str, Any]], asides: list[str], client: Client) -> Seen:
    listed = await client.list_tools()
    calls = [message for message in history if message["role"] == "call"]
    return Seen(
        texts=tuple(message["text"] for message in history if message["role"] == "user"),
        tools=tuple(
            SeenTool(tool.name, tool.description or "", tool.input_schema) for tool in listed.tools
        ),
        results=tuple(call["result"] for call in calls),
        instructions="\n".join(asides),
        calls=tuple(call["name"] for call in calls),
    )


async def _result(client: Client, call: CallTool) -> object:
    try:
        result = await client.call_tool(call.name, call.arguments)
    except MCPError as error:
        return f"error {error.error.code}"
    [content] = result.content
    assert isinstance(content, TextContent), "our server answers with text"
    return json.loads(content.text)


@asynccontextmanager
async def connected_in_process(
    agent: ScriptedAgent, client: acp.Client
) -> AsyncIterator[AgentConnection]:
    """Both ends of one connection, on this loop, over a real socket."""
    ours, theirs = socket.socketpair()
    our_reader, our_writer = await asyncio.open_connection(sock=ours)
    their_reader, their_writer = await asyncio.open_connection(sock=theirs)
    running = asyncio.ensure_future(acp.run_agent(agent, their_writer, their_reader))  # type: ignore[arg-type]
    connection = acp.connect_to_agent(client, our_writer, our_reader)
    try:
        yield AgentConnection(connection, running.done)
    finally:
        await connection.close()
        our_writer.close()
        await running
        their_writer.close()


REMIND = re.compile("remind me in ([0-9]+) seconds to (.*)")


async def obedient(seen: Seen) -> Step:
    """Set the reminder that the last message asks for; say what everything else says."""
    asked = REMIND.fullmatch(seen.texts[-1])
    if asked is None:
        return Say(f"you said: {seen.texts[-1]}")
    if seen.calls.count("schedule_create") < sum(bool(REMIND.fullmatch(t)) for t in seen.texts):
        arguments = {"prompt": asked[2], "after_seconds": int(asked[1])}
        return CallTool("schedule_create", arguments)
    return Say(f"the tool said: {json.dumps(seen.results[-1])}")


def main() -> None:
    """Run as a program; see `--help`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--no-http", action="store_true")
    parser.add_argument("--no-load", action="store_true")
    parser.add_argument("--asks", action="store_true")
    parser.add_argument("--dies-of", metavar="TEXT")
    parser.add_argument("--leaves-after", metavar="TEXT")
    parser.add_argument("--hangs-at", metavar="TEXT")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    sys.stderr.write("the agent is here\n")

    async def think(seen: Seen) -> Step:
        if seen.texts[-1] == given.dies_of:
            os._exit(1)
        if seen.texts[-1] == given.hangs_at:
            sys.stderr.write("the agent hangs\n")
            await asyncio.get_running_loop().create_future()
        if seen.texts[-1] == given.leaves_after:
            asyncio.get_running_loop().call_later(0.2, os._exit, 0)
        return await obedient(seen)

    agent = ScriptedAgent(
        given.folder,
        think,
        has_http=not given.no_http,
        can_load=not given.no_load,
        asks_first=given.asks,
        ignores_cancel=given.hangs_at is not None,
    )
    asyncio.run(acp.run_agent(agent))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
