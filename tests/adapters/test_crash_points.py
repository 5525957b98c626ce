"""A process that dies at any append or barrier: what the next one finds, and what it does.

The script creates a reminder, lets it come due and be delivered, and talks before and after.
It is run once whole, then once for every point at which the process can die: before each
append, and in each barrier with every possible part of its batch on the disk already. The
session is opened again and left alone until nothing is left to do; then the durable log
must say that nothing was lost, repeated or early.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from attrs import define, field

from schedule_adapters.sessions import SessionHeader
from schedule_adapters.stores.memory import MemorySession, MemoryStore
from schedule_adapters.testing.virtual_time import VirtualClock, run_virtual
from schedule_core import Clock, Instant, ScheduleChange, SessionEvent, fold_log
from tests.adapters.turn_world import ScriptedDriver, Talk, calling, lasting, log_of, talk

START = 1_795_996_800_000
Script = Callable[[Talk], Coroutine[Any, Any, None]]


class ProcessDied(BaseException):
    """Nothing in the process runs on from here."""


@define
class Fuse:
    """Decides when a process dies, and counts what it did until then.

    Attributes:
        burns_at: the operation it does not survive; None: it lives.
        torn: how many pending events that operation, a barrier, leaves on the disk.
        operations: what each operation so far had pending; None for an append.
        death: set when it dies.
        removal: set when the system clears away what is left of it.
    """

    burns_at: int | None = None
    torn: int = 0
    operations: list[int | None] = field(factory=list)
    burnt: bool = False
    death: asyncio.Event = field(factory=asyncio.Event)
    removal: asyncio.Event = field(factory=asyncio.Event)

    def burns(self, pending: int | None) -> bool:
        """Take note of one operation, and tell whether it is the last."""
        if not self.burnt:
            self.burnt = len(self.operations) == self.burns_at
            self.operations.append(pending)
            if self.burnt:
                self.death.set()
        return self.burnt


@define
class MortalSession:
    """A session of a process that may die in any operation on it."""

    inner: MemorySession
    store: MemoryStore
    fuse: Fuse

    @property
    def header(self) -> SessionHeader:
        return self.inner.header

    @property
    def seed_length(self) -> object:
        return self.inner.seed_length

    @property
    def length(self) -> int:
        return self.inner.length

    def events_from(self, position: int) -> list[SessionEvent]:
        return self.inner.events_from(position)

    def append(self, event_type: str, data: object) -> SessionEvent:
        if self.fuse.burns(None):
            raise ProcessDied
        return self.inner.append(event_type, data)

    def append_change(self, change: ScheduleChange) -> None:
        if self.fuse.burns(None):
            raise ProcessDied
        self.inner.append_change(change)

    async def barrier(self) -> None:
        already = self.fuse.burnt
        durable = self.inner._durable
        if self.fuse.burns(self.inner.length - durable):
            if not already and self.fuse.torn:
                self.store.keep(self.header, self.inner.events_from(0)[: durable + self.fuse.torn])
            await self.fuse.removal.wait()
            raise ProcessDied
        await self.inner.barrier()

    async def close(self) -> None:
        await self.inner.close()


@define
class MortalStore:
    """A store whose sessions die by one fuse; the disk behind it lives on."""

    inner: MemoryStore
    fuse: Fuse

    async def open(self, session_id: str) -> MortalSession:
        return MortalSession(await self.inner.open(session_id), self.inner, self.fuse)

    async def read(self, session_id: str) -> Any:
        return await self.inner.read(session_id)

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        return await self.inner.fork(parent_id, child_id)

    async def session_ids(self) -> list[str]:
        return await self.inner.session_ids()


@define
class SettableClock:
    """The wall clock of a machine that outlives its processes."""

    clock: Clock | None = None

    def now(self) -> Instant:
        assert self.clock is not None
        return self.clock.now()


@define
class Machine:
    """A disk, a wall clock, and what its processes did over time."""

    clock: SettableClock = field(factory=SettableClock)
    store: MemoryStore = field(init=False)
    now: int = START
    answers: list[object] = field(factory=list)
    """The answers of the tools that a model got."""
    heard: list[str] = field(factory=list)
    """What began the turns that a model saw, over all processes."""

    def __attrs_post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)

    def run(self, fuse: Fuse, script: Script) -> None:
        """Run one process to its end, or to its death."""
        driver = ScriptedDriver(
            {
                "remind me": calling(
                    "schedule_create", self.answers, prompt="tea", after_seconds=5
                ),
                "schedule-1": lasting(2),
            }
        )

        async def live(clock: VirtualClock) -> None:
            async with talk(MortalStore(self.store, fuse), clock, driver=driver) as world:
                await script(world)

        async def process(clock: VirtualClock) -> None:
            self.clock.clock = clock
            # What the dead one still says of itself is no news.
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            life, death = (
                asyncio.ensure_future(live(clock)),
                asyncio.ensure_future(fuse.death.wait()),
            )
            await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
            self.now = clock.now()
            self.heard += driver.heard
            if not fuse.burnt:
                await life
            fuse.removal.set()
            self.store._open.clear()

        run_virtual(process, start=self.now)


async def day(world: Talk) -> None:
    """Create, wait for it, talk on; a prompt is typed ahead while the reminder's turn runs."""
    runtime = world.conversation.runtime
    runtime.prompt("remind me")
    await asyncio.sleep(6)
    runtime.prompt("thanks")
    await asyncio.sleep(10)


