"""A hundred thousand live sessions in one process, and ten thousand reminders in one second.

Every session is a whole one: a log, a runtime that takes turns, and its owner with one
pending reminder, all of them on one `WallTimers`. APScheduler does the same job beside it:
as many jobs, as many of them due at once, each a coroutine as trivial as the turns here. It
promises less, so it may do less: no log, no barrier, no turn that waits for another.

Each side has a process of its own, and opens with the garbage collector put off: to look
through millions of objects that stay, again and again while they become more, would take
longer than to make them.
"""

import asyncio
import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Final, TypeVar

from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]
from attrs import define, field, frozen

from benchmarks.report import promise
from schedule_adapters.live import LiveSchedule, SystemClock
from schedule_adapters.service import ScheduleService
from schedule_adapters.sessions import Session, SessionStore
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import SessionTool, TurnInput, TurnOutput
from schedule_adapters.turns import SessionRuntime
from schedule_core import Instant, ScheduleCreateChange
from schedule_core.records import AtScheduleRecord, Prompt, ScheduleId

_SESSIONS, _DUE, _WEIGHED = 100_000, 10_000, 2_000
_TOGETHER: Final = 64
"""How many sessions are opened at once."""
_IDLE_S, _PATIENCE_S = 3, 15
_DAY_S: Final = 86_400
_REMINDER: Final = ScheduleId("schedule-1")
_CLOCK: Final = SystemClock()
_Result = TypeVar("_Result")


@define(eq=False)
class Arrivals:
    """A model that only notes by the wall clock when a reminder's turn began."""

    times: list[Instant] = field(factory=list)

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],  # noqa: ARG002 - the port's shape
        emit: Callable[[TurnOutput], None],  # noqa: ARG002 - the port's shape
    ) -> None:
        assert turn.schedule_id == _REMINDER
        self.times.append(_CLOCK.now())

    async def close(self) -> None:
        """Nothing is held."""


