"""The shared wait for the wall clock, on virtual time: never early, in order, nobody lost."""

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Callable, Coroutine

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.timers import SEGMENT_S, SLICE, TimerId, WallTimers
from schedule_core import Instant

SEGMENT_MS = round(SEGMENT_S * 1_000)
HOUR_MS = 3_600_000
START = 1_795_996_800_000


@define
class CountedClock:
    """A clock that says how often it was read, and can fail."""

    virtual: VirtualClock
    reads: int = 0
    broken: bool = False

    def now(self) -> Instant:
        self.reads += 1
        if self.broken:
            raise OSError("no clock")
        return self.virtual.now()


@define
class World:
    """Timers, and what they called: the name of each wait and what the clock showed."""

    clock: CountedClock
    timers: WallTimers
    called: list[str] = field(factory=list)
    moments: list[tuple[Instant, Instant]] = field(factory=list)
    """The time that each call was for, and the time at which it came."""
    failures: list[Exception] = field(factory=list)
    """What calls raised on purpose."""

    def wait(self, name: str, *, ms: int) -> TimerId:
        """Wait for a time that many milliseconds from now, or before now."""

        def call(at: Instant) -> None:
            self.called.append(name)
            self.moments.append((at, self.clock.virtual.now()))

        return self.timers.call_at(self.after(ms), call)

    def after(self, ms: int) -> Instant:
        return Instant(self.clock.virtual.now() + ms)

    def step(self, ms: int) -> None:
        self.clock.virtual.step(ms)

    def delays(self) -> list[int]:
        """How many milliseconds after its time each call came."""
        return [came - at for at, came in self.moments]


Scenario = Callable[[World], Coroutine[None, None, None]]


def run(scenario: Scenario) -> None:
    """Run one scenario on virtual time; what the loop reports must be what it expects."""

    async def main(virtual: VirtualClock) -> None:
        clock = CountedClock(virtual)
        world = World(clock, WallTimers(clock))
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["exception"])
        )
        await scenario(world)
        assert world.failures == reported

    run_virtual(main, start=START)


class TestTime:
    def test_a_call_comes_at_its_time_with_its_time(self) -> None:
        async def scenario(world: World) -> None:
            at = world.after(20_000)
            world.wait("a", ms=20_000)
            await asyncio.sleep(19.999)
            assert world.called == []
            await asyncio.sleep(0.01)
            assert world.moments == [(at, at)]

        run(scenario)

    def test_calls_come_in_the_order_of_their_times_and_equal_ones_as_they_were_set(self) -> None:
        async def scenario(world: World) -> None:
            for name, ms in (("c", 300), ("a", 100), ("d", 300), ("b", 200), ("e", 300)):
                world.wait(name, ms=ms)
            await asyncio.sleep(1)
            assert world.called == ["a", "b", "c", "d", "e"]

        run(scenario)

    @pytest.mark.parametrize("ms", [0, -1, -HOUR_MS])
    def test_a_time_that_has_passed_is_called_soon_and_never_while_it_is_set(self, ms: int) -> None:
        async def scenario(world: World) -> None:
            world.wait("a", ms=ms)
            assert world.called == []
            await asyncio.sleep(0.001)
            assert world.called == ["a"]

        run(scenario)

    def test_an_earlier_wait_is_not_held_up_by_a_later_one(self) -> None:
        async def scenario(world: World) -> None:
            world.wait("late", ms=50_000)
            await asyncio.sleep(1)
            world.wait("early", ms=10)
            await asyncio.sleep(0.02)
            assert world.called == ["early"]
            assert world.delays() == [0]

        run(scenario)

    def test_a_far_time_costs_one_look_a_minute_however_many_wait(self) -> None:
        """Thirty days ahead, beyond every timer range."""

        async def scenario(world: World) -> None:
            for number in range(1_000):
                world.wait("far", ms=720 * HOUR_MS + number)
            world.clock.reads = 0
            await asyncio.sleep(3_600)
            assert world.clock.reads == 60
            await asyncio.sleep(720 * 3_600)
            assert world.called == ["far"] * 1_000
            assert max(world.delays()) == 0

        run(scenario)


