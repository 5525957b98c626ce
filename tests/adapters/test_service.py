"""Which agents get reminders, in which order they are installed, and how they end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from attrs import define, field

from schedule_adapters.live import LiveLog, LiveSchedule, SystemClock
from schedule_adapters.service import CompositionError, ScheduleService
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import SessionTool
from schedule_core import TOOLS, Instant
from tests.adapters.live_world import ScriptedAgent, ScriptedLog, settle

TOOL_NAMES = [tool.name for tool in TOOLS]


@define
class ScriptedScope:
    """Where one agent's tools live; says in the diary what comes and goes."""

    diary: list[str]
    tools: dict[str, SessionTool] = field(factory=dict)
    refused: set[str] = field(factory=set)
    """Names of tools that are there already."""
    stuck: set[str] = field(factory=set)
    """Names of tools whose removal fails."""

    def register_tool(self, tool: SessionTool) -> Callable[[], None]:
        if tool.name in self.refused:
            raise KeyError(tool.name)
        self.diary.append(f"register {tool.name}")
        self.tools[tool.name] = tool

        def remove() -> None:
            self.diary.append(f"remove {tool.name}")
            del self.tools[tool.name]
            if tool.name in self.stuck:
                raise RuntimeError(tool.name)

        return remove


class ListenedAgent(ScriptedAgent):
    """An agent that says in the diary who listens to it."""

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:
        self.diary.append("listen")
        return super().on_idle(listener)


class BreakableAgent(ListenedAgent):
    """An agent that may be beyond asking whether it lives."""

    broken = False

    def __getattribute__(self, name: str) -> Any:
        if name == "is_live" and self.broken:
            raise RuntimeError("who is that?")
        return super().__getattribute__(name)


@define
class Client:
    """One agent with its log and its tool scope."""

    diary: list[str] = field(factory=list)
    agent_class: type[ListenedAgent] = ListenedAgent
    agent: ListenedAgent = field(init=False)
    log: ScriptedLog = field(init=False)
    scope: ScriptedScope = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.agent = self.agent_class(self.diary)
        self.log = ScriptedLog(self.diary)
        self.scope = ScriptedScope(self.diary)

    def served_by(self, service: ScheduleService) -> LiveSchedule | None:
        return service.serve(self.agent, self.log, self.scope)

    def assert_untouched(self) -> None:
        """It got no tools, no listener and no barrier."""
        assert (self.diary, self.scope.tools, self.agent.listeners) == ([], {}, 0)


@define
class CountedClock:
    """A clock that says how often it was read."""

    virtual: VirtualClock
    reads: int = 0

    def now(self) -> Instant:
        self.reads += 1
        return self.virtual.now()


