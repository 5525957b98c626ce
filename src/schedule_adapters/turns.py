"""The framework-neutral session runtime: an inbox, one turn at a time, and the idle phase.

No agent framework has a long-lived owner with "idle, maintenance, parked follow-up"; they
are call, run, return. So `AgentPort` is implemented once, here, and a framework's adapter
supplies only how to run one turn (`turn_driver`).

Each message that enters the inbox is an event of the session log first (`input/queued`),
and so is the start of its turn. That makes the admission of a reminder exactly one: a
crash before the turn started finds the message queued, a crash after it does not. What a
model makes of the message is not promised: a turn may fail or be cut off.
"""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Literal

from attrs import frozen

from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED, TURN_STARTED
from schedule_adapters.inbox import QueuedInput, read_inbox
from schedule_adapters.listeners import notify, subscribe
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session, StoreError, StoreErrorCode
from schedule_adapters.time_context import TimeContext, parse_zone, render
from schedule_adapters.turn_driver import (
    SessionTool,
    TextDelta,
    TurnDriver,
    TurnInput,
    TurnOutput,
)
from schedule_core import AgentBusy, Clock, FollowUp, ScheduleId

Phase = Literal["idle", "turn", "maintenance"]
Outcome = Literal["completed", "failed", "cancelled", "interrupted", "postponed"]

_log = logging.getLogger("schedule_adapters")


class AgentClosed(Exception):  # noqa: N818 - a state, not a fault
    """The agent of this session is closed."""


@frozen
class TurnStarted:
    """A turn began with this message."""

    input: QueuedInput


@frozen
class TurnEnded:
    """That turn is over; `error` is what failed, or what could not be saved."""

    input: QueuedInput
    outcome: Outcome
    error: Exception | None = None


SessionOutput = TurnStarted | TurnOutput | TurnEnded
"""What a host hears of, in order."""