class TestClock:
    def test_a_clock_set_back_makes_nothing_early(self) -> None:
        async def scenario(world: World) -> None:
            world.wait("a", ms=10_000)
            world.step(-HOUR_MS)
            await asyncio.sleep(3_600 + 9)
            assert world.called == []
            await asyncio.sleep(1.1)
            assert world.delays() == [0]

        run(scenario)

    def test_a_clock_set_back_in_the_middle_of_a_burst_holds_the_rest_of_it(self) -> None:
        """Also what a look before the step had seen to be due."""

        async def scenario(world: World) -> None:
            world.timers.call_at(world.after(1_000), lambda _: world.step(-5_000))
            for _ in range(3 * SLICE):
                world.wait("a", ms=1_000)
            await asyncio.sleep(1.1)
            assert world.called == []
            await asyncio.sleep(4.8)
            assert world.called == []
            await asyncio.sleep(0.2)
            assert len(world.called) == 3 * SLICE
            assert min(world.delays()) == 0

        run(scenario)

    def test_a_clock_set_forward_is_noticed_within_a_segment(self) -> None:
        async def scenario(world: World) -> None:
            world.wait("a", ms=HOUR_MS)
            world.wait("b", ms=2 * HOUR_MS)
            world.step(HOUR_MS + 1)
            await asyncio.sleep(SEGMENT_S + 0.001)
            assert world.called == ["a"]

        run(scenario)

    def test_a_wait_that_begins_after_such_a_step_is_not_late_for_it(self) -> None:
        """What is overdue and not noticed yet does not hold up what comes in ten seconds."""

        async def scenario(world: World) -> None:
            world.wait("old", ms=HOUR_MS)
            world.step(2 * HOUR_MS)
            world.wait("new", ms=10_000)
            await asyncio.sleep(10.001)
            assert world.called == ["old", "new"]

        run(scenario)

    def test_a_clock_that_cannot_be_read_makes_nothing_early_and_is_read_again(self) -> None:
        async def scenario(world: World) -> None:
            world.wait("a", ms=10_000)
            world.clock.broken = True
            world.wait("b", ms=20_000)
            await asyncio.sleep(HOUR_MS / 1_000)
            assert world.called == []
            world.clock.broken = False
            await asyncio.sleep(SEGMENT_S)
            assert world.called == ["a", "b"]

        run(scenario)

    def test_a_clock_that_fails_in_the_middle_of_a_burst_loses_nobody(self) -> None:
        async def scenario(world: World) -> None:
            def fail(_: Instant) -> None:
                world.clock.broken = True

            world.timers.call_at(world.after(1_000), fail)
            for _ in range(3 * SLICE):
                world.wait("a", ms=1_000)
            await asyncio.sleep(600)
            assert world.called == []
            world.clock.broken = False
            await asyncio.sleep(SEGMENT_S)
            assert len(world.called) == 3 * SLICE

        run(scenario)

    def test_a_wait_that_begins_without_a_clock_comes_at_most_a_segment_late(self) -> None:
        async def scenario(world: World) -> None:
            world.clock.broken = True
            world.wait("a", ms=1_000)
            world.clock.broken = False
            await asyncio.sleep(SEGMENT_S + 0.001)
            assert world.called == ["a"]

        run(scenario)


