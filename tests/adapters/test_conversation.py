"""A session put together: its whole life, over restarts and forks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NoReturn

import pytest

from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.service import ScheduleService
from schedule_adapters.sessions import Session, StoreError, StoreErrorCode
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.timers import WallTimers
from schedule_adapters.turns import SessionRuntime
from schedule_core import fold_log, normalizer, zones
from schedule_core.signals import Admitted
from tests.adapters.live_world import settle
from tests.adapters.turn_world import ScriptedDriver, calling, lasting, log_of, talk

Scenario = Callable[[MemoryStore, VirtualClock], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    """Run one scenario with an empty store."""

    async def main(clock: VirtualClock) -> None:
        await scenario(MemoryStore(clock=clock), clock)

    run_virtual(main)


class TestLife:
    def test_a_reminder_comes_back_as_a_later_turn_of_the_same_conversation(self) -> None:
        """The walk of one reminder, with every event it leaves in the log."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            answers: list[object] = []
            driver = ScriptedDriver(
                {"remind me": calling("schedule_create", answers, prompt="tea", after_seconds=20)}
            )
            async with talk(store, clock, driver=driver) as world:
                world.conversation.runtime.prompt("remind me")
                await asyncio.sleep(19)
                assert driver.heard == ["remind me"]
                await asyncio.sleep(2)
                assert driver.heard == ["remind me", "schedule-1"]
                assert '"tea"' in driver.turns[1].text
                assert [type(fact) for fact in world.facts] == [Admitted]
            events = [line.split()[0] for line in log_of(store)]
            assert events == [
                *("queued", "started", "create", "completed"),
                *("queued", "dispatch", "started", "completed"),
            ]

        run(scenario)

    def test_a_reminder_due_in_a_turn_waits_for_its_end(self) -> None:
        """Field report 35: nothing interrupts, nothing is lost; several come one per turn."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            driver = ScriptedDriver({"long": lasting(600), "schedule-1": lasting(5)})
            async with talk(store, clock, driver=driver) as world:
                await world.call("schedule_create", prompt="a", after_seconds=10)
                await world.call("schedule_create", prompt="b", after_seconds=10)
                world.conversation.runtime.prompt("long")
                await asyncio.sleep(599)
                assert driver.heard == ["long"]
                assert await world.listed() == ["schedule-1", "schedule-2"]
                await asyncio.sleep(2)
                assert driver.heard == ["long", "schedule-1"]
                await asyncio.sleep(5)
                assert driver.heard == ["long", "schedule-1", "schedule-2"]

        run(scenario)

    def test_a_turn_that_fails_does_not_bring_its_reminder_back(self) -> None:
        """Field report 38: admitted is admitted; what the model makes of it is not promised."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async def fail(*_: object) -> None:
                raise RuntimeError("no model")

            async with talk(store, clock, driver=ScriptedDriver({"schedule-1": fail})) as world:
                await world.call("schedule_create", prompt="a", after_seconds=10)
                await asyncio.sleep(60)
                assert await world.listed() == []
            async with talk(store, clock) as world:
                await asyncio.sleep(60)
                assert world.driver.heard == []

        run(scenario)

    def test_the_tools_are_there_for_the_first_turn(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                world.conversation.runtime.prompt("x")
                await world.conversation.runtime.when_idle()
                assert world.driver.offered == [
                    ("schedule_create", "schedule_list", "schedule_delete")
                ]

        run(scenario)

    def test_a_reminder_due_before_the_start_waits_for_it(self) -> None:
        """Given a chat that is open but not begun, then its message is parked."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=10)
            await asyncio.sleep(60)
            driver = ScriptedDriver()
            async with open_conversation(store, "main", lambda _: driver, clock=clock) as opened:
                await settle()
                assert [queued.schedule_id for queued in opened.runtime.queued] == ["schedule-1"]
                assert driver.heard == []
                opened.runtime.start()
                await opened.runtime.when_idle()
                assert driver.heard == ["schedule-1"]

        run(scenario)

    def test_a_conversation_that_never_spoke_leaves_no_session(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock):
                await settle()
            assert await store.session_ids() == []

        run(scenario)


class Diary:
    """Writes down in which order the parts of a conversation are closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failing: str = "") -> None:
        self.lines: list[str] = []
        self._failing = failing
        self._watch(monkeypatch, SessionRuntime, "runtime")
        self._watch(monkeypatch, ScheduleService, "service")

    def _watch(self, monkeypatch: pytest.MonkeyPatch, part: type, name: str) -> None:
        close = part.close  # type: ignore[attr-defined]

        async def watched(this: object) -> None:
            self.lines.append(name)
            await close(this)
            self.fail_at(name)

        monkeypatch.setattr(part, "close", watched)

    def fail_at(self, name: str) -> None:
        if name == self._failing:
            raise RuntimeError(f"{name} failed")

    @asynccontextmanager
    async def conversation(
        self, store: MemoryStore, clock: VirtualClock, driver: ScriptedDriver | None = None
    ) -> AsyncIterator[None]:
        """Open a conversation whose session writes into the diary too."""

        def make_driver(session: Session) -> ScriptedDriver:
            barrier, close = session.barrier, session.close

            async def watched_barrier() -> None:
                self.lines.append("barrier")
                self.fail_at("barrier")
                await barrier()

            async def watched_close() -> None:
                self.lines.append("session")
                await close()

            session.barrier = watched_barrier  # type: ignore[method-assign]
            session.close = watched_close  # type: ignore[method-assign]
            return driver or ScriptedDriver()

        async with open_conversation(store, "main", make_driver, clock=clock) as opened:
            opened.runtime.start()
            await settle()
            self.lines.clear()
            yield


