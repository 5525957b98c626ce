"""The asyncio shell: what a host sees of the behaviours, on virtual time."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine

import pytest
from attrs import evolve

from schedule_adapters.live import LiveOptions
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.timers import SEGMENT_S
from schedule_core import OwnerState, ScheduleId
from schedule_core.signals import Admitted, Delayed, Fault, Faulted, Recovered, Setback
from tests.adapters.live_world import World, settle

Scenario = Callable[[World], Coroutine[None, None, None]]
BOOM = OSError("the disk is on fire: secret prompt text")


def run(scenario: Scenario, options: LiveOptions | None = None) -> None:
    """Run one scenario in a started world, and close it."""

    async def main(clock: VirtualClock) -> None:
        world = await World.make(clock, options)
        await world.start()
        await scenario(world)
        await world.live.close()

    run_virtual(main)


class TestDelivery:
    def test_a_reminder_comes_back_once_at_its_time_in_the_documented_order(self) -> None:
        """B31: barrier, claim, follow-up, dispatch, release, barrier."""

        async def scenario(world: World) -> None:
            await world.create("stretch", after_seconds=20)
            await settle()
            world.diary.clear()
            await asyncio.sleep(19.9)
            assert world.diary == []
            await asyncio.sleep(0.2)
            assert world.diary == [
                "barrier",
                "claim",
                "follow-up",
                "append dispatch",
                "release",
                "barrier",
                "barrier",
            ]
            assert [m.schedule_id for m in world.agent.messages] == ["schedule-1"]
            await asyncio.sleep(1_000)
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_starting_makes_one_barrier_even_for_a_session_without_reminders(self) -> None:
        """B7, B20."""

        async def main(clock: VirtualClock) -> None:
            world = await World.make(clock)
            world.live.start()
            await settle()
            assert world.log.barriers == 1
            await asyncio.sleep(365 * 86_400)
            assert world.log.barriers == 1
            await world.live.close()

        run_virtual(main)

    def test_a_far_target_is_waited_for_in_segments_without_any_barrier(self) -> None:
        """B22, W7, W8: thirty days, beyond every timer range."""

        async def scenario(world: World) -> None:
            await world.create("renew the passport", after_seconds=2_592_000)
            await settle()
            before = world.log.barriers
            await asyncio.sleep(2_592_000 - 1)
            assert world.log.barriers == before
            assert world.agent.messages == []
            await asyncio.sleep(2)
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_clock_set_back_delays_the_reminder_to_its_true_target(self) -> None:
        """B23."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=10)
            await settle()
            world.clock.step(-20_000)
            await asyncio.sleep(11)
            assert world.agent.messages == []
            await asyncio.sleep(20)
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_clock_set_forward_is_noticed_within_one_segment(self) -> None:
        """B24, W7: two hours of suspend while ten minutes were left."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=600)
            await settle()
            world.clock.step(7_200_000)
            await asyncio.sleep(SEGMENT_S + 0.1)
            assert len(world.agent.messages) == 1
            world.live.recompute()
            await settle()
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_clock_set_back_inside_the_claim_sends_nothing(self) -> None:
        """B30."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=10)
            await settle()
            world.diary.clear()
            world.agent.before_phase = lambda: world.clock.step(-5_000)
            await asyncio.sleep(10.1)
            assert world.diary == ["barrier", "claim", "release"]
            world.agent.before_phase = None
            await asyncio.sleep(5.1)
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_busy_agent_is_watched_once_and_the_tools_go_on_answering(self) -> None:
        """B26, B28."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.busy = True
            await asyncio.sleep(2)
            for _ in range(3):
                world.live.recompute()
                await settle()
            assert world.agent.idle_waits == 1
            assert world.live.state.activity == "watching"
            assert isinstance(await world.listed(), list)
            world.agent.become_idle()
            await settle()
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_an_agent_that_is_said_to_be_idle_and_refuses_is_not_asked_in_a_loop(self) -> None:
        """W2: one claim a second, not one a tick."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.busy = world.agent.claims_to_be_idle = True
            before = world.log.barriers
            await asyncio.sleep(60)
            assert (
                world.log.barriers - before <= 2 * 60 + 2
            )  # two barriers a round, one round a second

        run(scenario)

    def test_a_failing_idle_watch_is_reported_and_not_retried(self) -> None:
        """B28."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.busy, world.agent.idle_error = True, RuntimeError("no")
            await asyncio.sleep(500)
            assert world.facts == [Delayed(Setback.IDLE_WATCH_FAILED)]
            world.agent.idle_error = None
            world.agent.become_idle()
            await settle()
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_three_overdue_reminders_go_out_one_by_one(self) -> None:
        """B37: each with its own claim, message, dispatch and barrier."""

        async def scenario(world: World) -> None:
            for prompt in ("third", "first", "second"):
                await world.create(prompt, after_seconds={"third": 3}.get(prompt, 1))
            await settle()
            world.agent.busy = True
            await asyncio.sleep(5)
            world.diary.clear()
            before = world.log.barriers
            world.agent.become_idle()
            await settle()
            ids = [message.schedule_id for message in world.agent.messages]
            assert ids == ["schedule-2", "schedule-3", "schedule-1"]
            assert world.diary.count("claim") == 3
            assert world.log.barriers - before <= 3 * 2 + 2

        run(scenario)

    def test_due_work_waits_for_a_call_that_holds_the_queue(self) -> None:
        """B15."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            await settle()
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            world.log.barrier_results.append(gate)
            listing = asyncio.ensure_future(world.listed())
            await asyncio.sleep(5)
            assert world.agent.messages == []
            gate.set_result(None)
            await listing
            await settle()
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_change_to_idle_costs_a_barrier_only_if_the_log_holds_schedule_events(self) -> None:
        """B8: an inherited prefix counts."""

        async def scenario(world: World) -> None:
            world.log.add("user/message", {"text": "hi"})
            before = world.log.barriers
            world.agent.become_idle()
            await settle()
            assert world.log.barriers == before
            await world.create("x", after_seconds=100)
            await settle()
            before = world.log.barriers
            world.agent.become_idle()
            await settle()
            assert world.log.barriers == before + 1

        run(scenario)


