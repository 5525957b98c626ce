"""Whatever happens to a session runtime, in any order, these things hold."""

import asyncio
from collections.abc import Sequence
from typing import Literal, get_args

from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.turn_driver import SessionTool, TurnInput
from schedule_adapters.turns import SessionRuntime
from schedule_core import AgentBusy
from tests.adapters.turn_world import Emit, reminder

Deed = Literal["prompt", "follow up", "claim", "cancel turn", "cancel claim", "fail", "heal"]

DEEDS: tuple[Deed, ...] = get_args(Deed)


@frozen
class Step:
    """One thing that happens, and how long nothing happens after it.

    Attributes:
        deed: what happens.
        lasts_s: how long the turn or the maintenance that comes of it takes.
        fails: whether it raises at its end.
        pause_s: until the next step; 0 is the very same moment, None a single step of the loop.
    """

    deed: Deed
    lasts_s: int
    fails: bool
    pause_s: int | None


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(DEEDS),
        st.integers(0, 3),
        st.booleans(),
        st.none() | st.integers(0, 4),
    ),
    max_size=25,
)


@define
class Occupied:
    """Who has the agent: nobody, or one turn, or one maintenance."""

    by: str | None = None
    claims: int = 0

    def enter(self, name: str) -> None:
        assert self.by is None, f"{name} begins while {self.by} runs"
        self.by = name

    def leave(self, name: str) -> None:
        assert self.by == name
        self.by = None


@define
class RandomDriver:
    """A model whose turns last and fail as their steps say."""

    occupied: Occupied
    plans: dict[str, Step] = field(factory=dict)
    heard: list[str] = field(factory=list)

    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        self.occupied.enter(turn.text)
        self.heard.append(turn.text)
        try:
            await asyncio.sleep(self.plans[turn.text].lasts_s)
            if self.plans[turn.text].fails:
                raise ValueError(turn.text)
        finally:
            self.occupied.leave(turn.text)

    async def close(self) -> None:
        assert self.occupied.by is None


@define
class RandomWorld:
    """One process with a session runtime."""

    runtime: SessionRuntime
    driver: RandomDriver
    queued: list[str] = field(factory=list)
    claims: list[asyncio.Task[None]] = field(factory=list)
    failing: bool = False

    def do(self, step: Step) -> None:
        """Let one thing happen."""
        match step.deed:
            case "prompt" | "follow up":
                self._send(step)
            case "claim":
                self._claim(step)
            case "cancel turn":
                self.runtime.cancel_turn()
            case "cancel claim":
                for claim in self.claims[-1:]:
                    claim.cancel()
            case "fail" | "heal":
                self.failing = step.deed == "fail"

    def _send(self, step: Step) -> None:
        number = len(self.queued)
        follow_up = reminder(f"schedule-{number}")
        text = follow_up.text if step.deed == "follow up" else f"prompt {number}"
        self.driver.plans[text] = step
        self.queued.append(text)
        if step.deed == "follow up":
            self.runtime.followup(follow_up)
        else:
            self.runtime.prompt(text)

    def _claim(self, step: Step) -> None:
        occupied, name = self.driver.occupied, f"claim {len(self.claims)}"

        async def task() -> None:
            occupied.enter(name)
            try:
                await asyncio.sleep(step.lasts_s)
                if step.fails:
                    raise ValueError(name)
            finally:
                occupied.leave(name)

        free = self.runtime.phase == "idle" and not self.runtime.queued
        try:
            claim = self.runtime.run_maintenance(task)
        except AgentBusy:
            assert not free
        else:
            assert free
            claim.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.claims.append(claim)


async def open_world(
    store: MemoryStore, clock: VirtualClock, before: RandomWorld | None
) -> RandomWorld:
    """Open the session, in a process that knows what was said in the one before it."""
    session = await store.open("main")
    driver = RandomDriver(Occupied(), before.driver.plans if before else {})
    runtime = SessionRuntime(session, driver, clock=clock)
    opened = RandomWorld(runtime, driver, list(before.queued) if before else [])
    store.fail_barriers = lambda: opened.failing
    opened.runtime.start()
    return opened


async def close_world(store: MemoryStore, world: RandomWorld) -> None:
    """Close it in order; the disk is well again by then."""
    world.failing = False
    await world.runtime.close()
    session = world.runtime._session
    await session.barrier()
    await session.close()


async def pause(step: Step) -> None:
    """Let the time between two steps pass."""
    if step.pause_s is None:
        await asyncio.sleep(0)
    elif step.pause_s > 0:
        await asyncio.sleep(step.pause_s)


@given(STEPS, STEPS)
def test_every_message_has_one_turn_in_order_whatever_happens(
    first: list[Step], second: list[Step]
) -> None:
    """Given two processes that are closed at any moment, and a third that is left in peace.

    Then no turn and no maintenance ever overlap, and each message had exactly one turn, in
    the order of arrival, with exactly one end; a postponed one is begun again, and first.
    """

    async def main(clock: VirtualClock) -> None:
        store = MemoryStore(clock=clock)
        world: RandomWorld | None = None
        for steps in (first, second, []):
            world = await open_world(store, clock, world)
            for step in steps:
                world.do(step)
                await pause(step)
            if not steps:
                await world.runtime.when_idle()
            await close_world(store, world)
        if world is None or not world.queued:
            return
        events = (await store.read("main")).events
        texts = {e.seq: e.data["text"] for e in events if e.type == "input/queued"}
        starts = [texts[e.data["input"]] for e in events if e.type == "turn/started"]
        ends = [e.data for e in events if e.type == "turn/ended"]
        over = [texts[end["input"]] for end in ends if end["outcome"] != "postponed"]
        assert world.queued == list(texts.values())
        assert world.queued == list(dict.fromkeys(starts)) == over
        assert len(starts) == len(ends)

    run_virtual(main)
