"""The agent port of an agent that lives in another process: the host's.

It is busy unless the host offers its idle phase, and while a reminder that the host was
given is not acknowledged. So every rule of order stays in the owner; what is due is
admitted only while the host says that its agent is idle.

The message is in the session's own log before its dispatch (`input/queued`), and owed until
the host acknowledges it: what is lost between the two processes is given again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from attrs import frozen

from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED, TURN_STARTED
from schedule_adapters.inbox import read_inbox
from schedule_adapters.listeners import notify, subscribe
from schedule_adapters.sessions import Session
from schedule_core import AgentBusy, FollowUp, ScheduleId, SessionEvent

Outcome = Literal["completed", "failed", "cancelled"]


@frozen
class OwedReminder:
    """A reminder whose message is in the log, and which the host did not acknowledge.

    Attributes:
        seq: its `input/queued` event.
        schedule_id: the reminder.
        message: what the model is to get.
    """

    seq: int
    schedule_id: ScheduleId
    message: str


class HostAgent:
    """Implements `schedule_core.ports.AgentPort` for a host on the other side of a connection.

    Args:
        session: where messages are kept until they are acknowledged.
        on_waiting: called whenever something is due and the host did not offer its idle phase.
    """

    is_root = True

    def __init__(self, session: Session, on_waiting: Callable[[], None]) -> None:
        self._session = session
        self._on_waiting = on_waiting
        self._closed = False
        self._offered = False  # the host waits in `offering`, its agent idle
        self._phase: asyncio.Task[None] | None = None  # set while the owner holds the phase
        inbox = read_inbox(session)
        self._admitted = inbox.admitted
        self._owed = {
            queued.seq: OwedReminder(queued.seq, queued.schedule_id, queued.text)
            for queued in inbox.owed.values()
            if queued.schedule_id is not None
        }
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._idle_listeners: list[Callable[[], None]] = []
        self._close_listeners: list[Callable[[], None]] = []

    # AgentPort.

    @property
    def is_live(self) -> bool:
        """True until `close`."""
        return not self._closed

    def has_admitted(self, schedule_id: ScheduleId) -> bool:
        """Whether this session's log holds the follow-up of that reminder."""
        return schedule_id in self._admitted

    def followup(self, message: FollowUp) -> None:
        """Owe the host one message; see `AgentPort`."""
        data = {"source": "reminder", "text": message.text, "scheduleId": message.schedule_id}
        event = self._session.append(INPUT_QUEUED.name, data)
        self._owed[event.seq] = OwedReminder(event.seq, message.schedule_id, message.text)
        self._admitted.add(message.schedule_id)

    def run_maintenance(self, task: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Claim the phase that the host offers; see `AgentPort`."""
        if not self._is_idle():
            self._on_waiting()
            raise AgentBusy

        async def run() -> None:
            await task()

        self._phase = asyncio.get_running_loop().create_task(run())
        # Not in a finally of the task: one that is cancelled before it starts has none.
        self._phase.add_done_callback(self._release)
        return self._phase

    async def when_idle(self) -> None:
        """Return once the host offers its idle phase and owes no acknowledgement."""
        while not self._is_idle():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the host offers its idle phase."""
        return subscribe(self._idle_listeners, listener)

    def on_close(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` once, at `close`."""
        return subscribe(self._close_listeners, listener)

    # For the host's side.

    @property
    def owed(self) -> tuple[OwedReminder, ...]:
        """What the host did not acknowledge, oldest first."""
        return tuple(self._owed.values())

    @contextmanager
    def offering(self) -> Iterator[None]:
        """While inside, the host's agent is idle and may be claimed."""
        self._offered = True
        try:
            self._tell_idle()
            yield
        finally:
            self._offered = False

    def acknowledge(self, seq: int, outcome: Outcome) -> bool:
        """Record that the host has the message; False if that message was never owed here.

        Acknowledging again changes nothing.

        Raises:
            StoreError: nothing was recorded; the message is still owed.
        """
        if seq in self._owed:
            self._session.append(TURN_STARTED.name, {"input": seq})
            ended = {"input": seq, "outcome": outcome, "text": ""}
            self._session.append(TURN_ENDED.name, ended)
            del self._owed[seq]
            return True
        event = next(iter(self._session.events_from(seq)), None)
        return event is not None and _is_reminder(event)

    def close(self) -> None:
        """Nothing is admitted any more."""
        if not self._closed:
            self._closed = True
            notify(self._close_listeners)

    def _is_idle(self) -> bool:
        return self._offered and self._phase is None and not self._owed and not self._closed

    def _release(self, _: asyncio.Task[None]) -> None:
        self._phase = None

    def _tell_idle(self) -> None:
        if self._is_idle():
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            notify(self._idle_listeners)


def _is_reminder(event: SessionEvent) -> bool:
    match event.type, event.data:
        case INPUT_QUEUED.name, {"source": "reminder"}:
            return True
        case _:
            return False