@frozen
class Spent:
    """Seconds that passed, and seconds of CPU; far apart where other work runs beside this."""

    wall_s: float
    cpu_s: float

    @classmethod
    def until_now(cls, since: "Spent") -> "Spent":
        """What was spent since that reading."""
        now = cls.read()
        return cls(now.wall_s - since.wall_s, now.cpu_s - since.cpu_s)

    @classmethod
    def read(cls) -> "Spent":
        """What both clocks show now."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)


@frozen
class Measured:
    """What one side did.

    Attributes:
        start: from the first session, or job, to all of them waiting.
        idle_share: CPU while all of them wait, as a share of one core.
        late_ms: how late each of those came that were due at once, sorted.
        lost: how many of them did not come.
        strays: how many calls came twice, or were not due.
    """

    start: Spent
    idle_share: float
    late_ms: list[int]
    lost: int
    strays: int

    def late_line(self) -> str:
        """The distribution of the lateness, in a few words."""
        p50, p99, most = (self.late(share) for share in (0.5, 0.99, 1))
        return f"late by {p50} ms (median), {p99} ms (99 %), {most} ms (most)"

    def late(self, share: float) -> int:
        """That share of them came no later than this, in ms; 0 if none came at all."""
        last = len(self.late_ms) - 1
        return self.late_ms[min(int(share * len(self.late_ms)), last)] if self.late_ms else 0


def run(make_store: Callable[[], SessionStore] | None = None) -> bool:
    """Measure both sides; the store must be empty, in memory if none is given."""
    make_store = make_store or _memory_store
    owner, session = _alone(_weigh, make_store)
    job = _alone(_weigh_jobs)
    ours = _alone(_serve_all, make_store)
    theirs = _alone(_run_jobs)
    _print_side("session-schedule", ours)
    _print_side("APScheduler 3.11, without logs, barriers and turns", theirs)
    print(
        "        ours to APScheduler's: "
        f"start {ours.start.wall_s / theirs.start.wall_s:.2f} times, lateness "
        f"{ours.late(0.5) / max(theirs.late(0.5), 1):.2f} times (median), "
        f"{ours.late(0.99) / max(theirs.late(0.99), 1):.2f} times (99 %), "
        f"{ours.late(1) / max(theirs.late(1), 1):.2f} times (most)"
    )
    print(
        f"        one whole session, with its log, runtime, tools and owner: {session:.2f} KiB; "
        f"one job of APScheduler's: {job:.2f} KiB"
    )
    early = sum(1 for late_ms in ours.late_ms if late_ms < 0)
    return all(
        [
            promise("memory of one idle owner with a pending reminder", owner, 4, " KiB"),
            promise(f"start of {_SESSIONS:,} sessions", ours.start.wall_s, 20, " s"),
            promise(f"CPU of {_SESSIONS:,} waiting sessions, of one core", ours.idle_share, 0.01),
            promise(f"lost of {_DUE:,} reminders due in the same second", ours.lost, 0),
            promise("reminders that came twice, or where none was due", ours.strays, 0),
            promise("reminders that came early", early, 0),
        ]
    )


def _print_side(name: str, side: Measured) -> None:
    print(
        f"        {name}: start {side.start.wall_s:.1f} s ({side.start.cpu_s:.1f} s of CPU), "
        f"{len(side.late_ms):,} {side.late_line()}"
    )


# What one that waits holds.


async def _weigh(make_store: Callable[[], SessionStore]) -> tuple[float, float]:
    """The KiB of one idle owner, and of one whole session."""
    store = make_store()
    names = await _fill(store, range(_WEIGHED), _in_seconds(_DAY_S))
    driver = Arrivals()
    timers = WallTimers(_CLOCK)
    gc.collect()
    tracemalloc.start()
    sessions = [await store.open(name) for name in names]
    runtimes = [SessionRuntime(session, driver, clock=_CLOCK) for session in sessions]
    without_owner = _traced()
    owners = [
        LiveSchedule(runtime, session, name=name, timers=timers)
        for name, runtime, session in zip(names, runtimes, sessions, strict=True)
    ]
    for owner in owners:
        owner.start()
    await _settle(owners)
    with_owner = _traced()
    removals = [
        runtime.register_tool(tool)
        for runtime, owner in zip(runtimes, owners, strict=True)
        for tool in owner.tools()
    ]
    whole = _traced()
    assert len(removals) == 3 * _WEIGHED, "the service keeps them as well"
    return (with_owner - without_owner) / _WEIGHED, whole / _WEIGHED


async def _weigh_jobs() -> float:
    """The KiB of one job that waits."""
    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.start(paused=True)
    arrivals = Arrivals()
    gc.collect()
    tracemalloc.start()
    _add_jobs(scheduler, [arrivals] * _WEIGHED, _in_seconds(_DAY_S))
    weight = _traced()
    scheduler.shutdown()
    return weight / _WEIGHED


def _traced() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1_024


# Our side.


async def _serve_all(make_store: Callable[[], SessionStore]) -> Measured:
    """Open all sessions, let a part of them fall due at once, and see who came when."""
    store, service = make_store(), ScheduleService(timers=WallTimers(_CLOCK))
    resting = Arrivals()
    began = Spent.read()
    names = await _fill(store, range(_DUE, _SESSIONS), _in_seconds(_DAY_S))
    with _collector_put_off():
        start = await _open(store, service, [(name, resting) for name in names])
        due = _second_for_the_last(began)
        guests = [(name, Arrivals()) for name in await _fill(store, range(_DUE), due)]
        start += await _open(store, service, guests)
    idle_share = await _idle_share(due)
    return await _judge(start, idle_share, due, resting, [each for _, each in guests])


async def _fill(store: SessionStore, numbers: range, due: Instant) -> list[str]:
    """Make sessions that hold one reminder each; gives their names."""
    names = [f"session-{number}" for number in numbers]
    record = AtScheduleRecord(_REMINDER, Prompt("stretch"), due)
    for name in names:
        session = await store.open(name)
        session.append_change(ScheduleCreateChange(record))
        await session.barrier()
        await session.close()
    return names


async def _open(
    store: SessionStore, service: ScheduleService, guests: Sequence[tuple[str, Arrivals]]
) -> Spent:
    """Open sessions until all of them wait for their reminders; gives what that took."""
    began = Spent.read()
    for first in range(0, len(guests), _TOGETHER):
        some = guests[first : first + _TOGETHER]
        opened = await asyncio.gather(*(store.open(name) for name, _ in some))
        served = [
            _serve(service, session, driver)
            for session, (_, driver) in zip(opened, some, strict=True)
        ]
    await _settle(served)
    return Spent.until_now(began)


def _serve(service: ScheduleService, session: Session, driver: Arrivals) -> LiveSchedule:
    runtime = SessionRuntime(session, driver, clock=_CLOCK)
    schedule = service.serve(runtime, session, runtime, name=session.header.id)
    assert schedule is not None
    runtime.start()
    return schedule


async def _settle(schedules: Sequence[LiveSchedule]) -> None:
    """Wait until all of them wait for their reminders, and the loop has forgotten the way."""
    while any(each.state.activity != "waiting" for each in schedules):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)


# Their side.


async def _run_jobs() -> Measured:
    """The same job for APScheduler, with its store in memory."""
    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    resting = Arrivals()
    scheduler.start(paused=True)  # else each job would wake it
    began = Spent.read()
    with _collector_put_off():
        _add_jobs(scheduler, [resting] * (_SESSIONS - _DUE), _in_seconds(_DAY_S))
        due = _second_for_the_last(began)
        guests = [Arrivals() for _ in range(_DUE)]
        _add_jobs(scheduler, guests, due)
        scheduler.resume()
    start = Spent.until_now(began)
    measured = await _judge(start, await _idle_share(due), due, resting, guests)
    scheduler.shutdown()
    return measured


def _add_jobs(scheduler: AsyncIOScheduler, guests: Sequence[Arrivals], due: Instant) -> None:
    date = datetime.fromtimestamp(due / 1_000, UTC)
    for arrivals in guests:
        scheduler.add_job(_arrive, "date", run_date=date, args=(arrivals,))


async def _arrive(arrivals: Arrivals) -> None:
    arrivals.times.append(_CLOCK.now())


# Pieces of both.


@contextmanager
def _collector_put_off() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _in_seconds(seconds: float) -> Instant:
    """The next whole second after that many seconds."""
    return Instant(math.ceil(_CLOCK.now() / 1_000 + seconds) * 1_000)


def _second_for_the_last(began: Spent) -> Instant:
    """A second near enough, with time to open those that fall due in it and to be idle.

    They are opened last, and take their share of what the others took; three times that,
    because the machine may have become slower.
    """
    took_s = Spent.until_now(began).wall_s
    return _in_seconds(3 * took_s * _DUE / (_SESSIONS - _DUE) + _IDLE_S + 2)


async def _idle_share(due: Instant) -> float:
    """CPU while all wait, as a share of one core."""
    assert _CLOCK.now() + _IDLE_S * 1_000 < due, "the second came before all were waiting"
    began = time.process_time()
    await asyncio.sleep(_IDLE_S)
    return (time.process_time() - began) / _IDLE_S


async def _judge(
    start: Spent, idle_share: float, due: Instant, resting: Arrivals, guests: Sequence[Arrivals]
) -> Measured:
    """Wait until all came that fall due at once, or none comes any more, and count."""
    came: list[Arrivals] = []
    give_up = due + _PATIENCE_S * 1_000
    while len(came) < len(guests) and _CLOCK.now() < give_up:
        await asyncio.sleep(0.5)
        before, came = len(came), [each for each in guests if each.times]
        if len(came) > before:
            give_up = _CLOCK.now() + _PATIENCE_S * 1_000
    return Measured(
        start,
        idle_share,
        sorted(each.times[0] - due for each in came),
        lost=len(guests) - len(came),
        strays=len(resting.times) + sum(len(each.times) - 1 for each in came),
    )


def _memory_store() -> SessionStore:
    return MemoryStore(clock=_CLOCK)


def _alone(measure: Callable[..., Coroutine[None, None, _Result]], *arguments: object) -> _Result:
    """Run it in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, measure, *arguments).result()


def _run(measure: Callable[..., Coroutine[None, None, _Result]], *arguments: object) -> _Result:
    return asyncio.run(measure(*arguments))
