"""The host bridge: what is due in one process becomes one turn in another."""

import asyncio
from pathlib import Path

import pytest

from schedule_adapters.live import SystemClock
from schedule_adapters.mcp.bridge import HostBridge, NotDelivered
from schedule_adapters.mcp.remote import connected
from schedule_adapters.mcp.wire import DueState, TakenReminder, WireError, read_due, read_taken
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.stores import SetClock
from tests.adapters.mcp.mcp_world import (
    FIRST,
    SECOND,
    Looks,
    Served,
    ServerWorld,
    SmallHost,
    acknowledged,
    bridged,
    create,
)


@pytest.fixture
def world(tmp_path: Path) -> ServerWorld:
    clock = SetClock()
    return ServerWorld(JsonlStore(tmp_path, clock=clock), clock)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


async def test_a_due_reminder_gets_one_turn_and_is_acknowledged(world: ServerWorld) -> None:
    """The message is in the log before its dispatch, and ended once the host has it."""
    host = SmallHost()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        served.pass_time(60)
        await host.heard(FIRST)
        await acknowledged(world)

    assert await world.types() == [
        "create",
        "input/queued",
        "dispatch",
        "turn/started",
        "turn/ended",
    ]
    assert host.messages[0].startswith("[SCHEDULE REMINDER]\n")
    assert host.messages[0].endswith('reminder_prompt_json: "stretch"')


async def test_a_reminder_never_comes_early(world: ServerWorld, looks: Looks) -> None:
    """One second before it is due, the bridge looks and takes nothing."""
    host = SmallHost()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        served.pass_time(59)
        await looks.until(lambda seen: seen[-1:] == [DueState(is_due=False, next_in_s=1.0)])
        assert await served.hosted.take() is None
        assert host.turns == []
        served.pass_time(1)
        await host.heard(FIRST)


async def test_a_reminder_waits_for_the_running_turn(world: ServerWorld, looks: Looks) -> None:
    """While the host's agent is busy nothing is admitted: the reminder is still to come."""
    host, over = SmallHost(), asyncio.Event()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        turn = asyncio.ensure_future(host.say("a long question", until=over))
        await host.heard("a long question")
        served.pass_time(60)
        await looks.until(lambda seen: seen[-1].is_due)
        assert await world.types() == ["create"]
        over.set()
        await turn
        await host.heard("a long question", FIRST)


async def test_a_reminder_deleted_while_it_waits_never_comes(
    world: ServerWorld, looks: Looks
) -> None:
    """The running turn deletes it; nothing had been admitted."""
    host, over = SmallHost(), asyncio.Event()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        turn = asyncio.ensure_future(host.say("never mind", until=over))
        await host.heard("never mind")
        served.pass_time(60)
        await looks.until(lambda seen: seen[-1].is_due)
        await client.call_tool("schedule_delete", {"id": FIRST})
        over.set()
        await turn
        await looks.until(lambda seen: not seen[-1].is_due)
        await host.say("anything else?")

    assert host.turns == ["never mind", "anything else?"]
    assert await world.types() == ["create", "delete"]


async def test_reminders_of_the_same_instant_get_a_turn_each_in_order(world: ServerWorld) -> None:
    """At most one is admitted for each idle phase, and no look is waited for in between."""
    host = SmallHost()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        await create(client, "drink")
        served.pass_time(60)
        await host.heard(FIRST, SECOND)
        await acknowledged(world, 2)

    one = ["input/queued", "dispatch", "turn/started", "turn/ended"]
    assert await world.types() == ["create", "create", *one, *one]


async def test_a_hint_brings_a_reminder_without_a_poll(tmp_path: Path, looks: Looks) -> None:
    """The server says that something is due; the bridge would not look for an hour."""
    clock = SystemClock()
    world, host = ServerWorld(JsonlStore(tmp_path, clock=clock), clock), SmallHost()
    async with world.served() as served, bridged(served.endpoint, host, poll_s=3600) as client:
        await looks.until(lambda seen: len(seen) == 2)  # at first, and once it listens
        await create(client, "stretch", after_s=1)
        await host.heard(FIRST)


async def test_what_was_not_acknowledged_is_given_again_after_a_restart(
    world: ServerWorld,
) -> None:
    """The same delivery, by which a host that keeps it can tell a repeat."""
    async with world.served() as served, connected(served.endpoint) as client:
        await create(client, "stretch")
        served.pass_time(60)
        first = await served.hosted.take()
        again = await served.hosted.take()
    async with world.served() as served:
        after_restart = await served.hosted.take()

    assert isinstance(first, TakenReminder)
    assert (again, after_restart) == (first, first)
    assert await world.types() == ["create", "input/queued", "dispatch"]


