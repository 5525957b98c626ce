"""One session whose conversation lives in a host: tools for its model, reminders to take."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from schedule_adapters.live import LiveOptions, LiveSchedule, SystemClock
from schedule_adapters.mcp.host_agent import HostAgent, Outcome
from schedule_adapters.mcp.wire import TakenReminder
from schedule_adapters.service import ScheduleService
from schedule_adapters.sessions import Session, SessionStore, StoreError
from schedule_adapters.turn_driver import SessionTool
from schedule_core import Clock, ErrorCode, Instant, format_instant, render_reminder
from schedule_core.tools import UNCERTAIN_MESSAGE

_OPTIONS: Final = LiveOptions(retry_s=30.0)
"""Nobody may be there to cause activity: what a failing disk held back is tried again."""


SHOWN_DUE: Final = 32
"""How many due reminders one reading shows; a host takes them one by one."""
_SEQ: Final = re.compile("[0-9]{1,15}")


class ToolBox:
    """The tools of one agent; a `service.ToolScope`."""

    def __init__(self) -> None:
        self._tools: dict[str, SessionTool] = {}

    @property
    def tools(self) -> tuple[SessionTool, ...]:
        """What there is now, in the order of registration."""
        return tuple(self._tools.values())

    def register_tool(self, tool: SessionTool) -> Callable[[], None]:
        """Offer one tool.

        Raises:
            ValueError: there is a tool of that name already.
        """
        if tool.name in self._tools:
            raise ValueError(f"there is a tool {tool.name} already")
        self._tools[tool.name] = tool
        return lambda: self._remove(tool)

    def _remove(self, tool: SessionTool) -> None:
        if self._tools.get(tool.name) is tool:
            del self._tools[tool.name]


class HostedSession:
    """What a host may do with its session, on the loop it was opened on."""

    def __init__(
        self, session: Session, agent: HostAgent, schedule: LiveSchedule, clock: Clock
    ) -> None:
        self._session = session
        self._agent = agent
        self._schedule = schedule
        self._clock = clock
        self._taking = asyncio.Lock()  # one idle phase is offered at a time

    @property
    def schedule(self) -> LiveSchedule:
        """The reminders of this session."""
        return self._schedule

    def due_json(self) -> dict[str, Any]:
        """What is due (the earliest few) and what comes next; takes nothing.

        Raises:
            ScheduleLogError: the log is corrupt.
        """
        now = self._clock.now()
        records = [view.record for view in self._schedule.views()]
        due = sorted((r for r in records if r.scheduled_at <= now), key=lambda r: r.scheduled_at)
        following = min((r.scheduled_at for r in records if r.scheduled_at > now), default=None)
        owed = {each.schedule_id: each.message for each in self._agent.owed}
        messages = list(owed.items())
        # Also one that was acknowledged and whose dispatch is not recorded: taking records it.
        messages += [(each.id, render_reminder(each)) for each in due if each.id not in owed]
        return {
            "now": format_instant(Instant(now)),
            "nextDueAt": None if following is None else format_instant(following),
            "due": [{"id": each, "message": message} for each, message in messages[:SHOWN_DUE]],
        }

    async def take(self) -> TakenReminder | dict[str, Any] | None:
        """Admit at most one due reminder while the host's agent is idle, and give it.

        What was given and not acknowledged is given again. None if nothing is due; the error
        value of a tool if that cannot be told.
        """
        async with self._taking:
            answer: object = None
            if not self._agent.owed:
                with self._agent.offering():
                    # Calls and passes of due work share one queue. The offer made a pass; when
                    # this call behind it is answered, the pass is over and the phase released.
                    answer = await self._schedule.call_tool("schedule_list", {})
            if not self._agent.owed:
                return answer if isinstance(answer, dict) else None
            owed = self._agent.owed[0]
            return TakenReminder(self._delivery(owed.seq), owed.schedule_id, owed.message)

    async def acknowledge(self, delivery: str, outcome: Outcome) -> dict[str, Any]:
        """Record, durably, that the host has that message; it is not given again.

        Gives `acknowledged`, false if this session never gave that delivery; or the error
        value `persistence_uncertain`: acknowledge again.
        """
        head, _, tail = delivery.rpartition("/")
        is_ours = _SEQ.fullmatch(tail) is not None and f"{head}/" == self._delivery("")
        try:
            known = is_ours and self._agent.acknowledge(int(tail), outcome)
            await self._session.barrier()
        except StoreError:
            code = ErrorCode.PERSISTENCE_UNCERTAIN.value
            return {"code": code, "message": UNCERTAIN_MESSAGE}
        if known:
            self._schedule.recompute()  # the next one may be due
        return {"acknowledged": known}

    def _delivery(self, seq: int | str) -> str:
        header = self._session.header
        return f"{header.id}/{header.created_at}/{seq}"


@asynccontextmanager
async def open_hosted(
    store: SessionStore,
    session_id: str,
    *,
    on_waiting: Callable[[], None],
    clock: Clock | None = None,
) -> AsyncIterator[tuple[HostedSession, ToolBox]]:
    """Open a session for a host elsewhere; leaving the context closes it in order.

    Args:
        store: where the session lives.
        session_id: which one.
        on_waiting: called on this loop when something is due and the host is to take it.
        clock: the wall clock.

    Raises:
        StoreError: the session cannot be opened; see `SessionStore.open`.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as closing:  # last in, first out; each whatever became of the rest
        session = await store.open(session_id)
        closing.push_async_callback(_save_and_close, session)
        service = ScheduleService(clock=clock, options=_OPTIONS)
        closing.push_async_callback(service.close)
        agent, box = HostAgent(session, on_waiting), ToolBox()
        closing.callback(agent.close)
        schedule = service.serve(agent, session, box, name=session_id)
        assert schedule is not None, "a new root agent is served"
        yield HostedSession(session, agent, schedule, clock), box


async def _save_and_close(session: Session) -> None:
    try:
        with suppress(StoreError):  # reported when it happened; there is no one to tell now
            await session.barrier()
    finally:
        await session.close()
