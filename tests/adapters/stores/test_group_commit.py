"""Barriers that share flushes: which one may share which."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.jsonl import JsonlSession, JsonlStore
from schedule_adapters.testing.disks import FaultyDisk
from schedule_adapters.testing.stores import SetClock


@pytest.fixture
async def disk() -> AsyncIterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.gate.set()  # or a failed test would leave its thread waiting for ever


@pytest.fixture
async def session(tmp_path: Path, disk: FaultyDisk) -> AsyncIterator[JsonlSession]:
    """An open session with one durable batch; what follows is counted from there."""
    session = await JsonlStore(tmp_path, clock=SetClock(), disk=disk).open("one")
    session.append("x/first", {})
    await session.barrier()
    disk.calls.clear()
    yield session
    disk.gate.set()
    await session.close()


async def started(session: JsonlSession) -> asyncio.Task[None]:
    """A barrier that has begun: it waits for a flush by now, unless it passed at once."""
    barrier = asyncio.ensure_future(session.barrier())
    await asyncio.sleep(0)
    return barrier


async def test_nothing_to_do_costs_nothing(session: JsonlSession, disk: FaultyDisk) -> None:
    await session.barrier()

    assert disk.calls == {}


async def test_waiters_of_the_same_events_share_one_flush(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """Many callers whose events were all there when the flush began cost one fsync."""
    for number in range(10):
        session.append("x/y", {"n": number})

    await asyncio.gather(*(session.barrier() for _ in range(10)))

    assert disk.calls["fsync"] == 1


async def test_later_event_waits_for_a_flush_of_its_own(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """A flush that began before the append cannot confirm it, however long it takes."""
    disk.gate.clear()
    session.append("x/early", {})
    early = await started(session)
    session.append("x/late", {})
    late = await started(session)

    disk.gate.set()
    await early
    late_was_done = late.done()
    await late

    assert not late_was_done
    assert disk.calls["fsync"] == 2


async def test_all_later_events_share_the_next_flush(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """Whatever gathers behind a flush goes out in one."""
    disk.gate.clear()
    session.append("x/early", {})
    barriers = [await started(session)]
    for number in range(10):
        session.append("x/late", {"n": number})
        barriers.append(await started(session))

    disk.gate.set()
    await asyncio.gather(*barriers)

    assert disk.calls["fsync"] == 2


async def test_barrier_without_new_events_joins_the_flush_that_holds_them(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """Events in flight are not durable yet: it waits, and for that flush only."""
    disk.gate.clear()
    session.append("x/y", {})
    first = await started(session)
    second = await started(session)
    assert not second.done()

    disk.gate.set()
    await asyncio.gather(first, second)

    assert disk.calls["fsync"] == 1


async def test_batch_of_a_later_event_names_what_was_durable_when_it_began(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """Not the flush under way: that may still fail."""
    disk.gate.clear()
    session.append("x/early", {})  # seq 3, behind its checkpoint
    early = await started(session)
    session.append("x/late", {})
    disk.gate.set()
    await early
    await session.barrier()

    assert [(e.type, e.data) for e in session.events_from(4)] == [
        ("log/checkpoint", {"durable": 1}),
        ("x/late", {}),
    ]


async def test_sharers_of_a_failed_flush_all_fail(session: JsonlSession, disk: FaultyDisk) -> None:
    """Each with an error of its own, and with the cause."""
    session.append("x/y", {})
    disk.fail("write", code=errno.ENOSPC)

    results = await asyncio.gather(session.barrier(), session.barrier(), return_exceptions=True)

    assert [type(result) for result in results] == [StoreError, StoreError]
    assert results[0] is not results[1]
    assert all(isinstance(r, StoreError) and r.__cause__ is not None for r in results)


async def test_failed_flush_is_not_the_fault_of_later_events(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """Their barrier goes on with a flush of its own, which takes the failed lines along."""
    disk.gate.clear()
    session.append("x/early", {})
    early = await started(session)
    session.append("x/late", {})
    late = await started(session)
    disk.fail("fsync")

    disk.gate.set()
    with pytest.raises(StoreError):
        await early
    await late

    assert disk.calls["replace"] == 1
    await session.barrier()
    assert disk.calls["replace"] == 1


async def test_cancelled_waiter_leaves_the_flush_to_the_others(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """The one that started it included."""
    disk.gate.clear()
    session.append("x/y", {})
    first, second = await started(session), await started(session)

    first.cancel()
    await asyncio.sleep(0)
    assert first.cancelled()
    disk.gate.set()
    await second

    assert disk.calls["fsync"] == 1


async def test_flush_that_nobody_waits_for_still_counts(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """The next barrier joins it instead of writing the lines a second time."""
    disk.gate.clear()
    session.append("x/y", {})
    first = await started(session)
    first.cancel()
    await asyncio.sleep(0)
    second = await started(session)
    disk.gate.set()
    await second

    assert disk.calls["fsync"] == 1


async def test_failure_that_nobody_waits_for_is_silent(
    session: JsonlSession, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """No "exception was never retrieved"; the lines stay pending for the next barrier."""
    disk.gate.clear()
    session.append("x/y", {})
    first = await started(session)
    first.cancel()
    await asyncio.sleep(0)
    disk.fail("fsync")
    disk.gate.set()
    assert session._flush is not None
    await asyncio.wait([session._flush.done])
    await session.barrier()

    assert caplog.records == []
    assert disk.calls["replace"] == 1


async def test_close_waits_for_the_flush_under_way(session: JsonlSession, disk: FaultyDisk) -> None:
    """It gives the lock back only then, and the barrier passes."""
    disk.gate.clear()
    session.append("x/y", {})
    barrier = await started(session)
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0)
    assert not closing.done()

    disk.gate.set()
    await asyncio.gather(barrier, closing)

    assert disk.calls["fsync"] == 1


async def test_close_starts_no_flush(session: JsonlSession, disk: FaultyDisk) -> None:
    """What waited for the next flush is refused, not written."""
    disk.gate.clear()
    session.append("x/early", {})
    early = await started(session)
    session.append("x/late", {})
    late = await started(session)
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0)

    disk.gate.set()
    await asyncio.gather(early, closing)
    with pytest.raises(StoreError) as caught:
        await late

    assert caught.value.code == StoreErrorCode.SESSION_CLOSED
    assert disk.calls["fsync"] == 1


async def test_cancelled_close_still_gives_the_lock_back(
    session: JsonlSession, disk: FaultyDisk, tmp_path: Path
) -> None:
    """Once the flush ends, whether anyone waits for it or not."""
    disk.gate.clear()
    session.append("x/y", {})
    barrier = await started(session)
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0)
    closing.cancel()
    disk.gate.set()
    await barrier

    again = await JsonlStore(tmp_path, clock=SetClock()).open("one")

    assert again.length == session.length
    await again.close()


def test_loop_that_ends_amid_a_flush_leaves_a_whole_batch(tmp_path: Path) -> None:
    """Cancelling every task, as `asyncio.run` does, does not tear the write apart."""
    store = JsonlStore(tmp_path, clock=SetClock())

    async def leave_early() -> None:
        session = await store.open("one")
        session.append("x/y", {})
        await started(session)

    asyncio.run(leave_early())

    events = asyncio.run(store.read("one")).events
    assert [event.type for event in events] == ["log/checkpoint", "x/y"]


class AtOnce(ThreadPoolExecutor):
    """An executor whose work is done before anybody can wait for it."""

    def submit(  # type: ignore[override] # as simple as its one use
        self, fn: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Future[object]:
        future: Future[object] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


async def test_barrier_that_finds_a_flush_just_over_does_not_freeze_the_loop(
    tmp_path: Path,
) -> None:
    """The flush is over, and what follows from that is still to be called: let it be called."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
    session = await JsonlStore(tmp_path, clock=SetClock()).open("one")
    session.append("x/first", {})
    first = asyncio.ensure_future(session.barrier())
    await asyncio.sleep(0)  # the flush begins
    await asyncio.sleep(0)  # and is over
    session.append("x/second", {})

    await session.barrier()

    await first
    await session.close()