class TestFailures:
    def test_one_failed_barrier_costs_no_future_reminder_its_timer(self) -> None:
        """W1: the first is late, the second comes at its time."""

        async def scenario(world: World) -> None:
            await world.create("first", after_seconds=10)
            await world.create("second", after_seconds=100)
            await settle()
            world.log.barrier_results.append(BOOM)
            await asyncio.sleep(11)
            assert world.agent.messages == []
            assert world.facts == [Delayed(Setback.BARRIER_FAILED)]
            await asyncio.sleep(90)
            assert [m.schedule_id for m in world.agent.messages] == ["schedule-1", "schedule-2"]

        run(scenario)

    def test_a_host_may_ask_for_another_try(self) -> None:
        """W9: opt-in; without it due work waits for activity."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=10)
            await settle()
            world.log.barrier_results += [BOOM, BOOM]
            await asyncio.sleep(11)
            assert world.agent.messages == []
            await asyncio.sleep(10)
            assert len(world.agent.messages) == 1

        run(scenario, LiveOptions(retry_s=5))

    def test_a_claim_that_fails_is_no_reason_to_wait_for_idle(self) -> None:
        """W2, decision 15."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.claim_error = RuntimeError("no such agent")
            await asyncio.sleep(100)
            assert world.agent.idle_waits == 0
            assert world.facts == [Delayed(Setback.CLAIM_FAILED)]

        run(scenario)

    def test_a_refused_followup_leaves_the_reminder_for_the_next_trigger(self) -> None:
        """B33."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.followup_error = RuntimeError("inbox full")
            await asyncio.sleep(100)
            assert world.log.operations() == ["create"]
            assert world.diary[-1] == "release"
            world.agent.followup_error = None
            world.live.recompute()
            await settle()
            assert world.log.operations() == ["create", "dispatch"]
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_dispatch_that_cannot_be_recorded_faults_and_is_not_repeated(self) -> None:
        """B34; after a reset the message is not queued again where the log shows it."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.log.append_errors.append(BOOM)
            await asyncio.sleep(2)
            for _ in range(10):
                world.live.recompute()
                await settle()
            assert len(world.agent.messages) == 1
            assert world.live.state == OwnerState("faulted", None, Fault.DISPATCH_NOT_RECORDED)
            world.agent.admitted.add(ScheduleId("schedule-1"))
            world.live.reset()
            await settle()
            assert len(world.agent.messages) == 1
            assert world.log.operations() == ["create", "dispatch"]

        run(scenario)

    def test_a_phase_that_breaks_after_the_claim_faults(self) -> None:
        """B35."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.phase_error = RuntimeError("torn down")
            await asyncio.sleep(2)
            assert world.live.state.fault is Fault.PHASE_BROKEN
            world.agent.phase_error = None
            world.live.recompute()
            await settle()
            assert world.agent.messages == []

        run(scenario)

    def test_an_unconfirmed_dispatch_is_not_repeated(self) -> None:
        """B36."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            await settle()
            world.agent.before_phase = lambda: world.log.barrier_results.append(BOOM)
            await asyncio.sleep(2)
            assert world.facts[-1] == Delayed(Setback.DISPATCH_UNCONFIRMED)
            world.agent.before_phase = None
            world.live.recompute()
            await settle()
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_corrupt_log_faults_and_a_repaired_one_recovers(self) -> None:
        """B38, W3: a call that reads a good log again ends the fault."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            await settle()
            good = list(world.log.events)
            world.log.add("schedule/change", {"version": 2})
            await asyncio.sleep(2)
            assert world.agent.messages == []
            assert world.live.state == OwnerState("faulted", None, Fault.CORRUPT_LOG, 1)
            assert world.facts == [Faulted(Fault.CORRUPT_LOG, 1)]
            answer = await world.listed()
            assert isinstance(answer, dict)
            assert answer["code"] == "corrupt_schedule_log"
            world.log.events = good
            assert isinstance(await world.listed(), list)
            await settle()
            assert Recovered() in world.facts
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_an_unreadable_log_faults_and_is_an_internal_error(self) -> None:
        """B38."""

        async def scenario(world: World) -> None:
            world.log.unreadable = True
            answer = await world.create("x", after_seconds=1)
            assert answer["code"] == "internal_error"
            await settle()
            assert world.live.state.fault is Fault.UNREADABLE_LOG

        run(scenario)

    def test_no_prompt_reaches_the_diagnostics(self, caplog: pytest.LogCaptureFixture) -> None:
        """Ids and numbers only, whatever a backend puts into its exceptions."""
        caplog.set_level(logging.DEBUG)

        async def scenario(world: World) -> None:
            await world.create("secret prompt text", after_seconds=1)
            await settle()
            world.log.barrier_results.append(BOOM)
            await asyncio.sleep(2)
            world.log.append_errors.append(BOOM)
            world.live.recompute()
            await settle()

        run(scenario)
        assert "OSError" in caplog.text
        assert "secret" not in caplog.text


class TestTools:
    def test_answers_carry_the_state_at_their_own_reading_of_the_clock(self) -> None:
        """B49: a slow second barrier and a delay of one second give "overdue"."""

        async def scenario(world: World) -> None:
            loop = asyncio.get_running_loop()
            slow = [loop.create_future(), loop.create_future()]
            slow[0].set_result(None)
            world.log.barrier_results += slow
            loop.call_later(3, slow[1].set_result, None)
            answer = await world.create("x", after_seconds=1)
            assert answer["state"] == "overdue"

        run(scenario)

    @pytest.mark.parametrize(
        ("selector", "code"),
        [
            ({"at": "soon"}, "invalid_rule"),
            ({"at": "2020-01-01T00:00:00Z"}, "not_future"),
            ({"after_seconds": 9_007_199_254_740_991}, "time_out_of_range"),
            (
                {"at": {"date": "2027-01-01", "time": "09:00:00", "time_zone": "Mars/X"}},
                "invalid_time_zone",
            ),
        ],
    )
    def test_what_depends_on_the_clock_is_judged_after_one_barrier(
        self, selector: dict[str, object], code: str
    ) -> None:
        """B48: one barrier for the call, one for the pass it asks for, no append."""

        async def scenario(world: World) -> None:
            before = world.log.barriers
            answer = await world.create("x", **selector)
            assert answer["code"] == code
            await settle()
            assert world.log.barriers == before + 2
            assert world.log.events == []

        run(scenario)

    def test_shape_errors_never_reach_the_queue(self) -> None:
        """B46."""

        async def scenario(world: World) -> None:
            before = world.log.barriers
            answer = await world.create("x", after_seconds=1, at="2030-01-01T00:00:00Z")
            assert answer["code"] == "invalid_selector"
            assert world.log.barriers == before

        run(scenario)

    def test_a_failed_preflight_is_uncertain_even_over_a_corrupt_log(self) -> None:
        """B52."""

        async def scenario(world: World) -> None:
            world.log.add("schedule/change", None)
            world.log.barrier_results += [BOOM, BOOM]
            assert await world.create("x", after_seconds=1) == {
                "code": "persistence_uncertain",
                "message": world_message(),
                "operation": "create",
            }
            assert await world.live.call_tool("schedule_delete", {"id": "a"}) == {
                "code": "persistence_uncertain",
                "message": world_message(),
                "operation": "delete",
                "id": "a",
            }

        run(scenario)

    def test_an_unconfirmed_create_is_armed_by_the_next_good_barrier(self) -> None:
        """B53: resolve, reject, then a list."""

        async def scenario(world: World) -> None:
            passing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            passing.set_result(None)
            world.log.barrier_results += [passing, BOOM, BOOM]
            answer = await world.create("x", after_seconds=10)
            assert (answer["code"], answer["id"]) == ("persistence_uncertain", "schedule-1")
            await settle()
            assert world.live.state.until is None
            listed = await world.listed()
            assert isinstance(listed, list)
            assert [row["id"] for row in listed] == ["schedule-1"]
            await asyncio.sleep(11)
            assert len(world.agent.messages) == 1

        run(scenario)

    def test_a_refused_append_is_an_internal_error_without_a_second_barrier(self) -> None:
        """B55."""

        async def scenario(world: World) -> None:
            world.log.append_errors.append(BOOM)
            before = world.log.barriers
            assert (await world.create("x", after_seconds=1))["code"] == "internal_error"
            await settle()
            assert world.log.barriers == before + 2

        run(scenario)

    def test_a_clock_that_cannot_be_read_appends_nothing(self) -> None:
        """B56."""

        async def scenario(world: World) -> None:
            world.clock.broken = True
            assert (await world.create("x", after_seconds=1))["code"] == "internal_error"
            assert world.log.events == []

        run(scenario)

    @pytest.mark.parametrize(
        ("cancel_at", "created"), [("queue", False), ("preflight", False), ("confirm", True)]
    )
    def test_a_cancelled_create_leaves_the_log_alone_until_it_has_appended(
        self, cancel_at: str, created: object
    ) -> None:
        """B57."""

        async def scenario(world: World) -> None:
            loop = asyncio.get_running_loop()
            gates = [loop.create_future() for _ in range(3)]
            world.log.barrier_results += gates
            first = asyncio.ensure_future(world.listed())
            create = asyncio.ensure_future(world.create("x", after_seconds=50))
            await settle()
            for index, moment in enumerate(("queue", "preflight", "confirm")):
                if moment == cancel_at:
                    create.cancel()
                    await settle()
                gates[index].set_result(None)
                await settle()
            assert create.cancelled()
            await first
            assert world.log.operations() == (["create"] if created else [])

        run(scenario)

    def test_calls_from_another_loop_and_thread_are_answered(self) -> None:
        """Tools are bound to the loop that made them; a call from elsewhere is carried there."""

        async def main() -> None:
            world = await World.make(VirtualClock(asyncio.get_running_loop(), 0))
            world.live.start()

            def elsewhere() -> object:
                return asyncio.run(world.live.call_tool("schedule_list", {}))

            assert await asyncio.to_thread(elsewhere) == []
            await world.live.close()

        asyncio.run(main())


class TestLife:
    def test_due_work_runs_outside_the_context_of_the_call_that_caused_it(self) -> None:
        """B14: it is not attributed to a caller."""
        caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")

        async def scenario(world: World) -> None:
            callers: list[str] = []
            world.agent.before_phase = lambda: callers.append(caller.get())
            caller.set("a tool call")
            await world.create("x", after_seconds=1)
            await asyncio.sleep(2)
            assert callers == ["nobody"]

        run(scenario)

    def test_an_agent_that_was_replaced_gets_nothing_and_nobody_hears_of_it(self) -> None:
        """B16, B17: liveness is identity; checked after the barrier as well."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            await settle()
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            world.log.barrier_results.append(gate)
            await asyncio.sleep(2)
            world.agent.is_live = False
            gate.set_result(None)
            await settle()
            assert world.agent.messages == []
            assert world.facts == []

        run(scenario)

    def test_closing_waits_for_the_barrier_under_way_and_sends_nothing_after_it(self) -> None:
        """B39, B40, B41."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            await settle()
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            world.log.barrier_results.append(gate)
            await asyncio.sleep(1.5)
            before = list(world.log.events)
            closing = asyncio.ensure_future(world.live.close())
            again = asyncio.ensure_future(world.live.close())
            await settle()
            assert not closing.done()
            gate.set_result(None)
            await asyncio.gather(closing, again)
            assert world.agent.messages == []
            assert world.log.events == before
            assert world.agent.listeners == 0

        run(scenario)

    def test_closing_is_bounded_when_a_barrier_never_ends(self) -> None:
        """W4; whoever still waits for an answer gets one."""

        async def scenario(world: World) -> None:
            world.log.barrier_results.append(asyncio.get_running_loop().create_future())
            call = asyncio.ensure_future(world.create("x", after_seconds=1))
            await settle()
            await world.live.close()
            assert (await call)["code"] == "persistence_uncertain"

        run(scenario, LiveOptions(close_timeout_s=2))

    def test_a_barrier_may_have_a_time_limit(self) -> None:
        """W4."""

        async def scenario(world: World) -> None:
            world.log.barrier_results.append(asyncio.get_running_loop().create_future())
            answer = await world.create("x", after_seconds=1)
            assert answer["code"] == "persistence_uncertain"

        run(scenario, LiveOptions(barrier_timeout_s=3))

    def test_closing_ends_an_idle_watch_at_once(self) -> None:
        """B39."""

        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            world.agent.busy = True
            await asyncio.sleep(2)
            started = asyncio.get_running_loop().time()
            await world.live.close()
            assert asyncio.get_running_loop().time() == started

        run(scenario)

    def test_a_call_after_closing_is_refused(self) -> None:
        async def scenario(world: World) -> None:
            await world.live.close()
            assert (await world.create("x", after_seconds=1))["code"] == "internal_error"
            assert world.log.events == []

        run(scenario)

    def test_a_failing_report_hook_changes_nothing(self) -> None:
        """B58."""

        async def main(clock: VirtualClock) -> None:
            world = await World.make(clock)

            def report(_: str, fact: object) -> None:
                raise ValueError(fact)

            world.live._report_fact = report
            await world.start()
            await world.create("x", after_seconds=1)
            await asyncio.sleep(2)
            assert len(world.agent.messages) == 1
            await world.live.close()

        run_virtual(main)

    def test_each_admission_is_reported_with_its_lateness(self) -> None:
        async def scenario(world: World) -> None:
            await world.create("x", after_seconds=1)
            await settle()
            world.agent.busy = True
            await asyncio.sleep(5)
            world.agent.become_idle()
            await settle()
            admitted = world.facts[-1]
            assert isinstance(admitted, Admitted)
            assert evolve(admitted, now=admitted.scheduled_at).schedule_id == "schedule-1"
            assert admitted.now - admitted.scheduled_at == 4_000

        run(scenario)


def world_message() -> str:
    """The stable text of an uncertain answer."""
    return "it is not certain whether this was saved; list the reminders before trying again"
