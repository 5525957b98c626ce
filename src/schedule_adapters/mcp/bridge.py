"""The host's side: bring what is due into a conversation that lives in this process.

MCP gives a server no way to start a turn, so the host asks. The bridge looks whether
something is due (a hint of the server, or the time that the last look named, or simply
every few seconds, since hints may be lost), takes the host's own idle phase, takes one
reminder, delivers it, and acknowledges it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NoReturn

from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    TextResourceContents,
)

from schedule_adapters.mcp.wire import (
    ACKNOWLEDGE,
    DUE_URI,
    HOST_META,
    TAKE,
    DueState,
    TakenReminder,
    WireError,
    read_due,
    read_taken,
)
from schedule_core.text import parse_json

_log = logging.getLogger("schedule_adapters")
_META: Final[Any] = {HOST_META: True}
POLL_S: Final = 15.0
"""How long the bridge goes without looking, when no hint comes."""
REQUEST_S: Final = 30.0
"""How long the server may take for one answer."""


class NotDelivered(Exception):  # noqa: N818 - a state of the host, not a fault
    """Raised by `deliver`: the message is not in the conversation; try again later."""


class HostBridge:
    """Delivers reminders of one MCP server into one conversation of this process.

    Args:
        deliver: brings one message into the conversation as an ordinary user-role turn:
            runs that turn, or queues it for exactly one. Any exception of it except
            `NotDelivered` means that the turn failed, which is not tried again.
        idle: the host's idle phase: entering it waits until no turn runs, and while it is
            held none starts. With an `asyncio.Lock` around every turn, that lock. `deliver`
            is called inside.
        poll_s: how long to go without looking, when no hint comes.

    What was delivered is remembered until its acknowledgement has reached the server, so one
    bridge never delivers twice, whatever becomes of connections. A process that dies between the
    delivery and the acknowledgement gets the reminder again.
    """

    def __init__(
        self,
        deliver: Callable[[TakenReminder], Awaitable[None]],
        *,
        idle: AbstractAsyncContextManager[Any],
        poll_s: float = POLL_S,
    ) -> None:
        self._deliver = deliver
        self._idle = idle
        self._poll_s = poll_s
        self._unacknowledged: dict[str, str] = {}  # delivery: outcome
        self._delivery: asyncio.Task[bool] | None = None  # the last one, under way or not
        self._hint = asyncio.Event()

    async def run(self, client: Client) -> NoReturn:
        """Deliver what is due for as long as the connection lasts; cancel it to end it.

        After the connection was lost, run it again with another client. The SDK tells of
        that loss here, or by cancelling what runs inside the client's context and raising
        from there. Neither cuts off a delivery under way: only `close` does.

        Raises:
            MCPError: the connection is lost.
            TimeoutError: the server does not answer.
            WireError: the server is not one of ours, or of another version.
        """
        listening = asyncio.get_running_loop().create_task(self._listen(client))
        try:
            if self._delivery is not None:  # of an earlier connection
                await asyncio.wait([self._delivery])
            while True:
                self._hint.clear()
                wait_s = await self._look(client)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._hint.wait()
        finally:
            listening.cancel()

    async def close(self) -> None:
        """Cut off the delivery under way, if there is one; the server gives it again."""
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait([self._delivery])

    async def _look(self, client: Client) -> float:
        """Deliver one reminder, if one is due; gives how long to wait before the next look."""
        for delivery, outcome in list(self._unacknowledged.items()):
            if not await _acknowledge(client, delivery, outcome):
                return self._poll_s
            del self._unacknowledged[delivery]
        due = await _read_due(client)
        if not due.is_due:
            return self._poll_s if due.next_in_s is None else min(self._poll_s, due.next_in_s)
        self._delivery = asyncio.get_running_loop().create_task(self._bring(client))
        await asyncio.wait([self._delivery])
        return 0.0 if self._delivery.result() else self._poll_s

    async def _bring(self, client: Client) -> bool:
        """Take one reminder in the host's idle phase, and deliver it; False if there was none."""
        async with self._idle:
            reminder = await _take(client)
            if reminder is None:
                return False
            outcome = await self._outcome(reminder)
            if outcome is not None:
                self._unacknowledged[reminder.delivery] = outcome
            return outcome is not None

    async def _outcome(self, reminder: TakenReminder) -> str | None:
        """Deliver, and tell how that ended; None if it was not delivered."""
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        try:
            await self._deliver(reminder)
        except NotDelivered:
            return None
        except asyncio.CancelledError:
            if task.cancelling():  # by `close`: whether it was delivered is not known
                raise
            return "cancelled"
        except Exception as error:  # noqa: BLE001 - the host's code; its turn failed
            # Its kind alone: its words may repeat what was said.
            _log.warning("the turn of a reminder failed: %s", type(error).__name__)
            return "failed"
        return "completed"

    async def _listen(self, client: Client) -> None:
        """Turn the server's hints into looks; without them polling goes on."""
        while True:
            try:
                async with client.listen(resource_subscriptions=[DUE_URI]) as events:
                    self._hint.set()  # what was said before this began was not heard
                    async for _ in events:
                        self._hint.set()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError):
                pass
            await asyncio.sleep(self._poll_s)


async def _read_due(client: Client) -> DueState:
    async with asyncio.timeout(REQUEST_S):
        read = await client.read_resource(DUE_URI, cache_mode="bypass")
    match read.contents:
        case [TextResourceContents(text=text)]:
            return read_due(_parsed(text))
        case _:
            raise WireError(f"{DUE_URI} is not one text")


async def _take(client: Client) -> TakenReminder | None:
    result = await _call(client, TAKE, {})
    if result.is_error:
        _warn_refused("taking a reminder", _value(result))
        return None
    return read_taken(_value(result))


async def _acknowledge(client: Client, delivery: str, outcome: str) -> bool:
    result = await _call(client, ACKNOWLEDGE, {"delivery": delivery, "outcome": outcome})
    if result.is_error:
        _warn_refused("acknowledging a reminder", _value(result))
    return not result.is_error


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
    # Not `client.call_tool`: it looks a tool up in the list that the model gets.
    parameters = CallToolRequestParams(name=name, arguments=arguments, _meta=_META)
    async with asyncio.timeout(REQUEST_S):
        return await client.session.send_request(CallToolRequest(params=parameters), CallToolResult)


def _value(result: CallToolResult) -> object:
    if result.structured_content is None:
        raise WireError("a tool of the host gave no structured content")
    return result.structured_content


def _warn_refused(what: str, value: object) -> None:
    code = value.get("code") if isinstance(value, dict) else None
    _log.warning("%s was refused: %s", what, code)


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise WireError(f"{DUE_URI} is not JSON") from error
