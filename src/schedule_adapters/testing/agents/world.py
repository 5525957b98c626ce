"""The world of one adapter under test: a session on disk, a clock that stands, and lives.

A life is what one process has: an open conversation, a driver, a script. The next life finds
what the one before left, whether it closed in order or was killed.
"""

import asyncio
import gc
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED, TURN_STARTED
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.agents.script import CallTool, Gate, Plan, Say, Script
from schedule_adapters.testing.stores import SetClock
from schedule_adapters.turn_driver import SessionTool, TextDelta, TurnDriver, TurnInput, TurnOutput
from schedule_adapters.turns import SessionOutput, TurnEnded, TurnStarted
from schedule_core import Instant, SessionEvent
from schedule_core.instants import SECOND_MS

MakeDriver = Callable[[Session, Script, Path], TurnDriver]

HANG_S: Final = 120.0
"""A life that takes longer hangs; what it does takes milliseconds."""
LEAVE_S: Final = 30.0
"""How long tasks of a closed driver may take to be gone."""

SESSION_ID: Final = "main"
HOLD: Final = "kit_hold"
"""A tool that the kit adds: it stands at `Life.hold` until the test opens that gate."""


@define
class Life:
    """One process: a live conversation, the driver under test, and all that was heard."""

    conversation: Conversation
    script: Script
    clock: SetClock
    outputs: list[SessionOutput] = field(factory=list)
    hold: Gate = field(factory=Gate)
    _heard: asyncio.Event = field(factory=asyncio.Event)

    def hear(self, output: SessionOutput) -> None:
        """Keep one output, and wake whoever waits for it."""
        self.outputs.append(output)
        self._heard.set()

    def prompt(self, text: str, *plans: Plan) -> None:
        """Type one message; the model does this with the next requests."""
        self.script.play(*plans)
        self.conversation.runtime.prompt(text)

    async def say(self, text: str, *plans: Plan) -> TurnEnded:
        """Type one message, and wait until its turn is over."""
        self.prompt(text, *plans)
        return await self.ended(text)

    async def create(self, prompt: str, after_s: int = 60) -> None:
        """Have the model set a reminder."""
        arguments = {"prompt": prompt, "after_seconds": after_s}
        ended = await self.say(
            f"remind me to {prompt}", CallTool("schedule_create", arguments), Say("it is set")
        )
        assert ended.outcome == "completed", ended

    async def ended(self, name: str) -> TurnEnded:
        """Wait for the end of the turn of that message, or of that reminder (by its id)."""
        while True:
            for output in self.outputs:
                if isinstance(output, TurnEnded) and name in _names(output):
                    return output
            self._heard.clear()
            await self._heard.wait()

    def pass_time(self, seconds: int) -> None:
        """Set the clock forward, and have the owner look at it."""
        _set_forward(self.clock, seconds)
        self.conversation.schedule.recompute()

    async def settle(self) -> None:
        """Wait until no turn runs, no message waits, and nothing more comes of due work.

        The list is answered after every pass of due work that was asked for before it, so
        a reminder that would be delivered has begun its turn by then.
        """
        heard = -1
        while heard != len(self.outputs):
            heard = len(self.outputs)
            for _ in range(2):
                await self.conversation.runtime.when_idle()
                await self.listed()

    async def listed(self) -> list[str]:
        """The ids of the active reminders."""
        rows = await self.conversation.schedule.call_tool("schedule_list", {})
        assert isinstance(rows, list)
        return [row["id"] for row in rows]

    @property
    def turns(self) -> list[str]:
        """What began each turn of this life, in order: texts of the user, ids of reminders."""
        return [
            output.input.schedule_id or output.input.text
            for output in self.outputs
            if isinstance(output, TurnStarted)
        ]

    @property
    def said(self) -> list[str]:
        """The pieces of text that came out, in order."""
        return [output.text for output in self.outputs if isinstance(output, TextDelta)]

    @property
    def log(self) -> list[SessionEvent]:
        """The live log."""
        return list(self.conversation.session.events_from(0))


def _names(output: TurnEnded) -> tuple[str | None, str]:
    return output.input.schedule_id, output.input.text