class TestCancelling:
    def test_a_cancelled_wait_is_not_called(self) -> None:
        async def scenario(world: World) -> None:
            first = world.wait("a", ms=1_000)
            world.wait("b", ms=2_000)
            world.timers.cancel(first)
            world.timers.cancel(first)
            await asyncio.sleep(3)
            assert world.called == ["b"]

        run(scenario)

    def test_cancelling_what_is_over_costs_no_other_wait(self) -> None:
        async def scenario(world: World) -> None:
            over = world.wait("a", ms=1_000)
            await asyncio.sleep(2)
            world.wait("b", ms=1_000)
            world.timers.cancel(over)
            await asyncio.sleep(2)
            assert world.called == ["a", "b"]

        run(scenario)

    def test_a_call_may_cancel_one_that_is_due_with_it(self) -> None:
        async def scenario(world: World) -> None:
            at = world.after(1_000)
            world.timers.call_at(at, lambda _: world.timers.cancel(victim))
            victim = world.wait("victim", ms=1_000)
            world.wait("next", ms=1_000)
            await asyncio.sleep(2)
            assert world.called == ["next"]

        run(scenario)

    def test_cancelled_waits_do_not_pile_up(self) -> None:
        """A session whose next target changes a hundred thousand times costs one entry."""

        async def scenario(world: World) -> None:
            world.wait("stays", ms=2 * HOUR_MS)
            for _ in range(100_000):
                world.timers.cancel(world.wait("goes", ms=HOUR_MS))
            assert len(world.timers._heap) <= 2 * 2 + SLICE
            await asyncio.sleep(2 * 3_600 + 1)
            assert world.called == ["stays"]

        run(scenario)

    def test_a_cancelled_wait_keeps_nothing_alive(self) -> None:
        """However far ahead its time was."""

        async def scenario(world: World) -> None:
            class Owner:
                def call(self, at: Instant) -> None:
                    raise AssertionError(at)

            owner = Owner()
            gone = weakref.ref(owner)
            world.wait("stays", ms=1_000)
            world.timers.cancel(world.timers.call_at(world.after(HOUR_MS), owner.call))
            del owner
            gc.collect()
            assert gone() is None

        run(scenario)

    def test_a_wait_that_is_over_keeps_nothing_alive(self) -> None:
        async def scenario(world: World) -> None:
            class Owner:
                def call(self, at: Instant) -> None:
                    world.called.append(str(at))

            owner = Owner()
            gone = weakref.ref(owner)
            world.wait("stays", ms=HOUR_MS)
            world.timers.call_at(Instant(START), owner.call)
            await asyncio.sleep(1)
            assert world.called == [str(START)]
            del owner
            gc.collect()
            assert gone() is None

        run(scenario)

    def test_nobody_waiting_leaves_nothing_on_the_loop(self) -> None:
        async def scenario(world: World) -> None:
            waits = [world.wait("a", ms=number * 1_000) for number in range(5)]
            for wait in waits:
                world.timers.cancel(wait)
            world.clock.reads = 0
            await asyncio.sleep(3_600)
            assert world.clock.reads == 0
            world.wait("b", ms=1_000)
            await asyncio.sleep(2)
            assert world.called == ["b"]

        run(scenario)


