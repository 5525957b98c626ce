"""The session runtime: one inbox, one turn at a time, and the idle phase."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.turn_driver import SessionTool, TextDelta, TurnInput
from schedule_adapters.turns import AgentClosed, SessionOutput, SessionRuntime, TurnEnded
from schedule_core import AgentBusy
from tests.adapters.live_world import settle
from tests.adapters.turn_world import (
    Emit,
    ScriptedDriver,
    TurnWorld,
    failing,
    gate,
    lasting,
    reminder,
    run,
    until,
)

BOOM = RuntimeError("boom")


async def nothing() -> None:
    """Maintenance that has nothing to do."""


def raising() -> None:
    """A listener that fails."""
    raise BOOM


def tool(name: str) -> SessionTool:
    """A tool that answers with its arguments."""

    async def call(arguments: dict[str, object]) -> object:
        return arguments

    return SessionTool(name, "", {"type": "object"}, call)


class TestInbox:
    def test_prompts_have_their_turns_one_at_a_time_in_order(self) -> None:
        """Given three prompts at once, when each turn takes a second, then none overlap."""

        async def scenario(world: TurnWorld) -> None:
            for text in ("one", "two", "three"):
                world.driver.steps[text] = lasting(1)
                world.runtime.prompt(text)
            assert [queued.text for queued in world.runtime.queued] == ["two", "three"]
            await world.runtime.when_idle()
            assert world.told == [
                "started one",
                "completed one",
                "started two",
                "completed two",
                "started three",
                "completed three",
            ]
            assert asyncio.get_running_loop().time() == pytest.approx(3)

        run(scenario)

    def test_follow_ups_stand_in_one_line_with_prompts(self) -> None:
        """Given an open turn, when both kinds arrive, then arrival alone gives the order."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["open"] = lasting(1)
            world.runtime.prompt("open")
            world.runtime.prompt("a")
            world.runtime.followup(reminder("schedule-1"))
            world.runtime.prompt("b")
            world.runtime.followup(reminder("schedule-2"))
            await world.runtime.when_idle()
            assert world.driver.heard == ["open", "a", "schedule-1", "b", "schedule-2"]

        run(scenario)

    def test_each_message_is_in_the_log_before_its_turn(self) -> None:
        """Queued, started and ended are events; the last two name the first."""

        async def scenario(world: TurnWorld) -> None:
            queued = world.runtime.prompt("hello")
            await world.runtime.when_idle()
            assert world.log == [
                "queued hello",
                f"started {queued.seq}",
                f"completed {queued.seq}",
            ]
            assert world.store._sessions["main"].events == tuple(world.session.events_from(0))

        run(scenario)

    def test_a_reminder_reaches_the_model_as_what_it_is(self) -> None:
        """Design decision 18: its turn says where it came from, the text is untouched."""

        async def scenario(world: TurnWorld) -> None:
            world.runtime.followup(reminder())
            world.runtime.prompt("hello", time_zone="europe/berlin")
            await world.runtime.when_idle()
            turns = [(t.text, t.source, t.schedule_id) for t in world.driver.turns]
            assert turns == [
                ("framed schedule-1", "reminder", "schedule-1"),
                ("hello", "user", None),
            ]
            by_reminder, by_user = (t.instructions or "" for t in world.driver.turns)
            assert "client_time_zone: unknown" in by_reminder
            assert "client_time_zone: Europe/Berlin" in by_user

        run(scenario)

    def test_a_prompt_with_an_unknown_zone_queues_nothing(self) -> None:
        """Given a misspelt zone, then the caller hears of it and the log is untouched."""

        async def scenario(world: TurnWorld) -> None:
            with pytest.raises(ValueError, match="not a time zone"):
                world.runtime.prompt("hello", time_zone="Mars/Base")
            assert (world.log, world.runtime.queued) == ([], ())

        run(scenario)

    def test_a_message_that_cannot_be_logged_is_not_queued(self) -> None:
        """Given a session whose log refuses it, then no turn comes of it."""

        async def scenario(world: TurnWorld) -> None:
            await world.session.close()
            with pytest.raises(StoreError):
                world.runtime.followup(reminder())
            assert not world.runtime.has_admitted(reminder().schedule_id)
            assert world.runtime.queued == ()
            await settle()
            assert world.driver.turns == []

        run(scenario)

    def test_nothing_starts_before_the_runtime_does(self) -> None:
        """Given prompts before `start`, then they wait, and the agent is not idle."""

        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            world.runtime.prompt("early")
            await settle()
            assert (world.driver.heard, world.runtime.phase) == ([], "idle")
            with pytest.raises(AgentBusy):
                world.runtime.run_maintenance(nothing)
            world.runtime.start()
            await world.runtime.when_idle()
            assert world.driver.heard == ["early"]
            await world.close()

        run_virtual(main)

    def test_a_failed_turn_does_not_stop_the_next(self) -> None:
        """The failure is told and recorded; the next message has its turn."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["bad"] = failing(BOOM)
            bad = world.runtime.prompt("bad")
            good = world.runtime.prompt("good")
            await world.runtime.when_idle()
            ends = [output for output in world.outputs if isinstance(output, TurnEnded)]
            assert ends == [TurnEnded(bad, "failed", BOOM), TurnEnded(good, "completed")]
            assert f"failed {bad.seq}" in world.log

        run(scenario)

    def test_what_a_turn_puts_out_is_heard_between_its_start_and_its_end(self) -> None:
        """Given a streaming turn, then its pieces arrive in order."""

        async def stream(_: Sequence[SessionTool], emit: Emit) -> None:
            emit(TextDelta("a"))
            await asyncio.sleep(1)
            emit(TextDelta("b"))

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = stream
            world.runtime.prompt("x")
            await world.runtime.when_idle()
            assert world.told == [
                "started x",
                str(TextDelta("a")),
                str(TextDelta("b")),
                world.told[-1],
            ]
            assert world.told[-1] == "completed x"

        run(scenario)


class TestPhases:
    def test_the_phase_says_what_owns_the_agent(self) -> None:
        """Idle, turn, idle, maintenance, idle; synchronously with what causes it."""

        async def scenario(world: TurnWorld) -> None:
            phases = [world.runtime.phase]
            world.driver.steps["x"] = lasting(1)
            world.runtime.prompt("x")
            phases.append(world.runtime.phase)
            await world.runtime.when_idle()
            phases.append(world.runtime.phase)
            maintenance = world.runtime.run_maintenance(nothing)
            phases.append(world.runtime.phase)
            await maintenance
            phases.append(world.runtime.phase)
            assert phases == ["idle", "turn", "idle", "maintenance", "idle"]

        run(scenario)

    def test_an_idle_agent_is_claimed_at_the_call_itself(self) -> None:
        """Before the task has run a step, a second claimant is refused and input waits."""

        async def scenario(world: TurnWorld) -> None:
            ran: list[str] = []

            async def task() -> None:
                ran.append("task")

            claimed = world.runtime.run_maintenance(task)
            assert ran == []
            with pytest.raises(AgentBusy):
                world.runtime.run_maintenance(nothing)
            world.runtime.prompt("x")
            await claimed
            assert ran == ["task"]
            await world.runtime.when_idle()
            assert world.driver.heard == ["x"]

        run(scenario)

    def test_a_turn_refuses_maintenance_at_the_call(self) -> None:
        """From the prompt on, not from the first step of the turn on; to its last barrier."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = lasting(1)
            world.runtime.prompt("x")
            with pytest.raises(AgentBusy):
                world.runtime.run_maintenance(nothing)
            await asyncio.sleep(0.5)
            with pytest.raises(AgentBusy):
                world.runtime.run_maintenance(nothing)
            await asyncio.sleep(1)
            await world.runtime.run_maintenance(nothing)

        run(scenario)

    def test_messages_that_wait_refuse_maintenance(self) -> None:
        """A non-empty inbox is busy even where no turn runs: here, before the start."""

        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            await world.runtime.run_maintenance(nothing)
            world.runtime.followup(reminder())
            assert world.runtime.phase == "idle"
            with pytest.raises(AgentBusy):
                world.runtime.run_maintenance(nothing)
            await world.close()

        run_virtual(main)

    def test_a_closed_agent_refuses_by_its_own_name(self) -> None:
        """Closed is not busy: nobody should wait for it."""

        async def scenario(world: TurnWorld) -> None:
            await world.runtime.close()
            with pytest.raises(AgentClosed):
                world.runtime.run_maintenance(nothing)
            with pytest.raises(AgentClosed):
                world.runtime.prompt("x")
            with pytest.raises(AgentClosed):
                world.runtime.followup(reminder())
            with pytest.raises(AgentClosed):
                await world.runtime.when_idle()
            assert (world.runtime.is_live, world.log) == (False, [])

        run(scenario)

    def test_a_refused_task_never_runs(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            ran: list[str] = []

            async def task() -> None:
                ran.append("task")

            world.runtime.prompt("x")
            with pytest.raises(AgentBusy):
                world.runtime.run_maintenance(task)
            await world.runtime.when_idle()
            assert ran == []

        run(scenario)

    def test_the_phase_is_given_back_when_the_task_returns(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            await world.runtime.run_maintenance(lambda: asyncio.sleep(1))
            assert world.runtime.phase == "idle"

        run(scenario)

    def test_the_phase_is_given_back_when_the_task_raises(self) -> None:
        """What it raised is raised again for whoever awaits."""

        async def fail() -> None:
            raise BOOM

        async def scenario(world: TurnWorld) -> None:
            with pytest.raises(RuntimeError, match="boom"):
                await world.runtime.run_maintenance(fail)
            assert world.runtime.phase == "idle"

        run(scenario)

    def test_the_phase_is_given_back_when_the_call_itself_raises(self) -> None:
        """Given a task that is no coroutine function and raises before it awaits."""

        def fail() -> asyncio.Future[None]:
            raise BOOM

        async def scenario(world: TurnWorld) -> None:
            with pytest.raises(RuntimeError, match="boom"):
                await world.runtime.run_maintenance(fail)
            assert world.runtime.phase == "idle"

        run(scenario)

    @pytest.mark.parametrize("begun", [True, False])
    def test_the_phase_is_given_back_when_maintenance_is_cancelled(self, *, begun: bool) -> None:
        """Also when it is cancelled before its first step, where no `finally` would run."""

        async def scenario(world: TurnWorld) -> None:
            claimed = world.runtime.run_maintenance(lambda: asyncio.sleep(60))
            world.runtime.prompt("x")
            if begun:
                await settle()
            claimed.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claimed
            await world.runtime.when_idle()
            assert world.driver.heard == ["x"]

        run(scenario)

    def test_what_was_parked_in_maintenance_starts_after_it_in_order(self) -> None:
        """User input and follow-ups alike; nothing starts before the release."""

        async def scenario(world: TurnWorld) -> None:
            opened = gate()
            claimed = world.runtime.run_maintenance(lambda: asyncio.shield(opened))
            world.runtime.prompt("a")
            world.runtime.followup(reminder())
            world.runtime.prompt("b")
            await settle()
            assert (world.driver.heard, world.runtime.phase) == ([], "maintenance")
            opened.set_result(None)
            await claimed
            await world.runtime.when_idle()
            assert world.driver.heard == ["a", "schedule-1", "b"]

        run(scenario)

    def test_a_follow_up_queued_inside_maintenance_has_its_turn_after_it(self) -> None:
        """The walk of one reminder: claim, queue, release, turn."""

        async def scenario(world: TurnWorld) -> None:
            async def deliver() -> None:
                world.runtime.followup(reminder())
                assert world.runtime.phase == "maintenance"

            await world.runtime.run_maintenance(deliver)
            assert world.runtime.phase == "turn"
            await world.runtime.when_idle()
            assert world.log[0] == "queued schedule-1"
            assert world.driver.heard == ["schedule-1"]

        run(scenario)


class TestIdle:
    def test_waiting_for_idle_ends_at_once_when_it_is(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            await world.runtime.when_idle()
            assert asyncio.get_running_loop().time() == 0

        run(scenario)

    def test_waiting_for_idle_lasts_until_the_inbox_is_empty(self) -> None:
        """Given two messages, then the end of the first turn is not idle."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps |= {"a": lasting(1), "b": lasting(2)}
            world.runtime.prompt("a")
            world.runtime.prompt("b")
            await world.runtime.when_idle()
            assert asyncio.get_running_loop().time() == pytest.approx(3)

        run(scenario)

    def test_waiting_for_idle_reserves_nothing(self) -> None:
        """Given two who wait, then one of them claims and the other is told it is busy."""

        async def scenario(world: TurnWorld) -> None:
            seen: list[str] = []

            async def claimant(name: str) -> None:
                while True:
                    await world.runtime.when_idle()
                    try:
                        claimed = world.runtime.run_maintenance(lambda: asyncio.sleep(1))
                    except AgentBusy:
                        seen.append(f"{name} busy")
                        continue
                    seen.append(f"{name} claimed")
                    return await claimed

            world.driver.steps["x"] = lasting(1)
            world.runtime.prompt("x")
            await asyncio.gather(claimant("a"), claimant("b"))
            assert seen == ["a claimed", "b claimed"]
            assert asyncio.get_running_loop().time() == pytest.approx(3)

        run(scenario)

    def test_input_that_arrives_between_wake_and_claim_goes_first(self) -> None:
        """Given an idle listener that prompts, then a waiter waits for that turn too."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps |= {"a": lasting(1), "b": lasting(1)}

            def prompt_once() -> None:
                if world.driver.heard == ["a"]:
                    world.runtime.prompt("b")

            world.runtime.on_idle(prompt_once)
            world.runtime.prompt("a")
            await world.runtime.when_idle()
            assert world.driver.heard == ["a", "b"]
            assert asyncio.get_running_loop().time() == pytest.approx(2)

        run(scenario)

    def test_a_waiter_that_gave_up_harms_no_other(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = lasting(1)
            world.runtime.prompt("x")
            first = asyncio.ensure_future(world.runtime.when_idle())
            second = asyncio.ensure_future(world.runtime.when_idle())
            await settle()
            first.cancel()
            await second
            assert first.cancelled()

        run(scenario)

    def test_whoever_waits_for_idle_hears_of_the_close(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = lasting(60)
            world.runtime.prompt("x")
            waiting = asyncio.ensure_future(world.runtime.when_idle())
            await settle()
            await world.runtime.close()
            with pytest.raises(AgentClosed):
                await waiting

        run(scenario)

    def test_idle_is_told_only_after_a_turn_that_leaves_nothing_waiting(self) -> None:
        """Not between two turns, not after maintenance, not once unsubscribed."""

        async def scenario(world: TurnWorld) -> None:
            idle: list[int] = []
            unsubscribe = world.runtime.on_idle(lambda: idle.append(len(world.driver.turns)))
            world.runtime.prompt("a")
            world.runtime.prompt("b")
            await world.runtime.when_idle()
            assert idle == [2]
            await world.runtime.run_maintenance(nothing)
            assert idle == [2]
            world.runtime.prompt("c")
            await world.runtime.when_idle()
            unsubscribe()
            unsubscribe()
            world.runtime.prompt("d")
            await world.runtime.when_idle()
            assert idle == [2, 3]

        run(scenario)

    def test_idle_is_told_after_a_turn_that_failed_or_was_cancelled(self) -> None:
        """The owner of the reminders must not miss it."""

        async def scenario(world: TurnWorld) -> None:
            idle: list[str] = []
            world.runtime.on_idle(lambda: idle.append(world.told[-1]))
            world.driver.steps |= {"bad": failing(BOOM), "long": lasting(60)}
            world.runtime.prompt("bad")
            await world.runtime.when_idle()
            world.runtime.prompt("long")
            await settle()
            assert world.runtime.cancel_turn()
            await world.runtime.when_idle()
            assert idle == ["failed bad", "cancelled long"]

        run(scenario)


class TestCancel:
    def test_cancelling_ends_that_turn_only(self) -> None:
        """The next message has its turn, and the conversation goes on."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["long"] = lasting(60)
            long = world.runtime.prompt("long")
            world.runtime.prompt("next")
            await asyncio.sleep(1)
            assert world.runtime.cancel_turn()
            await world.runtime.when_idle()
            assert asyncio.get_running_loop().time() == pytest.approx(1)
            assert world.told == [
                "started long",
                "cancelled long",
                "started next",
                "completed next",
            ]
            assert f"cancelled {long.seq}" in world.log

        run(scenario)

    def test_there_is_nothing_to_cancel_when_no_turn_is_open(self) -> None:
        """Idle, and in maintenance, which belongs to somebody else."""

        async def scenario(world: TurnWorld) -> None:
            assert not world.runtime.cancel_turn()
            claimed = world.runtime.run_maintenance(nothing)
            assert not world.runtime.cancel_turn()
            await claimed

        run(scenario)

    def test_a_turn_can_be_cancelled_while_its_first_barrier_runs(self) -> None:
        """The model never sees it; it is over, and is not admitted again."""

        async def scenario(world: TurnWorld) -> None:
            barriers = [gate(), gate()]
            barriers[1].set_result(None)
            slow_barriers(world, barriers)
            queued = world.runtime.prompt("x")
            await settle()
            assert world.runtime.cancel_turn()
            await world.runtime.when_idle()
            assert world.driver.heard == []
            assert world.log[1:] == [f"started {queued.seq}", f"cancelled {queued.seq}"]
            world.runtime.prompt("next")
            await world.runtime.when_idle()
            assert world.driver.heard == ["next"]

        run(scenario)

    def test_a_turn_can_be_cancelled_from_the_moment_the_phase_says_turn(self) -> None:
        """In the very step of the prompt, before the turn's task has run."""

        async def scenario(world: TurnWorld) -> None:
            queued = world.runtime.prompt("x")
            assert world.runtime.phase == "turn"
            assert world.runtime.cancel_turn()
            await world.runtime.when_idle()
            assert world.driver.heard == []
            assert world.told[-1] == "cancelled x"
            assert world.log[1:] == [f"started {queued.seq}", f"cancelled {queued.seq}"]

        run(scenario)

    def test_a_driver_that_swallows_the_cancellation_has_completed(self) -> None:
        """Whatever it did instead, it says that it is done."""

        async def stubborn(_: Sequence[SessionTool], __: Emit) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(1)

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = stubborn
            world.runtime.prompt("x")
            await settle()
            assert world.runtime.cancel_turn()
            await world.runtime.when_idle()
            assert world.told[-1] == "completed x"

        run(scenario)

    def test_a_cancelled_tool_call_leaves_the_agent_usable(self) -> None:
        """Given a turn cancelled inside a tool, then maintenance is free right after it."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = until(gate())
            world.runtime.prompt("x")
            await settle()
            world.runtime.cancel_turn()
            await world.runtime.when_idle()
            await world.runtime.run_maintenance(nothing)

        run(scenario)


def slow_barriers(world: TurnWorld, barriers: list[asyncio.Future[None]]) -> None:
    """Make the next barriers wait."""
    passing = world.session.barrier

    async def barrier() -> None:
        if barriers:
            await asyncio.shield(barriers.pop(0))
        await passing()

    world.session.barrier = barrier  # type: ignore[method-assign]


class TestBarriers:
    def test_a_barrier_that_fails_at_the_start_does_not_lose_the_turn(self) -> None:
        """A repeat is better than a loss; what is still not saved is told at the end."""

        async def scenario(world: TurnWorld) -> None:
            world.store.fail_barriers = lambda: True
            queued = world.runtime.prompt("x")
            await world.runtime.when_idle()
            assert world.driver.heard == ["x"]
            [end] = [output for output in world.outputs if isinstance(output, TurnEnded)]
            assert (end.input, end.outcome) == (queued, "completed")
            assert isinstance(end.error, StoreError)
            world.store.fail_barriers = lambda: False

        run(scenario)

    def test_a_barrier_that_failed_once_is_made_good_by_the_last_one(self) -> None:
        """Everything is saved in the end, so there is nothing to tell."""

        async def scenario(world: TurnWorld) -> None:
            results = [True]
            world.store.fail_barriers = lambda: bool(results and results.pop())
            queued = world.runtime.prompt("x")
            await world.runtime.when_idle()
            assert world.outputs[-1] == TurnEnded(queued, "completed")

        run(scenario)

    def test_a_session_that_was_taken_over_reaches_no_model(self) -> None:
        """The start of the turn never gets into the log, so the other owner owes the message."""

        async def scenario(world: TurnWorld) -> None:
            lost = StoreError(StoreErrorCode.SESSION_TAKEN_OVER, "another owner has it")

            async def barrier() -> None:
                raise lost

            passing = world.session.barrier
            world.session.barrier = barrier  # type: ignore[method-assign]
            queued = world.runtime.prompt("x")
            await world.runtime.when_idle()
            assert world.driver.heard == []
            assert world.outputs == [TurnEnded(queued, "failed", lost)]
            world.session.barrier = passing  # type: ignore[method-assign]

        run(scenario)

    def test_the_model_sees_nothing_before_the_start_is_durable(self) -> None:
        """Otherwise a crash would admit the message a second time."""

        async def scenario(world: TurnWorld) -> None:
            barriers = [gate()]
            slow_barriers(world, list(barriers))
            world.runtime.prompt("x")
            await settle()
            assert (world.driver.heard, world.told) == ([], [])
            barriers[0].set_result(None)
            await settle()
            assert world.driver.heard == ["x"]

        run(scenario)

    def test_the_agent_is_busy_until_the_end_of_the_turn_is_saved(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            first, last = gate(), gate()
            first.set_result(None)
            slow_barriers(world, [first, last])
            world.runtime.prompt("x")
            await settle()
            assert world.driver.heard == ["x"]
            assert world.runtime.phase == "turn"
            assert not world.runtime.cancel_turn()
            last.set_result(None)
            await world.runtime.when_idle()
            assert world.told[-1] == "completed x"

        run(scenario)


class TestClose:
    def test_closing_cancels_the_open_turn_and_starts_nothing_more(self) -> None:
        """What waits stays in the log, for the next opening."""

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["long"] = lasting(60)
            world.runtime.prompt("long")
            world.runtime.prompt("next")
            await asyncio.sleep(1)
            await world.runtime.close()
            assert asyncio.get_running_loop().time() == pytest.approx(1)
            assert world.told == ["started long", "cancelled long"]
            assert world.driver.heard == ["long"]
            assert world.driver.closed == 1
            assert [queued.text for queued in world.runtime.queued] == ["next"]

        run(scenario)

    def test_closing_before_the_model_got_a_message_postpones_its_turn(self) -> None:
        """It is owed to the next opening, before what came after it; a reminder is not lost."""

        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            world.runtime.start()
            barriers = [gate()]
            slow_barriers(world, list(barriers))
            world.runtime.followup(reminder())
            world.runtime.prompt("later")
            await settle()
            closing = asyncio.ensure_future(world.runtime.close())
            await settle()
            barriers[0].set_result(None)
            await closing
            assert world.driver.heard == []
            assert world.told == ["postponed schedule-1"]
            await world.close()
            again = await TurnWorld.open(clock, world.store)
            again.runtime.start()
            await again.runtime.when_idle()
            assert again.driver.heard == ["schedule-1", "later"]
            assert again.runtime.has_admitted(reminder().schedule_id)
            await again.close()

        run_virtual(main)

    def test_closing_right_after_a_prompt_leaves_it_for_the_next_opening(self) -> None:
        """Given a turn whose task has not run yet, then it is still owed, not started."""

        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            world.runtime.start()
            world.runtime.prompt("x")
            await world.close()
            assert (world.driver.heard, world.told) == ([], [])
            assert world.log == ["queued x"]
            again = await TurnWorld.open(clock, world.store)
            again.runtime.start()
            await again.runtime.when_idle()
            assert again.driver.heard == ["x"]
            await again.close()

        run_virtual(main)

    def test_closing_is_quiet(self) -> None:
        """No turn: nothing is written, nothing is told, and no time passes."""

        async def scenario(world: TurnWorld) -> None:
            idle: list[str] = []
            world.runtime.on_idle(lambda: idle.append("idle"))
            await world.runtime.close()
            assert (world.log, world.told, idle) == ([], [], [])

        run(scenario)

    def test_closing_twice_is_closing_once(self) -> None:
        """The second waits for the first: both mean that it is over."""

        async def scenario(world: TurnWorld) -> None:
            closings: list[str] = []
            world.runtime.on_close(lambda: closings.append("close"))

            async def slow(_: Sequence[SessionTool], __: Emit) -> None:
                try:
                    await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(2)

            world.driver.steps["x"] = slow
            world.runtime.prompt("x")
            await settle()
            first = asyncio.ensure_future(world.runtime.close())
            await settle()
            await world.runtime.close()
            assert asyncio.get_running_loop().time() == pytest.approx(2)
            await first
            assert (closings, world.driver.closed) == (["close"], 1)

        run(scenario)

    def test_closing_is_bounded_when_a_turn_cannot_be_cancelled(self) -> None:
        """Given a driver that will not stop, then it is left behind after the timeout."""
        stop = asyncio.Event()

        async def stubborn(_: Sequence[SessionTool], __: Emit) -> None:
            while not stop.is_set():
                try:
                    await stop.wait()
                except asyncio.CancelledError:
                    continue

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = stubborn
            world.runtime.prompt("x")
            await settle()
            await world.runtime.close(timeout_s=3)
            assert asyncio.get_running_loop().time() == pytest.approx(3)
            assert world.driver.closed == 1
            stop.set()
            await settle()

        run(scenario)

    def test_a_cancelled_close_closes_all_the_same(self) -> None:
        """Given an impatient person, then the driver is still given back."""

        async def slow(_: Sequence[SessionTool], __: Emit) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(2)

        async def scenario(world: TurnWorld) -> None:
            world.driver.steps["x"] = slow
            world.runtime.prompt("x")
            await settle()
            closing = asyncio.ensure_future(world.runtime.close())
            await settle()
            closing.cancel()
            await settle()
            assert closing.cancelled()
            await world.runtime.close()
            assert world.driver.closed == 1

        run(scenario)

    def test_closing_awaits_maintenance_and_does_not_cancel_it_early(self) -> None:
        """It belongs to the owner of the reminders, who must end what was begun."""

        async def scenario(world: TurnWorld) -> None:
            claimed = world.runtime.run_maintenance(lambda: asyncio.sleep(1))
            await settle()
            await world.runtime.close()
            assert claimed.done()
            assert not claimed.cancelled()

        run(scenario)

    def test_input_parked_in_maintenance_stays_owed_when_the_agent_closes(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            world.runtime.run_maintenance(lambda: asyncio.sleep(1))
            world.runtime.followup(reminder())
            await world.runtime.close()
            assert world.driver.heard == []
            assert world.log == ["queued schedule-1"]

        run(scenario)


class TestListeners:
    @pytest.mark.parametrize("position", ["before", "after"])
    def test_a_failing_listener_of_outputs_harms_nobody(self, position: str) -> None:
        """Neither the turn nor another listener."""

        async def main(clock: VirtualClock) -> None:
            world = await TurnWorld.open(clock)
            heard: list[SessionOutput] = []

            def fail(_: SessionOutput) -> None:
                raise BOOM

            listeners: list[Callable[[SessionOutput], None]] = [fail, heard.append]
            for listener in listeners if position == "before" else reversed(listeners):
                world.runtime.subscribe(listener)
            world.runtime.start()
            world.runtime.prompt("x")
            await world.runtime.when_idle()
            assert heard == world.outputs
            assert world.told == ["started x", "completed x"]
            await world.close()

        run_virtual(main)

    def test_a_failing_idle_listener_harms_nobody(self) -> None:
        """Given one that raises, then the others are called and the loop goes on."""

        async def scenario(world: TurnWorld) -> None:
            idle: list[str] = []
            world.runtime.on_idle(raising)
            world.runtime.on_idle(lambda: idle.append("idle"))
            for text in ("a", "b"):
                world.runtime.prompt(text)
                await world.runtime.when_idle()
            await settle()
            assert idle == ["idle", "idle"]

        run(scenario)

    def test_a_failing_close_listener_harms_nobody(self) -> None:
        """Given one that raises, then the turn is cancelled and all is closed."""

        async def scenario(world: TurnWorld) -> None:
            closed: list[str] = []
            world.runtime.on_close(raising)
            world.runtime.on_close(lambda: closed.append("closed"))
            world.driver.steps["x"] = lasting(60)
            world.runtime.prompt("x")
            await settle()
            await world.runtime.close()
            assert (closed, world.driver.closed) == (["closed"], 1)
            assert world.told[-1] == "cancelled x"

        run(scenario)

    def test_a_listener_may_prompt_from_inside_the_end_of_a_turn(self) -> None:
        """The message is next in line; there was no idle moment in between."""

        async def scenario(world: TurnWorld) -> None:
            idle: list[str] = []

            def again(output: SessionOutput) -> None:
                if isinstance(output, TurnEnded) and output.input.text == "a":
                    world.runtime.prompt("b")

            world.runtime.subscribe(again)
            world.runtime.on_idle(lambda: idle.append(world.told[-1]))
            world.runtime.prompt("a")
            await world.runtime.when_idle()
            assert idle == ["completed b"]

        run(scenario)

    def test_whoever_unsubscribed_hears_nothing_more(self) -> None:
        async def scenario(world: TurnWorld) -> None:
            heard: list[SessionOutput] = []
            unsubscribe = world.runtime.subscribe(heard.append)
            unsubscribe()
            unsubscribe()
            world.runtime.prompt("x")
            await world.runtime.when_idle()
            assert heard == []

        run(scenario)


class TestTools:
    def test_each_turn_gets_the_tools_registered_when_it_begins(self) -> None:
        """Registered tools are offered to later turns, removed ones no more."""

        async def scenario(world: TurnWorld) -> None:
            remove = world.runtime.register_tool(tool("first"))
            world.runtime.register_tool(tool("second"))
            world.runtime.prompt("a")
            await world.runtime.when_idle()
            remove()
            world.runtime.prompt("b")
            await world.runtime.when_idle()
            assert world.driver.offered == [("first", "second"), ("second",)]

        run(scenario)

    def test_a_second_tool_of_a_name_is_refused(self) -> None:
        """The first stays; once it is removed the name is free, and stays its new owner's."""

        async def scenario(world: TurnWorld) -> None:
            remove = world.runtime.register_tool(tool("t"))
            with pytest.raises(ValueError, match="there is a tool t already"):
                world.runtime.register_tool(tool("t"))
            remove()
            second = tool("t")
            world.runtime.register_tool(second)
            remove()
            assert world.runtime._tools == {"t": second}

        run(scenario)


class TestRoots:
    @pytest.mark.parametrize("is_root", [True, False])
    def test_an_agent_says_whether_it_is_a_root(self, *, is_root: bool) -> None:
        async def main(clock: VirtualClock) -> None:
            session = await MemoryStore(clock=clock).open("main")
            runtime = SessionRuntime(session, ScriptedDriver(), clock=clock, is_root=is_root)
            assert (runtime.is_root, runtime.is_live) == (is_root, True)
            await runtime.close()

        run_virtual(main)


def test_the_time_told_to_the_model_is_that_of_its_turn() -> None:
    """Not that of the prompt, which may have waited in line."""

    async def scenario(world: TurnWorld) -> None:
        world.driver.steps["a"] = lasting(90)
        world.runtime.prompt("a")
        world.runtime.prompt("b")
        await world.runtime.when_idle()

        def time_line(turn: TurnInput) -> str:
            return (turn.instructions or "").splitlines()[-1]

        assert [time_line(turn) for turn in world.driver.turns] == [
            "current_time_utc: 2026-11-30T00:00:00.000Z",
            "current_time_utc: 2026-11-30T00:01:30.000Z",
        ]

    run(scenario)


def test_what_a_failing_listener_says_stays_out_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It hears every prompt and answer, and its error may repeat them."""

    def listener(output: SessionOutput) -> None:
        raise ValueError(output)

    async def scenario(world: TurnWorld) -> None:
        world.runtime.subscribe(listener)
        world.runtime.prompt("secret")
        await world.runtime.when_idle()

    run(scenario)
    assert "a listener of the session failed: ValueError" in caplog.text
    assert "secret" not in caplog.text
