"""A session whose every port can be made to misbehave, for tests of the asyncio shell."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from attrs import define, field

from schedule_adapters.facts import LiveFact
from schedule_adapters.live import LiveOptions, LiveSchedule
from schedule_adapters.testing.virtual_time import VirtualClock
from schedule_core import (
    SCHEDULE_EVENT_TYPE,
    AgentBusy,
    FollowUp,
    Instant,
    ScheduleChange,
    ScheduleId,
    SessionEvent,
    encode_change,
)
from schedule_core.signals import Fact


@define
class ScriptedLog:
    """A live log and its barrier; the diary says in which order things were done."""

    diary: list[str]
    events: list[SessionEvent] = field(factory=list)
    seed_length: object = 0
    barrier_results: list[Exception | asyncio.Future[None]] = field(factory=list)
    """What the next barriers do: raise, or wait. With none left they pass."""
    append_errors: list[Exception | None] = field(factory=list)
    barriers: int = 0
    unreadable: bool = False

    def events_from(self, position: int) -> Iterable[SessionEvent]:
        if self.unreadable:
            raise OSError("the log is gone")
        return self.events[position:]

    def append_change(self, change: ScheduleChange) -> None:
        error = self.append_errors.pop(0) if self.append_errors else None
        if error is not None:
            raise error
        self.diary.append(f"append {change.operation}")
        self.add(SCHEDULE_EVENT_TYPE, encode_change(change))

    def add(self, event_type: str, data: object) -> None:
        self.events.append(SessionEvent(event_type, data, len(self.events), 0))

    async def barrier(self) -> None:
        self.barriers += 1
        self.diary.append("barrier")
        result = self.barrier_results.pop(0) if self.barrier_results else None
        if isinstance(result, Exception):
            raise result
        if result is not None:
            await result

    def operations(self) -> list[str]:
        """The operations of the schedule events, in order."""
        return [e.data["operation"] for e in self.events if e.type == SCHEDULE_EVENT_TYPE]


@define
class ScriptedAgent:
    """An agent that is idle, busy or broken as a test says."""

    diary: list[str]
    is_root: bool = True
    is_live: bool = True
    busy: bool = False
    messages: list[FollowUp] = field(factory=list)
    admitted: set[ScheduleId] = field(factory=set)
    claim_error: Exception | None = None
    phase_error: Exception | None = None
    followup_error: Exception | None = None
    idle_error: Exception | None = None
    claims_to_be_idle: bool = False
    """Whether it says it is idle, though it refuses every claim."""
    idle_waits: int = 0
    before_phase: Callable[[], None] | None = None
    """Called inside the claim, before the task runs."""
    _idle: list[asyncio.Future[None]] = field(factory=list)
    _idle_listeners: list[Callable[[], None]] = field(factory=list)
    _close_listeners: list[Callable[[], None]] = field(factory=list)

    def has_admitted(self, schedule_id: ScheduleId) -> bool:
        return schedule_id in self.admitted

    def followup(self, message: FollowUp) -> None:
        if self.followup_error is not None:
            raise self.followup_error
        self.diary.append("follow-up")
        self.messages.append(message)

    def run_maintenance(self, task: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        if self.claim_error is not None:
            raise self.claim_error
        if self.busy:
            raise AgentBusy
        self.diary.append("claim")
        return asyncio.get_running_loop().create_task(self._maintain(task))

    async def _maintain(self, task: Callable[[], Awaitable[None]]) -> None:
        if self.before_phase is not None:
            self.before_phase()
        if self.phase_error is not None:
            raise self.phase_error
        try:
            await task()
        finally:
            self.diary.append("release")

    async def when_idle(self) -> None:
        self.idle_waits += 1
        if self.claims_to_be_idle:
            return
        if self.idle_error is not None:
            raise self.idle_error
        if self.busy:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def become_idle(self) -> None:
        self.busy = False
        waiters, self._idle = self._idle, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in list(self._idle_listeners):
            listener()

    def close(self) -> None:
        self.is_live = False
        for listener in list(self._close_listeners):
            listener()

    @property
    def listeners(self) -> int:
        return len(self._idle_listeners) + len(self._close_listeners)

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._idle_listeners.append(listener)
        return lambda: self._idle_listeners.remove(listener)

    def on_close(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._close_listeners.append(listener)
        return lambda: self._close_listeners.remove(listener)


@define
class BreakableClock:
    """A clock that can fail."""

    virtual: VirtualClock
    broken: bool = False

    def now(self) -> Instant:
        if self.broken:
            raise OSError("no clock")
        return self.virtual.now()

    def step(self, milliseconds: int) -> None:
        self.virtual.step(milliseconds)


@define
class World:
    """One live schedule and everything around it."""

    clock: BreakableClock
    diary: list[str]
    log: ScriptedLog
    agent: ScriptedAgent
    live: LiveSchedule
    heard: list[LiveFact]
    """Every fact, in order."""

    @property
    def facts(self) -> list[Fact]:
        """The owner's own facts; the shell's have durations."""
        return [fact for fact in self.heard if isinstance(fact, Fact)]

    @classmethod
    async def make(cls, virtual: VirtualClock, options: LiveOptions | None = None) -> "World":
        """Make the world; its schedule is not started."""
        clock = BreakableClock(virtual)
        diary: list[str] = []
        heard: list[LiveFact] = []
        log, agent = ScriptedLog(diary), ScriptedAgent(diary)
        live = LiveSchedule(
            agent,
            log,
            clock=clock,
            options=options,
            report=lambda _, fact: heard.append(fact),
        )
        return cls(clock, diary, log, agent, live, heard)

    async def start(self) -> None:
        """Start, let the first pass end, and forget what it did."""
        self.live.start()
        await settle()
        self.diary.clear()

    async def create(self, prompt: str, **selector: object) -> dict[str, object]:
        """Create a reminder as the model would."""
        answer = await self.live.call_tool("schedule_create", {"prompt": prompt, **selector})
        assert isinstance(answer, dict)
        return answer

    async def listed(self) -> object:
        """List the reminders as the model would."""
        return await self.live.call_tool("schedule_list", {})


async def settle() -> None:
    """Let everything that can run without time passing run."""
    for _ in range(50):
        await asyncio.sleep(0)
