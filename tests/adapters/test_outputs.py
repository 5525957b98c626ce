"""What a host reads of a session: an iterator that begins, ends and is left like any other."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence

import pytest

from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.turn_driver import SessionTool, TextDelta
from schedule_adapters.turns import SessionOutput
from tests.adapters.live_world import settle
from tests.adapters.turn_world import Emit, TurnWorld, lasting, reminder, run, told


async def read(outputs: AsyncIterator[SessionOutput]) -> list[str]:
    """Everything to the end, a word or two for each."""
    return told([output async for output in outputs])


async def saying_hello(_: Sequence[SessionTool], emit: Emit) -> None:
    """A turn with one piece of text."""
    emit(TextDelta("hello"))


class TestHearing:
    def test_a_host_hears_what_a_listener_hears(self) -> None:
        """Of prompts and of reminders, in order."""

        async def scenario(world: TurnWorld) -> None:
            outputs = world.runtime.outputs()
            world.driver.steps["hi"] = saying_hello
            world.runtime.prompt("hi")
            world.runtime.followup(reminder())
            await world.runtime.when_idle()
            await world.runtime.close()
            assert [output async for output in outputs] == world.outputs
            assert len(world.outputs) == 5

        run(scenario)

    def test_hearing_begins_at_the_call(self) -> None:
        """Not at the first read: what comes between is heard, what came before is not."""

        async def scenario(world: TurnWorld) -> None:
            world.runtime.prompt("before")
            await world.runtime.when_idle()
            outputs = world.runtime.outputs()
            world.runtime.prompt("after")
            await world.runtime.when_idle()
            await world.runtime.close()
            assert await read(outputs) == ["started after", "completed after"]

        run(scenario)

    def test_an_output_is_read_in_the_moment_it_is_told(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            outputs = world.runtime.outputs()
            world.driver.steps["x"] = lasting(5)
            world.runtime.prompt("x")
            times: list[tuple[str, float]] = []
            for _ in range(2):
                [word] = told([await anext(outputs)])
                times.append((word, asyncio.get_running_loop().time()))
            assert times == [("started x", 0), ("completed x", pytest.approx(5))]

        run(scenario)

    def test_two_hosts_hear_everything_each(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            first, second = world.runtime.outputs(), world.runtime.outputs()
            world.runtime.prompt("x")
            await world.runtime.when_idle()
            await world.runtime.close()
            assert await read(first) == await read(second) == ["started x", "completed x"]

        run(scenario)

    def test_a_turn_that_an_earlier_process_left_is_heard_before_the_start(self) -> None:
        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            world.runtime.start()
            world.driver.steps["x"] = lasting(60)
            world.runtime.prompt("x")
            await asyncio.sleep(1)
            await world.crash()
            again = await TurnWorld.open(clock, world.store)
            outputs = again.runtime.outputs()
            again.runtime.start()
            assert told([await anext(outputs)]) == ["interrupted x"]
            await again.close()

        run_virtual(main)


class TestEnd:
    def test_the_end_comes_after_the_turn_that_closing_cancelled(self) -> None:
        """A host sees how the open turn ended."""

        async def scenario(world: TurnWorld) -> None:
            reading = asyncio.ensure_future(read(world.runtime.outputs()))
            world.driver.steps["long"] = lasting(60)
            world.runtime.prompt("long")
            await asyncio.sleep(1)
            assert not reading.done()
            await world.runtime.close()
            assert await reading == ["started long", "cancelled long"]

        run(scenario)

    def test_a_closed_session_has_nothing_to_hear(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            await world.runtime.close()
            assert await read(world.runtime.outputs()) == []

        run(scenario)

    def test_hearing_that_begins_while_closing_ends_with_it(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["long"] = lasting(60)
            world.runtime.prompt("long")
            await settle()
            closing = asyncio.ensure_future(world.runtime.close())
            await asyncio.sleep(0)
            assert await read(world.runtime.outputs()) == ["cancelled long"]
            await closing

        run(scenario)

    def test_the_end_is_the_end_for_every_reader_and_every_later_read(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            outputs = world.runtime.outputs()
            readers = [asyncio.ensure_future(read(outputs)) for _ in range(3)]
            await settle()
            await world.runtime.close()
            assert await asyncio.gather(*readers) == [[], [], []]
            assert await read(outputs) == []

        run(scenario)

    def test_a_driver_that_fails_to_close_ends_it_all_the_same(self) -> None:
        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            world.driver.close_error = RuntimeError("boom")
            outputs = world.runtime.outputs()
            with pytest.raises(RuntimeError, match="boom"):
                await world.runtime.close()
            assert await read(outputs) == []
            await world.session.close()

        run_virtual(main)

    def test_a_turn_that_outlasts_the_closing_is_not_heard_after_the_end(self) -> None:
        """Given a driver that will not stop, then its turn is told as ended, and no more of it."""
        stop = asyncio.Event()

        async def stubborn(_: Sequence[SessionTool], emit: Emit) -> None:
            while not stop.is_set():
                try:
                    await stop.wait()
                except asyncio.CancelledError:
                    continue
            emit(TextDelta("too late"))

        async def scenario(world: TurnWorld) -> None:
            outputs = world.runtime.outputs()
            world.driver.steps["x"] = stubborn
            world.runtime.prompt("x")
            await settle()
            await world.runtime.close(timeout_s=3)
            stop.set()
            await settle()
            assert world.outputs[-1] == TextDelta("too late")
            assert await read(outputs) == ["started x", "failed x"]
            assert await read(outputs) == []

        run(scenario)


class TestLeaving:
    def test_leaving_the_loop_ends_the_hearing_at_once(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            runtime = world.runtime
            listening = len(runtime._output_listeners)
            runtime.prompt("x")
            async for _ in runtime.outputs():
                assert len(runtime._output_listeners) == listening + 1
                break
            gc.collect()
            assert (len(runtime._output_listeners), runtime._end_listeners) == (listening, [])

        run(scenario)

    def test_an_iterator_that_is_never_read_is_left_too(self) -> None:
        """A generator that has not begun would hear for ever."""

        async def scenario(world: TurnWorld) -> None:
            runtime = world.runtime
            listening = len(runtime._output_listeners)
            outputs = runtime.outputs()
            del outputs
            gc.collect()
            assert (len(runtime._output_listeners), runtime._end_listeners) == (listening, [])

        run(scenario)

    def test_a_cancelled_read_loses_nothing(self) -> None:
        """Given a host that waits with a time limit, then it can wait again."""

        async def scenario(world: TurnWorld) -> None:
            outputs = world.runtime.outputs()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await anext(outputs)
            world.runtime.prompt("x")
            assert told([await anext(outputs), await anext(outputs)]) == [
                "started x",
                "completed x",
            ]

        run(scenario)

    def test_a_read_that_is_cancelled_as_its_output_comes_loses_nothing(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            outputs = world.runtime.outputs()
            reading = asyncio.ensure_future(anext(outputs))
            await settle()
            world.runtime._tell(TextDelta("hello"))
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert await anext(outputs) == TextDelta("hello")

        run(scenario)