@define
class AgentWorld:
    """Where the lives of one conversation are lived, one after the other.

    Attributes:
        place: the folder with the sessions and the driver's own store.
        clock: stands until a test sets it.
    """

    place: Path
    make_driver: MakeDriver
    clock: SetClock = field(factory=SetClock)
    _crashes: int = 0

    def pass_time(self, seconds: int) -> None:
        """Set the clock forward while nobody is there."""
        _set_forward(self.clock, seconds)

    @asynccontextmanager
    async def life(self, *plans: Plan) -> AsyncIterator[Life]:
        """Open the conversation, let turns begin, and close everything in order.

        Leaving it checks that closing was quiet: no task is left, nothing failed unheard.
        """
        place, script = self.place, Script(*plans)
        folder = place / "driver"
        folder.mkdir(parents=True, exist_ok=True)
        store = JsonlStore(place / "sessions", clock=self.clock)
        async with asyncio.timeout(HANG_S):
            with _nothing_fails_unheard():
                before = asyncio.all_tasks()
                async with open_conversation(
                    store,
                    SESSION_ID,
                    lambda session: self.make_driver(session, script, folder),
                    clock=self.clock,
                ) as conversation:
                    life = Life(conversation, script, self.clock)
                    conversation.runtime.register_tool(_hold_tool(life.hold))
                    conversation.runtime.subscribe(life.hear)
                    conversation.runtime.start()
                    yield life
                await _no_task_is_left(before)
                _check_requests(script)

    async def crash(self, life: Life) -> None:
        """Have the next life find what a kill at this moment would leave.

        What was appended is made durable first: of the rest nothing is promised.
        """
        await life.conversation.session.barrier()
        self._crashes += 1
        remains = self.place.with_name(f"crash-{self._crashes}")
        # In one step of the loop, so that nothing of this process moves meanwhile.
        shutil.copytree(self.place, remains)
        self.place = remains


def _set_forward(clock: SetClock, seconds: int) -> None:
    clock.time = Instant(clock.time + seconds * SECOND_MS)


def _hold_tool(gate: Gate) -> SessionTool:
    async def call(_: dict[str, Any]) -> object:
        await gate.wait()
        return {"held": True}

    return SessionTool(HOLD, "Waits.", {"type": "object", "properties": {}}, call)


def _check_requests(script: Script) -> None:
    """What holds for every request: runs are serialised, and no call lacks its result."""
    assert script.most_at_once <= 1, "two requests of one conversation were open at once"
    for seen in script.requests:
        assert len(seen.calls) == len(seen.results), f"providers refuse this request: {seen}"


async def _no_task_is_left(before: set[asyncio.Task[Any]]) -> None:
    left = asyncio.all_tasks() - before
    if left:
        _, left = await asyncio.wait(left, timeout=LEAVE_S)
    assert not left, f"closing left tasks behind: {left}"


@contextmanager
def _nothing_fails_unheard() -> Iterator[None]:
    """Fail if a task, a future or a callback of the loop failed and nobody was told."""
    loop, unheard = asyncio.get_running_loop(), list[dict[str, Any]]()
    earlier = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    gc.freeze()  # so that the collection below looks at what this life made, and no more
    try:
        yield
        gc.collect()  # a future says so when it is collected
    finally:
        gc.unfreeze()
        loop.set_exception_handler(earlier)
    assert not unheard, f"something failed and nobody was told: {unheard}"


class FromAnotherThread:
    """A driver whose tools are called on a thread and a loop of their own."""

    def __init__(self, driver: TurnDriver) -> None:
        self._driver = driver

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run the turn with the tools moved to other threads."""
        await self._driver.run_turn(turn, [_threaded(tool) for tool in tools], emit)

    async def close(self) -> None:
        """Close the driver."""
        await self._driver.close()


def _threaded(tool: SessionTool) -> SessionTool:
    async def call(arguments: dict[str, Any]) -> object:
        async def on_own_loop() -> object:
            return await tool.call(arguments)

        return await asyncio.to_thread(lambda: asyncio.run(on_own_loop()))

    return SessionTool(tool.name, tool.description, tool.parameters, call)


def admissions(log: Iterable[SessionEvent]) -> dict[str, int]:
    """How often each message began a turn that was not put off, by text or reminder id."""
    names: dict[int, str] = {}
    begun: dict[str, int] = {}
    for event in log:
        match event.type, event.data:
            case INPUT_QUEUED.name, {"text": str(text), **data}:
                name = names[event.seq] = str(data.get("scheduleId", text))
                begun.setdefault(name, 0)
            case TURN_STARTED.name, {"input": int(seq)}:
                begun[names[seq]] += 1
            case TURN_ENDED.name, {"input": int(seq), "outcome": "postponed"}:
                begun[names[seq]] -= 1
            case _:
                pass
    return begun