async def test_an_acknowledged_reminder_never_comes_again(world: ServerWorld) -> None:
    """Not after a restart of either side."""
    host = SmallHost()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        served.pass_time(60)
        await host.heard(FIRST)
        await acknowledged(world)
    host = SmallHost()
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "drink", after_s=1)
        served.pass_time(1)
        await host.heard(SECOND)


async def test_an_uncertain_acknowledgement_is_repeated_and_not_the_delivery() -> None:
    """A bridge remembers what it delivered until the server has it for certain."""
    failing: list[str] = []
    clock = SetClock()
    store = MemoryStore(clock=clock, fail_barriers=lambda: bool(failing))
    world, host = ServerWorld(store, clock), SmallHost(before=lambda: failing.append("disk"))
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        served.pass_time(60)
        await host.heard(FIRST)
        assert "turn/ended" not in await world.types()
        failing.clear()
        await acknowledged(world)

    assert host.turns == [FIRST]


async def test_an_acknowledgement_that_a_lost_connection_swallowed_is_sent_again(
    world: ServerWorld,
) -> None:
    """The bridge outlives the connection, and the server: it delivers nothing twice."""
    host, stop = SmallHost(), asyncio.Event()
    served: asyncio.Future[Served] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with world.served() as one:
            served.set_result(one)
            await stop.wait()

    async def deliver(reminder: TakenReminder) -> None:
        await host.deliver(reminder)
        stop.set()
        await serving

    serving = asyncio.ensure_future(serve())
    bridge = HostBridge(deliver, idle=host.turn, poll_s=0.02)

    async def lose_the_connection() -> None:
        endpoint = (await served).endpoint
        async with connected(endpoint) as client:
            await create(client, "stretch")
            served.result().pass_time(60)
            await bridge.run(client)

    with pytest.raises(ExceptionGroup):
        await lose_the_connection()
    await serving
    assert "turn/ended" not in await world.types()
    async with world.served() as again, bridged(again.endpoint, host, bridge=bridge):
        await acknowledged(world)

    assert host.turns == [FIRST]


async def test_a_turn_that_fails_is_not_repeated(world: ServerWorld) -> None:
    """The model may have seen the message; the log says how its turn ended."""
    host = SmallHost(fails=RuntimeError("the line is dead"))
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        await create(client, "drink", after_s=61)
        served.pass_time(60)
        await acknowledged(world)
        served.pass_time(1)
        await host.heard(FIRST, SECOND)

    ended = [event.data for event in await world.log() if event.type == "turn/ended"]
    assert ended[0]["outcome"] == "failed"


async def test_a_cancelled_turn_is_not_repeated_and_leaves_the_bridge_running(
    world: ServerWorld,
) -> None:
    """The user may end the turn of a reminder; the next reminder comes."""
    host = SmallHost(fails=asyncio.CancelledError())
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        await create(client, "drink")
        served.pass_time(60)
        await acknowledged(world, 2)

    assert host.turns == [FIRST, SECOND]
    ended = [event.data for event in await world.log() if event.type == "turn/ended"]
    assert [data["outcome"] for data in ended] == ["cancelled", "completed"]


async def test_what_a_host_could_not_queue_is_tried_again(world: ServerWorld) -> None:
    """`NotDelivered` says that the message is in no conversation."""
    host = SmallHost(fails=NotDelivered())
    async with world.served() as served, bridged(served.endpoint, host) as client:
        await create(client, "stretch")
        served.pass_time(60)
        await host.heard(FIRST, FIRST)
        await acknowledged(world)

    assert (await world.types()).count("input/queued") == 1


async def test_a_bridge_that_ends_in_a_delivery_leaves_the_reminder_owed(
    world: ServerWorld,
) -> None:
    """Whether it was delivered is not known then; a repeat is better than a loss."""
    reached, forever = asyncio.Event(), asyncio.Event()

    async def hang(_: TakenReminder) -> None:
        reached.set()
        await forever.wait()

    bridge = HostBridge(hang, idle=asyncio.Lock(), poll_s=0.02)
    async with world.served() as served:
        async with bridged(served.endpoint, SmallHost(), bridge=bridge) as client:
            await create(client, "stretch")
            served.pass_time(60)
            await reached.wait()
        host = SmallHost()
        async with bridged(served.endpoint, host):
            await host.heard(FIRST)


async def test_a_server_that_is_not_ours_is_told_from_one_that_is(world: ServerWorld) -> None:
    """What it sends is read strictly."""
    no_states: list[object] = [None, [], {"due": 1}, {"due": [], "now": "a", "nextDueAt": "b"}]
    for state in no_states:
        with pytest.raises(WireError):
            read_due(state)
    no_reminders: list[object] = [None, [], {}, {"reminder": {"delivery": "d"}}]
    for reminder in no_reminders:
        with pytest.raises(WireError):
            read_taken(reminder)
