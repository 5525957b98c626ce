"""A session runtime whose model does what a test says, for tests of turns and of services."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field

from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.facts import LiveFact
from schedule_adapters.live import LiveOptions
from schedule_adapters.sessions import SessionOpener
from schedule_adapters.stores.memory import MemorySession, MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.turn_driver import SessionTool, TurnInput, TurnOutput
from schedule_adapters.turns import SessionOutput, SessionRuntime, TurnEnded, TurnStarted
from schedule_core import FollowUp, ScheduleId, SessionEvent
from schedule_core.signals import Fact

Emit = Callable[[TurnOutput], None]
Step = Callable[[Sequence[SessionTool], Emit], Awaitable[None]]


@define
class ScriptedDriver:
    """A model that ends each turn at once, unless a step stands under what it was told."""

    steps: dict[str, Step] = field(factory=dict)
    """By the text of a prompt, or by the id of a reminder."""
    turns: list[TurnInput] = field(factory=list)
    offered: list[tuple[str, ...]] = field(factory=list)
    """The names of the tools that each turn got."""
    closed: int = 0
    close_error: Exception | None = None

    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        self.turns.append(turn)
        self.offered.append(tuple(tool.name for tool in tools))
        step = self.steps.get(turn.schedule_id or turn.text)
        if step is not None:
            await step(tools, emit)

    async def close(self) -> None:
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error

    @property
    def heard(self) -> list[str]:
        """What began the turns: texts of the user, ids of reminders."""
        return [turn.schedule_id or turn.text for turn in self.turns]


def until(gate: asyncio.Future[None]) -> Step:
    """A turn that lasts until the gate opens."""

    async def step(_: Sequence[SessionTool], __: Emit) -> None:
        await asyncio.shield(gate)

    return step


def lasting(seconds: float) -> Step:
    """A turn that takes its time."""

    async def step(_: Sequence[SessionTool], __: Emit) -> None:
        await asyncio.sleep(seconds)

    return step


def failing(error: Exception) -> Step:
    """A turn that fails."""

    async def step(_: Sequence[SessionTool], __: Emit) -> None:
        raise error

    return step


def calling(name: str, answers: list[object], **arguments: object) -> Step:
    """A turn in which the model calls one tool; its answer is added to `answers`."""

    async def step(tools: Sequence[SessionTool], _: Emit) -> None:
        [tool] = [tool for tool in tools if tool.name == name]
        answers.append(await tool.call(dict(arguments)))

    return step


def gate() -> asyncio.Future[None]:
    """A future that a test opens."""
    return asyncio.get_running_loop().create_future()


def reminder(schedule_id: str = "schedule-1") -> FollowUp:
    """What an owner queues when that reminder is due."""
    return FollowUp(ScheduleId(schedule_id), f"framed {schedule_id}")


def told(outputs: Sequence[SessionOutput]) -> list[str]:
    """What a listener heard, a word or two for each."""
    return [_told(output) for output in outputs]


def _told(output: SessionOutput) -> str:
    match output:
        case TurnStarted(queued):
            return f"started {queued.schedule_id or queued.text}"
        case TurnEnded(queued, outcome):
            return f"{outcome} {queued.schedule_id or queued.text}"
        case _:
            return str(output)


def gist(events: Sequence[SessionEvent]) -> list[str]:
    """The events without their batch marks, a word or two for each."""
    return [_gist(event) for event in events if event.type != "log/checkpoint"]


def _gist(event: SessionEvent) -> str:
    match event.data:
        case {"operation": "create", "schedule": {"id": name}}:
            return f"create {name}"
        case {"operation": operation, "id": name}:
            return f"{operation} {name}"
        case {"source": _, "text": text}:
            return f"queued {event.data.get('scheduleId', text)}"
        case {"input": seq, "outcome": outcome}:
            return f"{outcome} {seq}"
        case {"input": seq}:
            return f"started {seq}"
        case _:
            return event.type


@define
class TurnWorld:
    """One runtime on a session in memory, and all it says."""

    store: MemoryStore
    session: MemorySession
    driver: ScriptedDriver
    runtime: SessionRuntime
    outputs: list[SessionOutput]

    @classmethod
    async def open(
        cls, clock: VirtualClock, store: MemoryStore | None = None, session_id: str = "main"
    ) -> "TurnWorld":
        """Open a session; its runtime is not started."""
        store = store or MemoryStore(clock=clock)
        session = await store.open(session_id)
        driver = ScriptedDriver()
        runtime = SessionRuntime(session, driver, clock=clock)
        outputs: list[SessionOutput] = []
        runtime.subscribe(outputs.append)
        return cls(store, session, driver, runtime, outputs)

    async def crash(self) -> None:
        """End as a killed process does: what no barrier confirmed is gone."""
        await self.session.close()
        await self.runtime.close()

    async def close(self) -> None:
        """End in order."""
        await self.runtime.close()
        await self.session.barrier()
        await self.session.close()

    @property
    def log(self) -> list[str]:
        """The live log, a word or two for each event."""
        return gist(self.session.events_from(0))

    @property
    def told(self) -> list[str]:
        """What a listener heard."""
        return told(self.outputs)


Scenario = Callable[[TurnWorld], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    """Run one scenario on a started runtime, and close it."""

    async def main(clock: VirtualClock) -> None:
        world = await TurnWorld.open(clock)
        world.runtime.start()
        await scenario(world)
        await world.close()

    run_virtual(main)


@define
class Talk:
    """One open conversation, and what a test wants to know of it."""

    driver: ScriptedDriver
    conversation: Conversation
    facts: list[Fact]

    async def call(self, name: str, **arguments: object) -> object:
        """Call one tool outside any turn."""
        return await self.conversation.schedule.call_tool(name, dict(arguments))

    async def listed(self) -> list[str]:
        """The ids of the active reminders."""
        rows = await self.call("schedule_list")
        assert isinstance(rows, list)
        return [row["id"] for row in rows]


@asynccontextmanager
async def talk(
    store: SessionOpener,
    clock: VirtualClock,
    session_id: str = "main",
    *,
    driver: ScriptedDriver | None = None,
    options: LiveOptions | None = None,
) -> AsyncIterator[Talk]:
    """Open a conversation, start it, and close it in order."""
    driver = driver or ScriptedDriver()
    facts: list[Fact] = []

    def hear(_: str, fact: LiveFact) -> None:
        if isinstance(fact, Fact):  # the owner's own; the shell's have durations
            facts.append(fact)

    async with open_conversation(
        store,
        session_id,
        lambda _: driver,
        clock=clock,
        options=options,
        report=hear,
    ) as conversation:
        conversation.runtime.start()
        yield Talk(driver, conversation, facts)


def log_of(store: MemoryStore, session_id: str = "main") -> list[str]:
    """What is durable of a session, a word or two for each event."""
    return gist(store._sessions[session_id].events)
