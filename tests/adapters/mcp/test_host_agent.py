"""The agent port of a host in another process: every rule of order stays in the owner."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from attrs import define, field

from schedule_adapters.live import LiveSchedule
from schedule_adapters.mcp.host_agent import HostAgent, OwedReminder
from schedule_adapters.mcp.hosted import HostedSession
from schedule_adapters.mcp.wire import TakenReminder
from schedule_adapters.sessions import Session
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_core import AgentBusy, FollowUp, ScheduleId

FIRST = ScheduleId("schedule-1")
MINUTE_S = 60


@define
class Hosted:
    """One opening of a session for a host."""

    session: Session
    agent: HostAgent
    live: LiveSchedule
    hosted: HostedSession
    hints: list[str] = field(factory=list)

    @classmethod
    async def open(cls, store: MemoryStore, clock: VirtualClock, name: str = "main") -> "Hosted":
        session, hints = await store.open(name), list[str]()
        agent = HostAgent(session, lambda: hints.append("due"))
        live = LiveSchedule(agent, session, clock=clock)
        live.start()
        return cls(session, agent, live, HostedSession(session, agent, live, clock), hints)

    async def create(self, after_s: int = MINUTE_S) -> None:
        arguments = {"prompt": "stretch", "after_seconds": after_s}
        await self.live.call_tool("schedule_create", arguments)

    async def take(self) -> TakenReminder:
        taken = await self.hosted.take()
        assert isinstance(taken, TakenReminder)
        return taken

    def types(self) -> list[str]:
        return [
            event.data["operation"] if event.type == "schedule/change" else event.type
            for event in self.session.events_from(0)
            if event.type != "log/checkpoint"
        ]

    async def close(self) -> None:
        self.agent.close()
        await self.live.close()
        await self.session.barrier()
        await self.session.close()


def hosted(test: Callable[[Hosted], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a session of its own, in virtual time."""

    async def main(clock: VirtualClock) -> None:
        world = await Hosted.open(MemoryStore(clock=clock), clock)
        await test(world)
        await world.close()

    run_virtual(main)


def test_nothing_is_admitted_unless_the_host_offers_its_idle_phase() -> None:
    """However long a reminder is due; the host is told that something waits."""

    async def test(world: Hosted) -> None:
        await world.create()
        await asyncio.sleep(3600)
        assert world.types() == ["create"]
        assert world.hints == ["due"]
        assert world.live.state.activity == "watching"

    hosted(test)


def test_an_offer_admits_one_reminder_and_gives_it() -> None:
    """Its message is in the log before its dispatch; the phase is given back before the answer."""

    async def test(world: Hosted) -> None:
        await world.create()
        await world.create()
        await asyncio.sleep(MINUTE_S)
        taken = await world.take()
        assert taken.schedule_id == FIRST
        assert world.types() == ["create", "create", "input/queued", "dispatch"]
        assert await world.take() == taken

    hosted(test)


def test_an_offer_when_nothing_is_due_is_withdrawn() -> None:
    """What falls due afterwards waits for the next offer."""

    async def test(world: Hosted) -> None:
        await world.create()
        assert await world.hosted.take() is None
        await asyncio.sleep(MINUTE_S)
        assert world.types() == ["create"]
        await world.take()

    hosted(test)


def test_the_next_reminder_comes_once_the_last_one_is_acknowledged() -> None:
    """The acknowledgement is the end of the reminder's turn, in the log."""

    async def test(world: Hosted) -> None:
        await world.create()
        await world.create()
        await asyncio.sleep(MINUTE_S)
        first = await world.take()
        assert await world.hosted.acknowledge(first.delivery, "completed") == {"acknowledged": True}
        await asyncio.sleep(1)
        assert len(world.hints) > 1  # the second one is due, too
        second = await world.take()
        assert second.schedule_id == "schedule-2"
        assert world.types()[2:6] == ["input/queued", "dispatch", "turn/started", "turn/ended"]

    hosted(test)