async def rest(_: Talk) -> None:
    """Leave the session alone until nothing is left to do."""
    await asyncio.sleep(60)


def crash_points(script: Script) -> Iterator[tuple[int, int]]:
    """Every operation of the script, and for a barrier every part of its batch."""
    fuse = Fuse()
    Machine().run(fuse, script)
    assert not fuse.burnt
    for number, pending in enumerate(fuse.operations):
        for torn in range((pending or 0) + 1):
            yield number, torn


POINTS = list(crash_points(day))


def check(machine: Machine) -> None:
    """Nothing was lost, repeated or early, as the durable log tells it."""
    if not machine.store._sessions:
        assert not acknowledged(machine)
        return
    events = machine.store._sessions["main"].events
    schedules = fold_log(events)
    messages = [event for event in events if event.type == "input/queued"]
    starts = [event.data["input"] for event in events if event.type == "turn/started"]
    ends = [event.data["input"] for event in events if event.type == "turn/ended"]
    due = {
        event.data["schedule"]["id"]: event
        for event in events
        if event.type == "schedule/change" and event.data["operation"] == "create"
    }

    assert set(acknowledged(machine)) <= set(schedules.seen)
    # Each reminder was admitted once, in time, and is over.
    delivered = [event.data["scheduleId"] for event in messages if "scheduleId" in event.data]
    assert sorted(due) == sorted(delivered)
    assert schedules.active == ()
    for message in messages:
        if "scheduleId" in message.data:
            create = due[message.data["scheduleId"]]
            assert message.time >= create.time + create.data["schedule"]["afterSeconds"] * 1_000
    # Each message had one turn, in order, and each turn has an end.
    assert [message.seq for message in messages] == starts == ends
    # The model saw no reminder twice.
    reminders = [name for name in machine.heard if name.startswith("schedule-")]
    assert len(reminders) == len(set(reminders))


def acknowledged(machine: Machine) -> list[str]:
    """The ids of the creates whose answer reached the model."""
    return [
        answer["id"]
        for answer in machine.answers
        if isinstance(answer, dict) and "scheduledAt" in answer
    ]


def test_the_script_alone_goes_as_it_should() -> None:
    """Without a crash: one create, one delivery, one turn for each message."""
    machine = Machine()
    machine.run(Fuse(), day)
    check(machine)
    assert [line.split()[0] for line in log_of(machine.store)] == [
        *("queued", "started", "create", "completed"),
        *("queued", "dispatch", "started", "queued", "completed"),
        *("started", "completed"),
    ]
    assert acknowledged(machine) == ["schedule-1"]


def test_there_is_a_crash_point_between_a_message_and_its_dispatch() -> None:
    """The enumeration is not blind at the very place that matters."""
    found: list[str] = []
    for number, torn in POINTS:
        machine = Machine()
        machine.run(Fuse(number, torn), day)
        if machine.store._sessions:
            found += log_of(machine.store)[-1:]
    assert {"queued schedule-1", "dispatch schedule-1", "create schedule-1"} <= set(found)


@pytest.mark.parametrize(("number", "torn"), POINTS)
def test_a_process_that_dies_loses_repeats_and_hurries_nothing(number: int, torn: int) -> None:
    """Given a death at this point, when the session is opened again, then all is well."""
    machine = Machine()
    fuse = Fuse(number, torn)
    machine.run(fuse, day)
    assert fuse.burnt
    machine.run(Fuse(), rest)
    check(machine)
    again = log_of(machine.store) if machine.store._sessions else []
    machine.run(Fuse(), rest)
    assert again == (log_of(machine.store) if machine.store._sessions else [])


@pytest.mark.parametrize(("number", "torn"), POINTS)
def test_a_process_that_dies_again_while_it_recovers_does_no_harm(number: int, torn: int) -> None:
    """Given a death at this point, and then one at every point of the recovery."""
    second = 0
    while True:
        machine = Machine()
        machine.run(Fuse(number, torn), day)
        fuse = Fuse(second, second % 3)
        machine.run(fuse, rest)
        machine.run(Fuse(), rest)
        check(machine)
        if not fuse.burnt:
            return
        second += 1
