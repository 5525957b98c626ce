"""Exactly one admission: what a restart owes, and what it must not repeat (decision 12)."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_core import ScheduleId
from schedule_core.signals import Fault
from tests.adapters.live_world import settle
from tests.adapters.turn_world import (
    ScriptedDriver,
    TurnWorld,
    gate,
    lasting,
    log_of,
    reminder,
    talk,
    until,
)

Scenario = Callable[[MemoryStore, VirtualClock], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    """Run one scenario with an empty store."""

    async def main(clock: VirtualClock) -> None:
        await scenario(MemoryStore(clock=clock), clock)

    run_virtual(main)


async def write(store: MemoryStore, *events: tuple[str, object], session_id: str = "main") -> None:
    """Make these events durable."""
    session = await store.open(session_id)
    for event_type, data in events:
        session.append(event_type, data)
    await session.barrier()
    await session.close()


def queued(schedule_id: str | None = None, text: str = "framed") -> tuple[str, object]:
    """One message in the inbox, of the user if it names no reminder."""
    if schedule_id is None:
        return "input/queued", {"source": "user", "text": text}
    return "input/queued", {"source": "reminder", "text": text, "scheduleId": schedule_id}


def started(seq: int) -> tuple[str, object]:
    """The start of a turn."""
    return "turn/started", {"input": seq}


def ended(seq: int) -> tuple[str, object]:
    """The end of a turn."""
    return "turn/ended", {"input": seq, "outcome": "completed"}


def created(schedule_id: str) -> tuple[str, object]:
    """A reminder of a time long past."""
    record = {
        "id": schedule_id,
        "kind": "at",
        "prompt": "tea",
        "scheduledAt": "2026-01-01T00:00:00.000Z",
    }
    return "schedule/change", {"version": 1, "operation": "create", "schedule": record}


class TestOneBarrier:
    def test_one_barrier_covers_the_message_and_its_dispatch(self) -> None:
        """Given a due reminder, then both become durable in one batch, the message first."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            batches: list[list[str]] = []
            keep = store.keep

            def kept(header: Any, events: Any) -> None:
                before = len(store._sessions["main"].events) if "main" in store._sessions else 0
                batches.append([event.type for event in events[before:]])
                keep(header, events)

            await write(store, created("schedule-1"))
            store.keep = kept  # type: ignore[method-assign]
            async with talk(store, clock):
                await settle()
            assert batches[0][:3] == ["log/checkpoint", "input/queued", "schedule/change"]

        run(scenario)

    def test_the_model_sees_a_reminder_only_once_its_dispatch_is_durable(self) -> None:
        """Its turn's own barrier covers the message, the dispatch and the start."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            durable: list[list[str]] = []

            async def look(*_: object) -> None:
                durable.append(log_of(store))

            await write(store, created("schedule-1"))
            driver = ScriptedDriver({"schedule-1": look})
            async with talk(store, clock, driver=driver):
                await settle()
            assert [line.split()[0] for line in durable[0]] == [
                "create",
                "queued",
                "dispatch",
                "started",
            ]

        run(scenario)


class TestResume:
    def test_a_message_queued_without_its_dispatch_is_completed_not_repeated(self) -> None:
        """Given a crash between the two, then one dispatch, one turn, no second message."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, created("schedule-1"), queued("schedule-1"))
            async with talk(store, clock) as world:
                await settle()
                assert world.driver.heard == ["schedule-1"]
            assert log_of(store) == [
                "create schedule-1",
                "queued schedule-1",
                "started 2",
                "completed 2",
                "dispatch schedule-1",
            ]
            async with talk(store, clock) as world:
                await settle()
                assert world.driver.heard == []

        run(scenario)

    def test_a_message_whose_turn_began_without_its_dispatch_is_not_repeated(self) -> None:
        """Given such a log of whatever making, then the dispatch alone is added."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, created("schedule-1"), queued("schedule-1"), started(2), ended(2))
            async with talk(store, clock) as world:
                await settle()
                assert world.driver.heard == []
                assert await world.listed() == []
            assert log_of(store)[-1] == "dispatch schedule-1"

        run(scenario)

    def test_a_reset_after_an_unrecorded_dispatch_completes_it(self) -> None:
        """Given a dispatch that could not be appended, then the message is not queued again."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, created("schedule-1"))
            async with talk(store, clock) as world:
                session = world.conversation.session
                append = session.append_change

                def fail(_: object) -> None:
                    session.append_change = append  # type: ignore[method-assign]
                    raise OSError("no space")

                session.append_change = fail  # type: ignore[method-assign,assignment]
                await settle()
                assert world.conversation.schedule.state.fault is Fault.DISPATCH_NOT_RECORDED
                world.conversation.schedule.reset()
                await settle()
                assert world.driver.heard == ["schedule-1"]
                assert await world.listed() == []

        run(scenario)

    def test_a_message_that_never_had_its_turn_has_it_once_after_the_restart(self) -> None:
        """Given queued and dispatched but not started, then admitted again, exactly once."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            dispatch = {"version": 1, "operation": "dispatch", "id": "schedule-1"}
            await write(
                store, created("schedule-1"), queued("schedule-1"), ("schedule/change", dispatch)
            )
            heard = []
            for _ in range(3):
                async with talk(store, clock) as world:
                    await settle()
                    heard.append(world.driver.heard)
            assert heard == [["schedule-1"], [], []]

        run(scenario)

    def test_a_message_that_was_never_durable_is_queued_anew(self) -> None:
        """Given a crash before the barrier, then it is as if it had not been queued."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock, store)
            world.runtime.followup(reminder())
            assert world.runtime.has_admitted(ScheduleId("schedule-1"))
            await world.crash()
            again = await TurnWorld.open(clock, store)
            assert not again.runtime.has_admitted(ScheduleId("schedule-1"))
            assert again.runtime.queued == ()
            await again.close()

        run(scenario)

    def test_a_turn_whose_start_is_durable_is_not_started_again(self) -> None:
        """Given a crash in the turn, then it is recorded as interrupted, once."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock, store)
            world.driver.steps["x"] = until(gate())
            world.runtime.start()
            message = world.runtime.prompt("x")
            await settle()
            assert world.driver.heard == ["x"]
            await world.crash()
            for _ in range(3):
                again = await TurnWorld.open(clock, store)
                again.runtime.start()
                again.runtime.start()
                await again.runtime.when_idle()
                assert again.driver.heard == []
                await again.close()
            assert log_of(store) == [
                "queued x",
                f"started {message.seq}",
                f"interrupted {message.seq}",
            ]

        run(scenario)

    def test_an_interruption_that_was_not_saved_is_recorded_at_the_next_opening(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, queued(text="x"), started(1))
            for _ in range(2):
                world = await TurnWorld.open(clock, store)
                world.runtime.start()
                assert world.log[-1] == "interrupted 1"
                await world.crash()
            assert log_of(store) == ["queued x", "started 1"]

        run(scenario)

    def test_a_turn_whose_start_was_not_durable_is_started_again(self) -> None:
        """Given a crash in the first barrier of a turn that the model never saw."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, queued(text="x"))
            world = await TurnWorld.open(clock, store)
            blocked = gate()

            async def never() -> None:
                await blocked

            world.session.barrier = never  # type: ignore[method-assign]
            world.runtime.start()
            await settle()
            assert world.driver.heard == []
            await world.crash()
            again = await TurnWorld.open(clock, store)
            again.runtime.start()
            await again.runtime.when_idle()
            assert again.driver.heard == ["x"]
            await again.close()

        run(scenario)

    def test_prompts_typed_ahead_survive_a_restart_in_order(self) -> None:
        """Given a long turn and two prompts behind it, then they have their turns later."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            driver = ScriptedDriver({"long": lasting(600)})
            async with talk(store, clock, driver=driver) as world:
                world.conversation.runtime.prompt("long")
                await settle()
                world.conversation.runtime.prompt("one", time_zone="Europe/Berlin")
                world.conversation.runtime.prompt("two")
            assert driver.heard == ["long"]
            async with talk(store, clock) as world:
                await settle()
                assert world.driver.heard == ["one", "two"]
                assert "Europe/Berlin" in (world.driver.turns[0].instructions or "")

        run(scenario)

    def test_owed_messages_go_before_new_ones(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, queued(text="owed"))
            world = await TurnWorld.open(clock, store)
            world.runtime.prompt("new")
            world.runtime.start()
            await world.runtime.when_idle()
            assert world.driver.heard == ["owed", "new"]
            await world.close()

        run(scenario)

    def test_a_message_whose_turn_ended_is_over_even_without_a_start(self) -> None:
        """The event catalog: whatever its outcome, its message is not queued again."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, queued(text="x"), ended(1))
            world = await TurnWorld.open(clock, store)
            assert world.runtime.queued == ()
            await world.close()

        run(scenario)

    @pytest.mark.parametrize(
        "event",
        [
            ("input/queued", None),
            ("input/queued", "x"),
            ("input/queued", {}),
            ("input/queued", {"source": "user"}),
            ("input/queued", {"source": "system", "text": "x"}),
            ("input/queued", {"source": "user", "text": 5}),
            ("input/queued", ["source", "text"]),
            ("turn/started", None),
            ("turn/started", {}),
            ("turn/started", {"input": "1"}),
            ("turn/started", {"input": [1]}),
            ("turn/ended", None),
        ],
    )
    def test_an_event_of_ours_without_its_members_says_nothing(
        self, event: tuple[str, object]
    ) -> None:
        """Field report 20: one bad row does not lose the session; these types are ignorable."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, queued(text="good"), event)
            world = await TurnWorld.open(clock, store)
            assert [message.text for message in world.runtime.queued] == ["good"]
            await world.close()

        run(scenario)

    def test_a_member_of_the_wrong_kind_counts_as_absent(self) -> None:
        """A zone or an id that is no text cannot be read, the message can."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            data = {"source": "user", "text": "x", "timeZone": 5, "scheduleId": {}}
            await write(store, ("input/queued", data))
            async with talk(store, clock) as world:
                await settle()
                assert world.driver.heard == ["x"]

        run(scenario)