Scenario = Callable[[ScheduleService], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    """Run one scenario with a new service, and close it."""

    async def main(clock: VirtualClock) -> None:
        service = ScheduleService(clock=clock)
        await scenario(service)
        await service.close()

    run_virtual(main)


async def create(client: Client, prompt: str, seconds: int) -> object:
    """Call the create tool that the agent was given."""
    return await client.scope.tools["schedule_create"].call(
        {"prompt": prompt, "after_seconds": seconds}
    )


class TestWhoIsServed:
    def test_a_composition_without_persistence_does_not_start(self) -> None:
        """B1: given a log without a barrier, then serving is an error, not a silent success."""

        class LogWithoutBarrier:
            seed_length = 0

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            log = cast("LiveLog", LogWithoutBarrier())
            with pytest.raises(CompositionError, match="no persistence barrier"):
                service.serve(client.agent, log, client.scope)
            client.assert_untouched()

        run(scenario)

    def test_an_agent_that_is_not_announced_is_not_adopted(self) -> None:
        """B2: it lived before the service, and nobody said so."""

        async def scenario(service: ScheduleService) -> None:
            before = Client()
            announced = Client()
            announced.served_by(service)
            await settle()
            before.assert_untouched()

        run(scenario)

    def test_a_sub_agent_gets_neither_tools_nor_owner_nor_barrier(self) -> None:
        """B3."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.agent.is_root = False
            assert client.served_by(service) is None
            await settle()
            client.assert_untouched()

        run(scenario)

    def test_whether_it_is_a_root_is_asked_when_it_is_announced(self) -> None:
        """B3: what becomes of it later changes nothing."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.served_by(service)
            client.agent.is_root = False
            await settle()
            assert list(client.scope.tools) == TOOL_NAMES

        run(scenario)

    def test_an_agent_that_is_closed_already_gets_nothing(self) -> None:
        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.agent.close()
            assert client.served_by(service) is None
            client.assert_untouched()

        run(scenario)

    def test_an_agent_announced_twice_has_one_owner(self) -> None:
        """B4, field report 8: one delivery, not two."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            assert client.served_by(service) is not None
            assert client.served_by(service) is None
            await settle()
            assert client.log.barriers == 1
            assert client.diary.count("listen") == 1
            await create(client, "x", 1)
            await asyncio.sleep(2)
            assert len(client.agent.messages) == 1

        run(scenario)

    def test_nobody_is_served_once_the_service_stops(self) -> None:
        """B4: neither during the stop nor after it."""

        async def scenario(service: ScheduleService) -> None:
            during, after = Client(), Client()
            closing = asyncio.ensure_future(service.close())
            await asyncio.sleep(0)
            assert during.served_by(service) is None
            await closing
            assert after.served_by(service) is None
            during.assert_untouched()
            after.assert_untouched()

        run(scenario)

    def test_agents_do_not_share_tools(self) -> None:
        """B5: each one's tools speak of its own session alone."""

        async def scenario(service: ScheduleService) -> None:
            one, other = Client(), Client()
            one.served_by(service)
            other.served_by(service)
            await create(one, "x", 60)
            assert one.log.operations() == ["create"]
            assert other.log.operations() == []
            assert await other.scope.tools["schedule_list"].call({}) == []

        run(scenario)

    def test_agents_do_not_wait_for_each_other(self) -> None:
        """B42: given a blocked barrier of one, then the other answers."""

        async def scenario(service: ScheduleService) -> None:
            one, other = Client(), Client()
            one.served_by(service)
            other.served_by(service)
            await settle()
            blocked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            one.log.barrier_results.append(blocked)
            waiting = asyncio.ensure_future(create(one, "x", 60))
            answer = await create(other, "y", 60)
            assert isinstance(answer, dict)
            assert answer["id"] == "schedule-1"
            assert not waiting.done()
            blocked.set_result(None)
            await waiting

        run(scenario)


class TestInstallation:
    def test_tools_come_first_then_the_listener_then_the_owner(self) -> None:
        """B6, B7: and the owner's start is exactly one barrier."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.served_by(service)
            await settle()
            assert client.diary == [
                *(f"register {name}" for name in TOOL_NAMES),
                "listen",
                "barrier",
            ]

        run(scenario)

    @pytest.mark.parametrize("conflict", range(3))
    def test_a_name_conflict_removes_the_earlier_tools_and_is_passed_on(
        self, conflict: int
    ) -> None:
        """B6, B61: in reverse order; and nothing else is started."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.scope.refused.add(TOOL_NAMES[conflict])
            with pytest.raises(KeyError, match=TOOL_NAMES[conflict]):
                client.served_by(service)
            await settle()
            earlier = TOOL_NAMES[:conflict]
            assert client.diary == [
                *(f"register {name}" for name in earlier),
                *(f"remove {name}" for name in reversed(earlier)),
            ]
            assert (client.scope.tools, client.agent.listeners) == ({}, 0)

        run(scenario)

    def test_an_agent_can_be_served_once_the_conflict_is_gone(self) -> None:
        """A failed installation leaves nothing that stands in the way."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.scope.refused.add("schedule_list")
            with pytest.raises(KeyError):
                client.served_by(service)
            client.scope.refused.clear()
            assert client.served_by(service) is not None
            assert list(client.scope.tools) == TOOL_NAMES

        run(scenario)

    def test_idle_of_a_session_without_reminders_costs_no_barrier(self) -> None:
        """B8: but a fork's inherited schedule event does."""

        async def scenario(service: ScheduleService) -> None:
            unrelated, fork = Client(), Client()
            fork.log.add("schedule/change", {"version": 1, "operation": "delete", "id": "a"})
            fork.log.seed_length = 1
            for client in (unrelated, fork):
                client.served_by(service)
                await settle()
                client.agent.become_idle()
                await settle()
            assert (unrelated.log.barriers, fork.log.barriers) == (1, 2)

        run(scenario)


class TestWaiting:
    def test_all_agents_of_a_service_wait_by_one_look_a_minute(self) -> None:
        """However many there are, and none of them looks by itself."""

        async def main(virtual: VirtualClock) -> None:
            clock = CountedClock(virtual)
            service = ScheduleService(clock=clock)
            clients = [Client() for _ in range(100)]
            for number, client in enumerate(clients):
                client.served_by(service)
                await create(client, "x", 7_200 + number)
            await settle()
            clock.reads = 0
            await asyncio.sleep(3_600)
            assert clock.reads == 60
            await asyncio.sleep(3_600 + len(clients))
            assert [1] * len(clients) == [len(client.agent.messages) for client in clients]
            await service.close()

        run_virtual(main)

    def test_services_may_share_what_they_wait_with(self) -> None:
        async def main(virtual: VirtualClock) -> None:
            clock = CountedClock(virtual)
            timers = WallTimers(clock)
            services = [ScheduleService(timers=timers) for _ in range(10)]
            clients = [Client() for _ in services]
            for service, client in zip(services, clients, strict=True):
                client.served_by(service)
                await create(client, "x", 3_660)
            await settle()
            clock.reads = 0
            await asyncio.sleep(3_600)
            assert clock.reads == 60
            for service in services:
                await service.close()
            await asyncio.sleep(3_600)
            assert clock.reads == 60
            assert [client.agent.messages for client in clients] == [[]] * len(clients)

        run_virtual(main)

    def test_one_agent_that_cannot_take_its_time_costs_no_other_its_own(self) -> None:
        """Given an agent whose liveness cannot be asked, then the others get their reminders."""

        async def main(virtual: VirtualClock) -> None:
            errors: list[object] = []
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: errors.append(context["exception"])
            )
            service = ScheduleService(clock=virtual)
            clients = [Client(agent_class=BreakableAgent) for _ in range(3)]
            for client in clients:
                client.served_by(service)
                await create(client, "x", 10)
            await settle()
            agent = clients[1].agent
            assert isinstance(agent, BreakableAgent)
            agent.broken = True
            await asyncio.sleep(11)
            assert [1, 0, 1] == [len(client.agent.messages) for client in clients]
            assert [type(error) for error in errors] == [RuntimeError]
            agent.broken = False
            await service.close()

        run_virtual(main)

    def test_timers_of_another_clock_are_refused_before_anything_is_installed(self) -> None:
        """Else a wake by one clock would be too early by the other, again and again."""

        async def main(virtual: VirtualClock) -> None:
            client = Client()
            service = ScheduleService(clock=SystemClock(), timers=WallTimers(virtual))
            with pytest.raises(ValueError, match="another clock"):
                client.served_by(service)
            client.assert_untouched()

        run_virtual(main)

    def test_timers_of_another_loop_are_refused_before_anything_is_installed(self) -> None:
        async def make(virtual: VirtualClock) -> WallTimers:
            return WallTimers(virtual)

        timers = run_virtual(make)

        async def main(_: VirtualClock) -> None:
            client = Client()
            with pytest.raises(ValueError, match="another loop"):
                client.served_by(ScheduleService(timers=timers))
            client.assert_untouched()

        run_virtual(main)

    def test_two_system_clocks_are_the_same_clock(self) -> None:
        async def main() -> None:
            client = Client()
            service = ScheduleService(clock=SystemClock(), timers=WallTimers(SystemClock()))
            assert client.served_by(service) is not None
            await service.close()

        asyncio.run(main())


