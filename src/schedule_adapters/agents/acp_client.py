"""Our side of an ACP connection: what the agent tells, and what it wants to be allowed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallStart,
    ToolCallUpdate,
)
from attrs import frozen

from schedule_adapters.turn_driver import TextDelta, ToolCalled, TurnOutput

Source = Literal["user", "reminder"]
_Emit = Callable[[TurnOutput], None]

QUIET_S: Final = 0.05
"""After the end of a turn: no update for this long means that none comes late."""
DRAIN_S: Final = 1.0
"""How long late updates are waited for at the most; the protocol has no sign that all came."""


@frozen
class Permission:
    """What the agent wants to be allowed.

    Attributes:
        title: what it says it is about to do; the agent's words.
        source: what the turn answers: with "reminder" nobody asked for it just now.
    """

    title: str
    source: Source


Ask = Callable[[Permission], Awaitable[bool]]
"""Answers a permission, for this once; cancelled when the turn is."""


async def refuse(_: Permission) -> bool:
    """Allow nothing: for programs in which nobody can be asked."""
    return False


@frozen
class _OpenTurn:
    session_id: str
    source: Source
    emit: _Emit


class AgentListener:
    """Hears one agent; outside a turn it hears nothing and allows nothing.

    It is an `acp.Client` with no files and no terminals to offer: the SDK answers for what
    is missing here.

    Args:
        ask: answers what the agent wants to be allowed.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._turn: _OpenTurn | None = None
        self._heard = asyncio.Event()
        self._asking: set[asyncio.Task[bool]] = set()

    @contextmanager
    def hearing(self, session_id: str, source: Source, emit: _Emit) -> Iterator[None]:
        """While inside, what the agent says in that session is passed on."""
        self._turn = _OpenTurn(session_id, source, emit)
        try:
            yield
        finally:
            self._turn = None

    async def drain(self) -> None:
        """Wait a moment for updates that come after the end of their turn."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DRAIN_S
        while loop.time() < end:
            self._heard.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._heard.wait()
            except TimeoutError:
                return

    def cancel_permissions(self) -> None:
        """Answer what the agent still asks with "cancelled", as the protocol wants it."""
        for asking in self._asking:
            asking.cancel()

    # What the agent calls.

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Pass on text and the names of tools; thoughts and plans are not shown."""
        turn = self._turn
        if turn is None or turn.session_id != session_id:
            return  # such as the history that an agent repeats when it loads a session
        self._heard.set()
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)) if text:
                turn.emit(TextDelta(text))
            case ToolCallStart(title=title):
                turn.emit(ToolCalled(title))
            case _:
                pass

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """Ask, and choose the option that allows or rejects this once."""
        turn = self._turn
        if turn is None or turn.session_id != session_id:
            return _CANCELLED
        permission = Permission(tool_call.title or tool_call.kind or "something", turn.source)
        asking = asyncio.ensure_future(self._ask(permission))
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            self._asking.discard(asking)
            asking.cancel()
        if asking.cancelled():
            return _CANCELLED
        wanted = "allow_once" if asking.result() else "reject_once"
        option = next((option for option in options if option.kind == wanted), None)
        if option is None:
            return _CANCELLED
        chosen = AllowedOutcome(outcome="selected", option_id=option.option_id)
        return RequestPermissionResponse(outcome=chosen)


_CANCELLED: Final = RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