class TestCalls:
    def test_a_call_that_fails_costs_no_other(self) -> None:
        """The loop reports it."""

        async def scenario(world: World) -> None:
            def fail(_: Instant) -> None:
                world.failures.append(RuntimeError("boom"))
                raise world.failures[0]

            world.wait("before", ms=1_000)
            world.timers.call_at(world.after(1_000), fail)
            world.wait("after", ms=1_000)
            world.wait("later", ms=2_000)
            await asyncio.sleep(3)
            assert world.called == ["before", "after", "later"]
            assert len(world.failures) == 1

        run(scenario)

    def test_a_burst_comes_in_slices_and_in_order_and_the_loop_has_its_turn_between(self) -> None:
        async def scenario(world: World) -> None:
            count = 10 * SLICE + 1
            for number in range(count):
                world.wait(str(number), ms=1_000 + number % 2)
            await asyncio.sleep(1.001)
            gaps: list[int] = []
            while len(world.called) < count:
                before = len(world.called)
                await asyncio.sleep(0)
                gaps.append(len(world.called) - before)
            assert max(gaps) <= SLICE
            evens = [str(number) for number in range(0, count, 2)]
            odds = [str(number) for number in range(1, count, 2)]
            assert world.called == evens + odds

        run(scenario)

    def test_a_call_that_asks_again_for_the_past_starves_no_other(self) -> None:
        async def scenario(world: World) -> None:
            rounds: list[Instant] = []

            def again(at: Instant) -> None:
                rounds.append(at)
                if len(rounds) < 1_000:
                    world.timers.call_at(Instant(at - 1), again)

            for _ in range(SLICE // 2):
                world.timers.call_at(world.after(1_000), again)
            for _ in range(3 * SLICE):
                world.wait("other", ms=1_000)
            await asyncio.sleep(1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(world.called) == 3 * SLICE
            assert len(rounds) < 1_000

        run(scenario)

    def test_a_call_belongs_to_the_context_of_nobody_who_asked(self) -> None:
        """Nor does it leave anything in the context of the next."""
        caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")

        async def scenario(world: World) -> None:
            seen: list[str] = []

            def call(_: Instant) -> None:
                seen.append(caller.get())
                caller.set("a call")

            caller.set("whoever asked")
            for ms in (0, 1_000, 1_000):
                world.timers.call_at(world.after(ms), call)
            await asyncio.sleep(2)
            assert seen == ["nobody"] * 3

        run(scenario)


MOVES = st.one_of(
    st.tuples(st.just("wait"), st.integers(-2 * SEGMENT_MS, 5 * SEGMENT_MS)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("pass"), st.integers(0, 2 * SEGMENT_MS)),
    st.tuples(st.just("step"), st.integers(-3 * SEGMENT_MS, 3 * SEGMENT_MS)),
    st.tuples(st.just("break"), st.integers(0, SEGMENT_MS)),
)


@given(st.lists(MOVES, max_size=40))
def test_whatever_happens_each_wait_ends_in_one_call_that_is_never_early(
    moves: list[tuple[str, int]],
) -> None:
    """Waits, cancels, time, steps of the clock and a clock out of order, in any order."""

    async def scenario(world: World) -> None:
        waits: list[TimerId] = []
        cancelled: set[str] = set()
        for kind, number in moves:
            match kind:
                case "wait":
                    waits.append(world.wait(str(len(waits)), ms=number))
                case "cancel" if number < len(waits):
                    world.timers.cancel(waits[number])
                    cancelled |= {str(number)} - set(world.called)
                case "pass":
                    await asyncio.sleep(number / 1_000)
                case "step":
                    world.step(number)
                case "break":
                    world.clock.broken = True
                    await asyncio.sleep(number / 1_000)
                    world.clock.broken = False
                case _:
                    pass
        await asyncio.sleep((5 + 3 * len(moves) + 2) * SEGMENT_S)
        assert sorted({str(n) for n in range(len(waits))} - cancelled) == sorted(world.called)
        assert all(delay >= 0 for delay in world.delays())

    run(scenario)


@given(
    st.lists(st.integers(0, 3 * SEGMENT_MS), min_size=1, max_size=30),
    st.integers(-SEGMENT_MS, 2 * SEGMENT_MS),
)
def test_after_a_step_each_call_comes_at_most_a_segment_late(times: list[int], step: int) -> None:
    """Without a step, as soon as the clock shows its time."""

    async def scenario(world: World) -> None:
        for ms in times:
            world.wait("a", ms=ms)
        before = world.clock.virtual.now()
        world.step(step)
        await asyncio.sleep(10 * SEGMENT_S)
        assert len(world.called) == len(times)
        passed = [max(at, before + step) for at, _ in world.moments]
        waited = [came - at for at, (_, came) in zip(passed, world.moments, strict=True)]
        assert min(waited) >= 0
        assert max(waited) <= (SEGMENT_MS if step > 0 else 0)

    run(scenario)
