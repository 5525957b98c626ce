"""Turns run by any coding agent that speaks the Agent Client Protocol, in a process of its own.

One `session/prompt` is one turn. The agent gets the tools from an MCP server in this process,
over HTTP on loopback with a secret of its own; an agent that speaks MCP to programs only gets
a relay (`session-schedule mcp --proxy`) that is told the secret by its environment.

The conversation is the agent's. What is kept here is its id, so that a restart loads it again
from the agent's own store, if the agent can do that.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final, cast

import acp
from acp.core import ClientSideConnection
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities,
    Annotations,
    ClientCapabilities,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    McpServerStdio,
    PromptResponse,
    TextContentBlock,
)
from attrs import define, field

from schedule_adapters.agents.acp_client import AgentListener, Ask, refuse
from schedule_adapters.agents.acp_process import AcpError, AgentConnection, Connect
from schedule_adapters.agents.message_log import sendable
from schedule_adapters.events import MESSAGES
from schedule_adapters.mcp.command import TOKEN_VARIABLE
from schedule_adapters.mcp.http import Endpoint, serving
from schedule_adapters.mcp.server import make_server
from schedule_adapters.sessions import Session, StoreError
from schedule_adapters.turn_driver import SessionTool, TurnInput, TurnOutput
from schedule_core.text import safe_integer

_log = logging.getLogger("schedule_adapters")

SESSION_FORMAT: Final = "acp/1"
"""The `format` of the events this module writes: which session of which agent this is."""

BEGIN_S: Final = 120.0
"""How long an agent may take to begin a session; some are fetched first."""
CANCEL_S: Final = 5.0
"""How long an agent may take to end a cancelled turn; then its process is ended."""
_AUTH_REQUIRED: Final = -32000
_SERVER_NAME: Final = "session-schedule"


class AcpTurns:
    """A `TurnDriver`: one conversation of one agent.

    The agent is begun at the first turn, and again after its process has ended.

    Args:
        connect: begins a connection to the agent, such as `spawning(...)`.
        session: where the id of the agent's session is kept.
        agent: the name of the agent; a session that another one began is not loaded.
        cwd: the folder that the agent works in.
        ask: answers what the agent wants to be allowed.
    """

    def __init__(
        self, connect: Connect, session: Session, *, agent: str, cwd: Path, ask: Ask = refuse
    ) -> None:
        self._connect = connect
        self._session = session
        self._agent = agent
        self._cwd = str(cwd.absolute())
        self._ask = ask
        self._tools: tuple[SessionTool, ...] = ()
        self._link: _Link | None = None  # set while there is a connection

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn: one prompt, and what comes of it.

        Raises:
            AcpError: the agent could not be begun, refused, or ended the turn early.
            asyncio.CancelledError: the turn was cancelled; the agent was told.
        """
        self._tools = tuple(tools)
        if self._link is not None and not self._link.is_usable:
            await self.close()  # its process has ended meanwhile
        link = self._link = self._link or await self._begin()
        try:
            await link.prompt(turn, emit)
        finally:
            if not link.is_usable:
                self._link = None
                await link.close()

    async def close(self) -> None:
        """End the agent's process, and the server that gave it the tools."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _begin(self) -> "_Link":
        async with AsyncExitStack() as began:
            server = make_server(lambda: self._tools)
            endpoint = await began.enter_async_context(serving(server))
            listener = AgentListener(self._ask)
            agent = await began.enter_async_context(self._connect(cast("acp.Client", listener)))
            try:
                async with asyncio.timeout(BEGIN_S):
                    session_id = await self._open_session(agent.connection, endpoint)
            except RequestError as error:
                raise _refused("did not begin a session", error) from error
            except ConnectionError as error:
                raise AcpError("the agent ended before it began a session") from error
            except TimeoutError as error:
                raise AcpError(f"the agent began no session within {BEGIN_S:.0f} s") from error
            return _Link(agent, session_id, listener, began.pop_all())

    async def _open_session(self, connection: ClientSideConnection, endpoint: Endpoint) -> str:
        hello = await connection.initialize(
            acp.PROTOCOL_VERSION,
            ClientCapabilities(),
            Implementation(name=_SERVER_NAME, version="0.1.0"),
        )
        if hello.protocol_version != acp.PROTOCOL_VERSION:
            raise AcpError(f"the agent speaks version {hello.protocol_version} of the protocol")
        can = hello.agent_capabilities or AgentCapabilities()
        servers: list[Any] = [_mcp_server(endpoint, can)]
        known = self._known_id()
        if known is not None and await self._load(connection, known, can, servers):
            return known
        if known is not None:
            _log.warning("the agent cannot go on with its earlier session: it begins a new one")
        made = await connection.new_session(self._cwd, mcp_servers=servers)
        data = {"agent": self._agent, "sessionId": made.session_id}
        self._session.append(MESSAGES.name, {"format": SESSION_FORMAT, "messages": [data]})
        with suppress(StoreError):  # the barrier at the end of the turn says so
            await self._session.barrier()
        return made.session_id

    async def _load(
        self,
        connection: ClientSideConnection,
        session_id: str,
        can: AgentCapabilities,
        servers: list[Any],
    ) -> bool:
        """Go on with a session that the agent keeps; False if it cannot, or does not know it."""
        if not can.load_session:
            return False
        try:
            await connection.load_session(self._cwd, session_id, mcp_servers=servers)
        except RequestError:
            return False
        return True

    def _known_id(self) -> str | None:
        """The agent's session that this log names last; a fork does not share its parent's."""
        boundary = safe_integer(self._session.seed_length)
        if boundary is None or boundary < 0:  # corrupt: what is the parent's cannot be told
            boundary = self._session.length
        known: str | None = None
        for event in self._session.events_from(boundary):
            match event.type, event.data:
                case MESSAGES.name, {
                    "format": format_name,
                    "messages": [{"agent": agent, "sessionId": str(session_id)}],
                } if format_name == SESSION_FORMAT:
                    known = session_id if agent == self._agent else None
                case _:
                    pass
        return known


@define
class _Link:
    """One connection, with one session of the agent, and what ends with it."""

    _agent: AgentConnection
    _session_id: str
    _listener: AgentListener
    _closing: AsyncExitStack
    _is_broken: bool = field(default=False, init=False)

    @property
    def is_usable(self) -> bool:
        """Whether the next prompt can be sent."""
        return not self._is_broken and not self._agent.has_ended()

    async def prompt(self, turn: TurnInput, emit: Callable[[TurnOutput], None]) -> None:
        """Send one prompt; what comes of it is emitted until it is over."""
        with self._listener.hearing(self._session_id, turn.source, emit):
            sent = self._agent.connection.prompt(self._session_id, _blocks(turn))
            prompt = asyncio.get_running_loop().create_task(sent)
            try:
                await asyncio.wait([prompt])
            except asyncio.CancelledError:
                await self._cancel(prompt)
                raise
            reason = self._result(prompt).stop_reason
            await self._listener.drain()
        if reason != "end_turn":
            raise AcpError(f"the agent ended the turn early: {reason}")

    async def close(self) -> None:
        """End the connection and all that was begun for it."""
        await self._closing.aclose()

    def _result(self, prompt: asyncio.Task[PromptResponse]) -> PromptResponse:
        try:
            return prompt.result()
        except RequestError as error:
            raise _refused("could not run the turn", error) from error
        except ConnectionError as error:
            self._is_broken = True
            raise AcpError("the agent ended in the middle of the turn") from error

    async def _cancel(self, prompt: asyncio.Task[PromptResponse]) -> None:
        """Tell the agent, and wait a bounded time for it; if it does not end the turn, end it."""
        self._is_broken = True
        self._listener.cancel_permissions()
        with suppress(ConnectionError):
            await self._agent.connection.cancel(self._session_id)
        await asyncio.wait([prompt], timeout=CANCEL_S)
        if not prompt.done():
            prompt.cancel()
            await asyncio.wait([prompt])
        elif not isinstance(prompt.exception(), ConnectionError):
            self._is_broken = False


def _blocks(turn: TurnInput) -> list[Any]:
    """The prompt: the message as one block, then what only the agent need know of it.

    A reminder is its message alone, as the protocol has no side on which anything else of
    it could stand.
    """
    message = acp.text_block(sendable(turn.text))
    if turn.instructions is None or turn.source == "reminder":
        return [message]
    aside = Annotations(audience=["assistant"])
    return [message, TextContentBlock(type="text", text=turn.instructions, annotations=aside)]


def _mcp_server(endpoint: Endpoint, can: AgentCapabilities) -> HttpMcpServer | McpServerStdio:
    """How this agent reaches the tools; the secret is never part of a command line."""
    if can.mcp_capabilities is not None and can.mcp_capabilities.http:
        headers = [HttpHeader(name=name, value=value) for name, value in endpoint.headers.items()]
        return HttpMcpServer(type="http", name=_SERVER_NAME, url=endpoint.url, headers=headers)
    program = "from schedule_adapters.cli import main; main()"
    return McpServerStdio(
        name=_SERVER_NAME,
        command=sys.executable,
        args=["-c", program, "mcp", "--proxy", endpoint.url],
        env=[EnvVariable(name=TOKEN_VARIABLE, value=endpoint.token)],
    )


def _refused(what: str, error: RequestError) -> AcpError:
    if error.code == _AUTH_REQUIRED:
        return AcpError(f"the agent {what}: sign in to it first, by running it by itself")
    return AcpError(f"the agent {what}: error {error.code}")