class SessionRuntime:
    """One live agent in one open session; on the loop it was made on.

    Implements `schedule_core.ports.AgentPort` and `service.ToolScope`.
    """

    def __init__(
        self,
        session: Session,
        driver: TurnDriver,
        *,
        clock: Clock | None = None,
        is_root: bool = True,
    ) -> None:
        self._session = session
        self._driver = driver
        self._clock = clock or SystemClock()
        self._is_root = is_root
        self._started = False
        self._closed = False
        self._phase: Phase = "idle"
        self._tools: dict[str, SessionTool] = {}
        self._turn: asyncio.Task[None] | None = None  # the driver's part of the open turn
        self._begun = False  # the start of the open turn is in the log
        self._reached_model = False  # the driver has the open turn
        self._said: list[str] = []  # the assistant's text in the open turn
        self._closing: asyncio.Task[None] | None = None  # set from `close` on
        # Lists, because most sessions only wait: an empty deque takes 760 bytes, a set 216.
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._idle_listeners: list[Callable[[], None]] = []
        self._close_listeners: list[Callable[[], None]] = []
        self._output_listeners: list[Callable[[SessionOutput], None]] = []
        self._end_listeners: list[Callable[[], None]] = []  # of the end of `close`
        inbox = read_inbox(session)
        self._admitted = inbox.admitted
        self._cut_off = inbox.cut_off
        self._inbox = list(inbox.owed.values())

    # AgentPort.

    @property
    def is_root(self) -> bool:
        """Whether this agent may have reminders."""
        return self._is_root

    @property
    def is_live(self) -> bool:
        """True until `close`."""
        return not self._closed

    def has_admitted(self, schedule_id: ScheduleId) -> bool:
        """Whether this session's log holds the follow-up of that reminder."""
        return schedule_id in self._admitted

    def followup(self, message: FollowUp) -> None:
        """Queue the message of a due reminder; see `AgentPort`."""
        self._queue("reminder", message.text, message.schedule_id, None)
        self._admitted.add(message.schedule_id)

    def run_maintenance(self, task: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Claim the idle phase for `task`; see `AgentPort`."""
        self._check_live()
        if self._phase != "idle" or self._inbox:
            raise AgentBusy
        self._phase = "maintenance"

        async def run() -> None:
            await task()

        running = self._spawn(run())
        # Not in a finally of the task: one that is cancelled before it starts has none.
        running.add_done_callback(lambda _: self._release())
        return running

    async def when_idle(self) -> None:
        """Return when no turn and no maintenance runs and the inbox is empty."""
        while not self._is_idle():
            self._check_live()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever a turn ends and no input waits."""
        return subscribe(self._idle_listeners, listener)

    def on_close(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` once, at the beginning of `close`."""
        return subscribe(self._close_listeners, listener)

    # ToolScope.

    def register_tool(self, tool: SessionTool) -> Callable[[], None]:
        """Offer one tool to every later turn.

        Raises:
            ValueError: there is a tool of that name already.
        """
        if tool.name in self._tools:
            raise ValueError(f"there is a tool {tool.name} already")
        self._tools[tool.name] = tool

        return partial(_remove_tool, self._tools, tool)

    # For the host.

    @property
    def phase(self) -> Phase:
        """What owns the agent now."""
        return self._phase

    @property
    def queued(self) -> tuple[QueuedInput, ...]:
        """The messages that wait for their turn."""
        return tuple(self._inbox)

    def subscribe(self, listener: Callable[[SessionOutput], None]) -> Callable[[], None]:
        """Hear of every turn; gives the function that ends that."""
        return subscribe(self._output_listeners, listener)

    def outputs(self) -> AsyncIterator[SessionOutput]:
        """What a host hears from this call on, in order, until the end of `close`.

        Each call gives an iterator of its own, for this loop. What is not yet read is kept
        without a limit, and is still given after the end; drop the iterator to stop hearing.
        A read that is cancelled loses nothing.
        """
        outputs = _Outputs()
        unread = outputs.unread  # listeners that held the iterator would keep it alive
        leave = self.subscribe(unread.put_nowait)

        def end() -> None:
            leave()  # a turn that outlasts `close` is not heard after the end
            unread.put_nowait(None)

        if self._closing is not None and self._closing.done():
            end()
        else:
            # Not in a finally of a generator: one that is dropped before it began has none.
            weakref.finalize(outputs, leave)
            weakref.finalize(outputs, subscribe(self._end_listeners, end))
        return outputs

    def start(self) -> None:
        """Begin: messages that an earlier process left queued get their turns now.

        A turn that was cut off by the end of that process is told first, as ended.
        """
        if self._cut_off is not None:
            self._end(self._cut_off.seq, "interrupted")
            self._tell(TurnEnded(self._cut_off, "interrupted"))
            self._cut_off = None
        self._started = True
        self._start_turn()

    def prompt(self, text: str, *, time_zone: str | None = None) -> QueuedInput:
        """Queue what the user said; its turn comes in order.

        Args:
            text: what the user said.
            time_zone: the IANA zone of the user's client, as provenance of this prompt
                alone: an instruction to the model, never a default of the tools.

        Raises:
            ValueError: that is no time zone; nothing was queued.
            AgentClosed: nothing was queued.
            StoreError: nothing was queued.
        """
        zone = None if time_zone is None else parse_zone(time_zone)
        return self._queue("user", text, None, zone)

    def cancel_turn(self) -> bool:
        """End the open turn early; False if there is none. The conversation stays usable."""
        return self._turn is not None and self._turn.cancel()

    async def close(self, *, timeout_s: float = 10.0) -> None:
        """Close quietly: no further turn starts, the open one is cancelled and awaited.

        Closing again awaits the same end. Messages without a turn are owed to the next opening.
        """
        if self._closing is None:
            self._closed = True
            notify(self._close_listeners)
            self._wake_idle_waiters()
            self.cancel_turn()
            work = self._close(set(self._tasks), timeout_s)
            self._closing = asyncio.get_running_loop().create_task(work)
            self._closing.add_done_callback(lambda _: notify(self._end_listeners))
        await asyncio.shield(self._closing)

    async def _close(self, tasks: set[asyncio.Task[None]], timeout_s: float) -> None:
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
        await self._driver.close()

    # The inbox.

    def _queue(
        self,
        source: Literal["user", "reminder"],
        text: str,
        schedule_id: ScheduleId | None,
        time_zone: str | None,
    ) -> QueuedInput:
        self._check_live()
        data = {"source": source, "text": text}
        if schedule_id is not None:
            data["scheduleId"] = schedule_id
        if time_zone is not None:
            data["timeZone"] = time_zone
        event = self._session.append(INPUT_QUEUED.name, data)
        queued = QueuedInput(event.seq, source, text, schedule_id, time_zone)
        self._inbox.append(queued)
        self._start_turn()
        return queued

    def _is_idle(self) -> bool:
        return self._phase == "idle" and not self._inbox and not self._closed

    def _check_live(self) -> None:
        if self._closed:
            raise AgentClosed("this session is closed")

    def _start_turn(self) -> None:
        """Begin the next turn, if the agent is free and a message waits."""
        if self._started and self._phase == "idle" and self._inbox and not self._closed:
            self._phase, self._begun = "turn", False
            queued = self._inbox.pop(0)
            self._turn = self._spawn(self._drive_turn(queued))
            self._spawn(self._run_turn(queued, self._turn))

    def _release(self) -> None:
        """End a turn or maintenance; parked input goes first."""
        self._phase = "idle"
        self._start_turn()
        if self._is_idle():
            self._wake_idle_waiters()

    def _wake_idle_waiters(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # A turn.

    async def _run_turn(self, queued: QueuedInput, turn: asyncio.Task[None]) -> None:
        if self._closed and not self._begun:
            self._turn = None  # it never ran: its message is owed to the next opening
            self._inbox.insert(0, queued)
            self._release()
            return
        outcome: Outcome = "failed"
        error: Exception | None = None
        try:
            if not self._begun:  # cancelled before its first step
                self._begin(queued)
            outcome, error = await _outcome(turn)
            self._turn = None
            if self._closed and not self._reached_model:
                outcome = "postponed"
                self._inbox.insert(0, queued)
            self._end(queued.seq, outcome)
            unsaved = await self._save()
            error = error or unsaved
        except Exception as failure:
            error = error or failure
        finally:
            self._turn = None
            self._tell(TurnEnded(queued, outcome, error))
            self._release()
            if self._is_idle():
                notify(self._idle_listeners)

    def _begin(self, queued: QueuedInput) -> None:
        self._session.append(TURN_STARTED.name, {"input": queued.seq})
        self._begun, self._reached_model = True, False
        self._said = []

    async def _drive_turn(self, queued: QueuedInput) -> None:
        self._begin(queued)
        # Durable before the model sees it, so that a crash does not admit it again. A disk
        # that fails is reported at the end of the turn: a repeat is better than a loss.
        unsaved = await self._save()
        if isinstance(unsaved, StoreError) and unsaved.code == StoreErrorCode.SESSION_TAKEN_OVER:
            raise unsaved  # the start is not in the log: the other owner owes this message
        self._tell(TurnStarted(queued))
        # What waits behind it is part of the same exchange: two zones there mean "ask".
        waiting = [each.time_zone for each in self._inbox if each.time_zone is not None]
        context = TimeContext.for_zones([queued.time_zone, *waiting])
        instructions = render(context, self._clock.now())
        turn = TurnInput(queued.text, queued.source, queued.schedule_id, instructions)
        self._reached_model = True
        await self._driver.run_turn(turn, tuple(self._tools.values()), self._say)

    async def _save(self) -> Exception | None:
        try:
            await self._session.barrier()
        except Exception as error:
            return error
        return None

    def _end(self, input_seq: int, outcome: Outcome) -> None:
        data = {"input": input_seq, "outcome": outcome, "text": "".join(self._said)}
        self._session.append(TURN_ENDED.name, data)

    def _say(self, output: TurnOutput) -> None:
        if isinstance(output, TextDelta):
            self._said.append(output.text)
        self._tell(output)

    def _tell(self, output: SessionOutput) -> None:
        notify(self._output_listeners, output)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        return task


class _Outputs(AsyncIterator[SessionOutput]):
    """What one host has not read yet; `None` is the end, and stays there."""

    def __init__(self) -> None:
        self.unread: asyncio.Queue[SessionOutput | None] = asyncio.Queue()

    async def __anext__(self) -> SessionOutput:
        output = await self.unread.get()
        if output is None:
            self.unread.put_nowait(None)  # for whoever else reads, or asks again
            raise StopAsyncIteration
        return output


async def _outcome(turn: asyncio.Task[None]) -> tuple[Outcome, Exception | None]:
    await asyncio.wait([turn])
    if turn.cancelled():
        return "cancelled", None
    error = turn.exception()
    if error is None:
        return "completed", None
    if not isinstance(error, Exception):
        raise error
    return "failed", error


def _remove_tool(tools: dict[str, SessionTool], tool: SessionTool) -> None:
    if tools.get(tool.name) is tool:
        del tools[tool.name]