def test_acknowledging_again_changes_nothing_and_a_stranger_is_not_acknowledged() -> None:
    """A delivery names its session and its place in the log."""

    async def test(world: Hosted) -> None:
        await world.create()
        await asyncio.sleep(MINUTE_S)
        taken = await world.take()
        for _ in range(2):
            answer = await world.hosted.acknowledge(taken.delivery, "completed")
            assert answer == {"acknowledged": True}
        assert world.types().count("turn/ended") == 1
        head = taken.delivery.rpartition("/")[0]
        for strange in (
            "",
            "1",
            "other/1/1",
            f"{head}/0",
            f"{head}/-1",
            f"{head}/²",
            f"{head}/99",
            f"{head}/{'9' * 5000}",
        ):
            answer = await world.hosted.acknowledge(strange, "completed")
            assert answer == {"acknowledged": False}, strange

    hosted(test)


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_what_was_not_acknowledged_is_owed_after_a_restart(*, is_acknowledged: bool) -> None:
    """And nothing is dispatched twice."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryStore(clock=clock)
        world = await Hosted.open(store, clock)
        await world.create()
        await asyncio.sleep(MINUTE_S)
        taken = await world.take()
        if is_acknowledged:
            await world.hosted.acknowledge(taken.delivery, "failed")
        await world.close()
        world = await Hosted.open(store, clock)
        assert await world.hosted.take() == (None if is_acknowledged else taken)
        assert world.types().count("dispatch") == 1
        await world.close()

    run_virtual(main)


def test_a_message_whose_dispatch_is_missing_is_not_queued_again() -> None:
    """A crash between the two: the next taking records the dispatch."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryStore(clock=clock)
        world = await Hosted.open(store, clock)
        await world.create()
        world.agent.followup(FollowUp(FIRST, "the message"))
        await world.close()
        await asyncio.sleep(MINUTE_S)
        world = await Hosted.open(store, clock)
        taken = await world.take()
        assert taken.message == "the message"
        await world.hosted.acknowledge(taken.delivery, "completed")
        assert [each["id"] for each in world.hosted.due_json()["due"]] == [FIRST]
        assert await world.hosted.take() is None
        assert world.types().count("input/queued") == 1
        assert world.types().count("dispatch") == 1
        await world.close()

    run_virtual(main)


def test_a_fork_owes_nothing_of_its_parent() -> None:
    """It has the history, not the reminders."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryStore(clock=clock)
        world = await Hosted.open(store, clock)
        await world.create()
        await asyncio.sleep(MINUTE_S)
        await world.take()
        await world.close()
        await store.fork("main", "child")
        child = await Hosted.open(store, clock, "child")
        assert child.agent.owed == ()
        assert await child.hosted.take() is None
        await child.close()

    run_virtual(main)


def test_what_a_chat_left_queued_is_given_to_the_host() -> None:
    """The same log may be opened by either, one after the other."""

    async def main(clock: VirtualClock) -> None:
        store = MemoryStore(clock=clock)
        session = await store.open("main")
        reminder = {"source": "reminder", "text": "framed", "scheduleId": FIRST}
        session.append("input/queued", {"source": "user", "text": "hello"})
        postponed, completed = (session.append("input/queued", reminder) for _ in range(2))
        for queued, outcome in ((completed, "completed"), (postponed, "postponed")):
            session.append("turn/started", {"input": queued.seq})
            session.append("turn/ended", {"input": queued.seq, "outcome": outcome})
        agent = HostAgent(session, lambda: None)
        assert agent.owed == (OwedReminder(postponed.seq, FIRST, "framed"),)
        assert agent.has_admitted(FIRST)
        await session.close()

    run_virtual(main)


def test_a_taking_that_is_cancelled_withdraws_its_offer() -> None:
    """A host whose user begins to type is busy again at once."""

    async def test(world: Hosted) -> None:
        await world.create()
        await asyncio.sleep(MINUTE_S)
        taking = asyncio.ensure_future(world.hosted.take())
        await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])
        with pytest.raises(AgentBusy):
            world.agent.run_maintenance(_nothing)
        taken = await world.take()
        assert taken.schedule_id == FIRST
        assert world.types().count("dispatch") == 1

    hosted(test)


def test_a_closed_agent_admits_nothing() -> None:
    """Not even while its host offers the phase."""

    async def test(world: Hosted) -> None:
        await world.create()
        await asyncio.sleep(MINUTE_S)
        world.agent.close()
        with world.agent.offering(), pytest.raises(AgentBusy):
            world.agent.run_maintenance(_nothing)
        answer = await world.hosted.take()
        assert answer == {"code": "internal_error", "message": "the session is closing"}

    hosted(test)


def test_a_corrupt_log_is_said_to_the_host() -> None:
    """Its taking is answered with the error that the model's tools give."""

    async def test(world: Hosted) -> None:
        world.session.append("schedule/change", {"version": 1, "operation": "dispatch", "id": "x"})
        answer = await world.hosted.take()
        assert isinstance(answer, dict)
        assert answer["code"] == "corrupt_schedule_log"

    hosted(test)


async def _nothing() -> None: ...