class TestFork:
    def test_a_fork_owes_nothing_of_its_parents_inbox(self) -> None:
        """Nor does it take its parent's open turn for one of its own."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(
                store,
                queued(text="cut off"),
                queued(text="typed ahead"),
                queued("schedule-1"),
                started(1),
            )
            await store.fork("main", "child")
            child = await TurnWorld.open(clock, store, "child")
            before = child.session.length
            assert child.runtime.queued == ()
            assert not child.runtime.has_admitted(ScheduleId("schedule-1"))
            child.runtime.start()
            await child.runtime.when_idle()
            assert child.session.length == before
            await child.close()
            parent = await TurnWorld.open(clock, store)
            assert [message.text for message in parent.runtime.queued] == ["typed ahead", "framed"]
            await parent.close()

        run(scenario)

    def test_a_fork_may_admit_an_id_that_its_parent_admitted(self) -> None:
        """Given a message of the same id in the parent, then the fork's own is still queued."""

        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, created("schedule-1"), queued("schedule-1"))
            await store.fork("main", "child")
            await write(store, created("schedule-1"), session_id="child")
            async with talk(store, clock, "child") as world:
                await settle()
                assert world.driver.heard == ["schedule-1"]
                assert await world.listed() == []

        run(scenario)

    def test_a_fork_remembers_its_own_inbox(self) -> None:
        async def scenario(store: MemoryStore, clock: VirtualClock) -> None:
            await write(store, queued(text="the parent's"))
            await store.fork("main", "child")
            await write(store, queued(text="the child's"), session_id="child")
            child = await TurnWorld.open(clock, store, "child")
            assert [message.text for message in child.runtime.queued] == ["the child's"]
            await child.close()

        run(scenario)
