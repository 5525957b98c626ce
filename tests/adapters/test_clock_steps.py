"""The machine's clock is set while a reminder waits: late by a minute at most, early never.

The real `SystemClock` under freezegun; waiting takes no time, on a virtual loop.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence

import freezegun
import pytest
from attrs import define, field
from freezegun.api import FrozenDateTimeFactory

from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualTimeLoop
from schedule_adapters.timers import SEGMENT_S
from schedule_adapters.turn_driver import SessionTool, TurnInput, TurnOutput
from schedule_core import Instant, format_instant, parse_instant

HOUR_S = 3_600
BEFORE_SUMMER_TIME = "2027-03-28T00:59:30.000Z"
"""Half a minute before the clocks of Berlin go from 02:00 to 03:00."""


@define
class Deliveries:
    """A model that only notes when a reminder reached it, by the machine's clock."""

    times: list[Instant] = field(factory=list)

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        assert turn.source == "reminder"
        self.times.append(SystemClock().now())

    async def close(self) -> None:
        pass


@define
class Machine:
    """A conversation on a machine whose clock the test sets."""

    frozen: FrozenDateTimeFactory
    conversation: Conversation
    deliveries: Deliveries

    async def remind(self, **selector: object) -> Instant:
        """Make a reminder; gives the time it is for."""
        arguments = {"prompt": "stretch", **selector}
        made = await self.conversation.schedule.call_tool("schedule_create", arguments)
        assert isinstance(made, dict)
        return parse_instant(made["scheduledAt"])

    async def wait(self, seconds: int) -> None:
        """Let that much time pass, on the wall and in the loop."""
        for _ in range(seconds):
            self.frozen.tick(1)
            await asyncio.sleep(1)

    def step(self, seconds: int) -> None:
        """Set the wall clock; the loop does not notice."""
        self.frozen.tick(seconds)

    def assert_delivered_once(self, target: Instant) -> None:
        (at,) = self.deliveries.times
        assert target <= at <= target + SEGMENT_S * 1_000


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def _machine_zone(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The zone of the machine, which must not matter."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


pytestmark = pytest.mark.usefixtures("_machine_zone")


def run(scenario: Callable[[Machine], Coroutine[None, None, None]], start: str) -> None:
    """Run a scenario that begins at that time, on virtual time."""

    async def main(frozen: FrozenDateTimeFactory) -> None:
        deliveries = Deliveries()
        store = MemoryStore(clock=SystemClock())
        async with open_conversation(store, "main", lambda _: deliveries) as conversation:
            conversation.runtime.start()
            await scenario(Machine(frozen, conversation, deliveries))

    with (
        freezegun.freeze_time(start, real_asyncio=True) as frozen,
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
    ):
        assert isinstance(frozen, FrozenDateTimeFactory)
        runner.run(main(frozen))


def test_a_clock_set_back_delays_to_the_true_target() -> None:
    """Twice the wait by the loop, but never before the wall clock shows the time."""

    async def scenario(machine: Machine) -> None:
        target = await machine.remind(after_seconds=HOUR_S)
        await machine.wait(HOUR_S - 5)
        machine.step(-HOUR_S)
        await machine.wait(HOUR_S)
        assert machine.deliveries.times == []
        await machine.wait(10)
        machine.assert_delivered_once(target)

    run(scenario, "2027-01-10T12:00:00.000Z")


def test_a_clock_set_forward_past_the_target_delivers_once_within_a_minute() -> None:
    """The next look at the clock finds it due; going back over it repeats nothing."""

    async def scenario(machine: Machine) -> None:
        target = await machine.remind(after_seconds=HOUR_S)
        await machine.wait(10)
        machine.step(HOUR_S - 10)
        await machine.wait(int(SEGMENT_S))
        machine.assert_delivered_once(target)
        machine.step(-2 * HOUR_S)
        await machine.wait(3 * HOUR_S)
        machine.assert_delivered_once(target)

    run(scenario, "2027-01-10T12:00:00.000Z")


def test_a_clock_set_forward_to_before_the_target_is_not_early() -> None:
    async def scenario(machine: Machine) -> None:
        target = await machine.remind(after_seconds=HOUR_S)
        machine.step(HOUR_S - 30)
        await machine.wait(29)
        assert machine.deliveries.times == []
        await machine.wait(60)
        machine.assert_delivered_once(target)

    run(scenario, "2027-01-10T12:00:00.000Z")


def test_a_delay_across_the_beginning_of_summer_time_is_as_long_as_asked() -> None:
    """The hour that is missing on the wall is not missing in the delay."""

    async def scenario(machine: Machine) -> None:
        target = await machine.remind(after_seconds=60)
        await machine.wait(59)
        assert machine.deliveries.times == []
        await machine.wait(2)
        assert "2027-03-28T01:00:30.000Z" == format_instant(target)
        machine.assert_delivered_once(target)

    run(scenario, BEFORE_SUMMER_TIME)


def test_a_wall_time_after_the_change_is_reached_half_a_minute_later() -> None:
    """03:00 in Berlin is the first moment of summer time."""

    async def scenario(machine: Machine) -> None:
        at = {"date": "2027-03-28", "time": "03:00:00", "time_zone": "Europe/Berlin"}
        target = await machine.remind(at=at)
        assert "2027-03-28T01:00:00.000Z" == format_instant(target)
        await machine.wait(29)
        assert machine.deliveries.times == []
        await machine.wait(2)
        machine.assert_delivered_once(target)

    run(scenario, BEFORE_SUMMER_TIME)