class TestRelease:
    def test_a_released_agent_loses_listeners_tools_and_owner_and_keeps_its_log(self) -> None:
        """B9: its durable records are untouched, and nothing is delivered any more."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            live = client.served_by(service)
            assert live is not None
            await create(client, "x", 10)
            await settle()
            before = list(client.log.events)
            await service.release(client.agent)
            assert (client.scope.tools, client.agent.listeners) == ({}, 0)
            assert live.state.activity == "stopped"
            await asyncio.sleep(60)
            assert client.agent.messages == []
            assert client.log.events == before

        run(scenario)

    def test_tools_go_in_reverse_order(self) -> None:
        async def scenario(service: ScheduleService) -> None:
            client = Client()
            client.served_by(service)
            await settle()
            client.diary.clear()
            await service.release(client.agent)
            assert client.diary == [f"remove {name}" for name in reversed(TOOL_NAMES)]

        run(scenario)

    def test_releasing_twice_or_a_stranger_does_nothing(self) -> None:
        async def scenario(service: ScheduleService) -> None:
            client, stranger = Client(), Client()
            client.served_by(service)
            await service.release(client.agent)
            await service.release(client.agent)
            await service.release(stranger.agent)
            stranger.assert_untouched()

        run(scenario)

    @pytest.mark.parametrize("stuck", TOOL_NAMES)
    def test_a_tool_that_cannot_be_removed_holds_up_nothing_else(self, stuck: str) -> None:
        """The other tools go and the owner stops; the failure is passed on."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            live = client.served_by(service)
            assert live is not None
            client.scope.stuck.add(stuck)
            with pytest.raises(RuntimeError, match=stuck):
                await service.release(client.agent)
            assert live.state.activity == "stopped"
            assert (client.scope.tools, client.agent.listeners) == ({}, 0)

        run(scenario)

    def test_closing_the_service_releases_all_even_if_one_fails(self) -> None:
        """B10: and says what failed."""

        async def scenario(service: ScheduleService) -> None:
            clients = [Client(), Client(), Client()]
            lives = [client.served_by(service) for client in clients]
            clients[0].scope.stuck.add("schedule_list")
            with pytest.raises(ExceptionGroup) as failure:
                await service.close()
            assert [str(error) for error in failure.value.exceptions] == ["schedule_list"]
            for client, live in zip(clients, lives, strict=True):
                assert live is not None
                assert live.state.activity == "stopped"
                assert (client.scope.tools, client.agent.listeners) == ({}, 0)
            await service.close()

        run(scenario)

    def test_closing_the_service_stops_all_owners_together(self) -> None:
        """B10: given one that waits for its barrier, then the others do not deliver meanwhile."""

        async def scenario(service: ScheduleService) -> None:
            slow, quick = Client(), Client()
            slow.served_by(service)
            quick.served_by(service)
            await settle()
            await create(quick, "x", 3)
            slow.log.barrier_results.append(asyncio.get_running_loop().create_future())
            waiting = asyncio.ensure_future(create(slow, "y", 3))
            await settle()
            await service.close()
            assert quick.agent.messages == []
            assert quick.scope.tools == {}
            await waiting

        run(scenario)

    def test_an_agent_that_closes_stops_its_owner_at_once(self) -> None:
        """Nobody needs to release it for that."""

        async def scenario(service: ScheduleService) -> None:
            client = Client()
            live = client.served_by(service)
            assert live is not None
            await create(client, "x", 10)
            client.agent.close()
            assert live.state.activity == "stopped"
            await asyncio.sleep(60)
            assert client.agent.messages == []

        run(scenario)