class TestClosing:
    def test_the_agent_closes_first_then_the_reminders_then_the_session(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And what can be saved is saved before the session is given up."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            diary = Diary(monkeypatch)
            async with diary.conversation(store, clock):
                pass
            assert diary.lines == ["runtime", "service", "barrier", "session"]

        run(scenario)

    @pytest.mark.parametrize("failing", ["runtime", "service"])
    def test_every_part_is_closed_even_if_an_earlier_one_fails(
        self, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        """The failure is passed on, and the session is free again."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            diary = Diary(monkeypatch, failing=failing)
            with pytest.raises(RuntimeError, match=f"{failing} failed"):
                async with diary.conversation(store, clock):
                    pass
            assert diary.lines == ["runtime", "service", "barrier", "session"]
            await (await store.open("main")).close()

        run(scenario)

    def test_a_last_barrier_that_fails_is_no_reason_to_complain(self) -> None:
        """It was told when it happened; the session is given up all the same."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=600)
                store.fail_barriers = lambda: True
                world.conversation.runtime.prompt("x")
                await world.conversation.runtime.when_idle()
            store.fail_barriers = lambda: False
            await (await store.open("main")).close()

        run(scenario)

    def test_a_failure_inside_the_conversation_is_passed_on(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            driver = ScriptedDriver()

            async def host() -> NoReturn:
                async with talk(store, clock, driver=driver) as world:
                    world.conversation.runtime.prompt("x")
                    await world.conversation.runtime.when_idle()
                    raise KeyError("the host")

            with pytest.raises(KeyError, match="the host"):
                await host()
            assert driver.closed == 1
            assert len(log_of(store)) == 3
            await (await store.open("main")).close()

        run(scenario)

    def test_closing_cancels_the_open_turn_and_records_that(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            driver = ScriptedDriver({"long": lasting(600)})
            async with talk(store, clock, driver=driver) as world:
                world.conversation.runtime.prompt("long")
                await asyncio.sleep(1)
            assert [line.split()[0] for line in log_of(store)] == [
                *("queued", "started", "cancelled")
            ]
            assert driver.closed == 1

        run(scenario)


class TestOpening:
    def test_a_driver_that_cannot_be_made_leaves_the_session_free(self) -> None:
        """Given a conversation that cannot be read, then the next attempt may open it."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            def make_driver(_: Session) -> NoReturn:
                raise ValueError("no such conversation")

            with pytest.raises(ValueError, match="no such conversation"):
                async with open_conversation(store, "main", make_driver, clock=clock):
                    pass
            await (await store.open("main")).close()

        run(scenario)

    def test_a_composition_that_fails_gives_the_driver_back_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given a service that refuses, then driver and session are closed."""

        def refuse(*_: object, **__: object) -> NoReturn:
            raise ValueError("there is such a tool already")

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            monkeypatch.setattr(ScheduleService, "serve", refuse)
            driver = ScriptedDriver()
            with pytest.raises(ValueError, match="there is such a tool already"):
                async with open_conversation(store, "main", lambda _: driver, clock=clock):
                    pass
            assert driver.closed == 1
            await (await store.open("main")).close()

        run(scenario)

    def test_conversations_may_share_what_they_wait_with_and_end_one_by_one(self) -> None:
        """Each gets its own reminder at its time, also when another has gone before."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            timers = WallTimers(clock)
            drivers = {name: ScriptedDriver() for name in ("a", "b", "c")}
            async with AsyncExitStack() as staying:
                for name in drivers:
                    opened = open_conversation(
                        store, name, lambda session: drivers[session.header.id], timers=timers
                    )
                    leaving = AsyncExitStack()
                    conversation = await leaving.enter_async_context(opened)
                    conversation.runtime.start()
                    arguments = {"prompt": name, "after_seconds": 100}
                    await conversation.schedule.call_tool("schedule_create", arguments)
                    if name == "b":
                        await leaving.aclose()
                    else:
                        staying.push_async_callback(leaving.aclose)
                await asyncio.sleep(99)
                assert [[], [], []] == [driver.heard for driver in drivers.values()]
                await asyncio.sleep(2)
                assert [["schedule-1"], [], ["schedule-1"]] == [
                    driver.heard for driver in drivers.values()
                ]

        run(scenario)

    def test_timers_of_another_clock_leave_the_session_free(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            driver, timers = ScriptedDriver(), WallTimers(SystemClock())
            with pytest.raises(ValueError, match="another clock"):
                async with open_conversation(
                    store, "main", lambda _: driver, clock=clock, timers=timers
                ):
                    pass
            assert driver.closed == 1
            await (await store.open("main")).close()

        run(scenario)

    def test_a_session_has_one_live_conversation(self) -> None:
        """Design decision 13, field report 27: a second opener is refused with a code."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                with pytest.raises(StoreError) as refusal:
                    async with talk(store, clock):
                        pass
                assert refusal.value.code is StoreErrorCode.SESSION_LOCKED
                world.conversation.runtime.prompt("x")
                await world.conversation.runtime.when_idle()
                assert world.driver.heard == ["x"]

        run(scenario)

    def test_ten_openings_leave_one_owner(self) -> None:
        """Field report 8: reopening does not leave old timers running."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            drivers = [ScriptedDriver() for _ in range(10)]
            async with talk(store, clock, driver=drivers[0]) as world:
                await world.call("schedule_create", prompt="a", after_seconds=600)
            for driver in drivers[1:]:
                async with talk(store, clock, driver=driver):
                    await asyncio.sleep(1)
            async with talk(store, clock, driver=drivers[0]):
                await asyncio.sleep(1_200)
            assert [driver.heard for driver in drivers] == [["schedule-1"], *[[]] * 9]

        run(scenario)


class TestRestart:
    def test_a_reminder_that_fell_due_while_closed_comes_once(self) -> None:
        """F67, field reports 12, 25, 26: one message and one dispatch, then none."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=60)
            await asyncio.sleep(3_600)
            heard = []
            for _ in range(3):
                async with talk(store, clock) as world:
                    await asyncio.sleep(600)
                    heard.append(world.driver.heard)
            assert heard == [["schedule-1"], [], []]
            assert [line for line in log_of(store) if "schedule-1" in line] == [
                "create schedule-1",
                "queued schedule-1",
                "dispatch schedule-1",
            ]

        run(scenario)

    def test_reopening_arms_what_is_still_to_come(self) -> None:
        """Field report 25: no tool call is needed for that; and nothing is early."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=60)
                await asyncio.sleep(10)
            async with talk(store, clock) as world:
                await asyncio.sleep(49.5)
                assert world.driver.heard == []
                await asyncio.sleep(1)
                assert world.driver.heard == ["schedule-1"]

        run(scenario)

    def test_ids_are_not_used_again_after_a_restart(self) -> None:
        """Field report 33: neither of deleted nor of dispatched reminders."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=1)
                await world.call("schedule_create", prompt="b", after_seconds=600)
                await world.call("schedule_delete", id="schedule-2")
                await asyncio.sleep(2)
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="c", after_seconds=600)
                assert await world.listed() == ["schedule-3"]

        run(scenario)

    def test_a_log_is_replayed_without_zone_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """F69: given that no zone can be found any more, then the reminder comes all the same."""

        def unavailable(_: str) -> NoReturn:
            raise AssertionError("a replay must not ask for zones")

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            at = {"date": "2026-11-30", "time": "02:00:00", "time_zone": "Europe/Berlin"}
            async with talk(store, clock) as world:
                answer = await world.call("schedule_create", prompt="a", at=at)
                assert isinstance(answer, dict)
                assert answer["scheduledAt"] == "2026-11-30T01:00:00.000Z"
            for module in (zones, normalizer):
                monkeypatch.setattr(module, "find_zone", unavailable)
            async with talk(store, clock) as world:
                assert await world.listed() == ["schedule-1"]
                await asyncio.sleep(3_601)
                assert world.driver.heard == ["schedule-1"]

        run(scenario)

    def test_changing_a_raw_event_does_not_reach_what_was_read_from_it(self) -> None:
        """F70."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=600)
                for event in world.conversation.session.events_from(0):
                    if event.type == "schedule/change":
                        event.data["schedule"]["id"] = "forged"
                assert await world.listed() == ["schedule-1"]

        run(scenario)


class TestFork:
    def test_a_fork_neither_lists_nor_fires_nor_deletes_what_it_inherited(self) -> None:
        """F68: and the parent's reminder still comes, in the parent."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock, "parent") as world:
                await world.call("schedule_create", prompt="a", after_seconds=60)
            await store.fork("parent", "child")
            async with talk(store, clock, "child") as world:
                assert await world.listed() == []
                assert await world.call("schedule_delete", id="schedule-1") == {
                    "id": "schedule-1",
                    "deleted": False,
                    "code": "schedule_not_found",
                }
                await asyncio.sleep(600)
                assert world.driver.heard == []
            async with talk(store, clock, "parent") as world:
                await asyncio.sleep(1)
                assert world.driver.heard == ["schedule-1"]

        run(scenario)

    def test_a_fork_may_use_the_ids_of_its_parent_again(self) -> None:
        """F68: and an id that the parent delivered is delivered in the fork too."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock, "parent") as world:
                await world.call("schedule_create", prompt="parent's", after_seconds=1)
                await asyncio.sleep(2)
                assert world.driver.heard == ["schedule-1"]
            await store.fork("parent", "child")
            async with talk(store, clock, "child") as world:
                await world.call("schedule_create", prompt="child's", after_seconds=1)
                assert await world.listed() == ["schedule-1"]
                await asyncio.sleep(2)
                assert world.driver.heard == ["schedule-1"]
                assert "child's" in world.driver.turns[0].text

        run(scenario)

    @pytest.mark.parametrize("boundary", [-1, 10_000, 0.5, "3", True, None, float("nan")])
    def test_a_boundary_that_is_no_count_of_the_log_delivers_nothing(
        self, boundary: object
    ) -> None:
        """F68: corrupt, loudly: neither a reminder nor a queued message is anybody's."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            async with talk(store, clock) as world:
                await world.call("schedule_create", prompt="a", after_seconds=1)
            session = await store.open("main")
            session.append("input/queued", {"source": "user", "text": "typed ahead"})
            await session.barrier()
            await session.close()
            kept = store._sessions["main"]
            header = kept.header.__class__("main", 0, seed_length=boundary)
            store.keep(header, list(kept.events))
            async with talk(store, clock) as world:
                await asyncio.sleep(600)
                assert world.driver.heard == []
                assert world.conversation.schedule.state.activity == "faulted"

        run(scenario)

    def test_a_boundary_written_as_a_float_is_the_number_it_is(self) -> None:
        """Design decision 2: 30.0 is the integer 30, for the inbox as for the reminders."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            session = await store.open("parent")
            session.append("input/queued", {"source": "user", "text": "the parent's"})
            await session.barrier()
            await session.close()
            header = await store.fork("parent", "child")
            assert isinstance(header.seed_length, int)
            kept = store._sessions["child"]
            as_float = header.__class__(
                "child", 0, parent="parent", seed_length=float(header.seed_length)
            )
            store.keep(as_float, list(kept.events))
            async with talk(store, clock, "child") as world:
                await settle()
                assert world.driver.heard == []
                await world.call("schedule_create", prompt="a", after_seconds=1)
                assert await world.listed() == ["schedule-1"]

        run(scenario)


def test_the_log_of_a_busy_day_folds_without_complaint() -> None:
    """Creates, deletes, deliveries and restarts leave a valid log."""

    async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
        for day in range(5):
            async with talk(store, clock) as world:
                for number in range(6):
                    await world.call(
                        "schedule_create", prompt=f"{number}", after_seconds=60 * day + 1
                    )
                await world.call("schedule_delete", id=f"schedule-{6 * day + 1}")
                world.conversation.runtime.prompt(f"day {day}")
                await asyncio.sleep(90)
        async with talk(store, clock):
            await asyncio.sleep(600)
        snapshot = await store.read("main")
        schedules = fold_log(snapshot.events)
        assert len(schedules.seen) == 30
        assert schedules.active == ()

    run(scenario)
