"""What the memory store adds to the contract: barriers that fail when told to."""

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.stores import SetClock


async def test_failed_barrier_leaves_everything_live_and_pending() -> None:
    """As on a real disk; the next barrier makes it good."""
    broken = True
    store = MemoryStore(clock=SetClock(), fail_barriers=lambda: broken)
    session = await store.open("one")
    event = session.append("x/y", {})

    with pytest.raises(StoreError) as caught:
        await session.barrier()
    assert caught.value.code == StoreErrorCode.WRITE_FAILED
    assert await store.session_ids() == []
    assert list(session.events_from(event.seq)) == [event]

    broken = False
    await session.barrier()

    assert (await store.read("one")).events[-1] == event


async def test_barrier_with_nothing_to_do_never_fails() -> None:
    """There is nothing it could be uncertain of."""
    session = await MemoryStore(clock=SetClock(), fail_barriers=lambda: True).open("one")

    await session.barrier()
