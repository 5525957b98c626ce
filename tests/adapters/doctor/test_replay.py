"""Any valid life of a session comes out of every reader as it went in."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.stores import SetClock
from schedule_core.fold import fold_log
from schedule_core.ports import SessionEvent
from tests.adapters.doctor.log_world import Life, agrees, both, lives


@given(lives())
def test_life_is_what_every_reader_says(life: Life) -> None:
    """The doctor either way, the store's reader with the core's fold, and the model."""
    life.check(agrees(life.log()))
    schedules = fold_log([SessionEvent(*event) for event in life.events], life.seed_length)
    assert tuple(life.active.values()) == schedules.active
    assert tuple(life.seen) == schedules.seen


@settings(max_examples=25)
@given(lives(), st.sets(st.integers(0, 12), max_size=2))
def test_life_that_the_store_wrote_is_the_same(life: Life, batches: set[int]) -> None:
    """In batches with checkpoints, forked by the store itself; and torn at the very end."""
    with TemporaryDirectory() as folder:
        log = asyncio.run(_write(Path(folder), life, batches))
    if log is None:
        return
    report = agrees(log)

    assert report.first_fault is None
    assert tuple(life.active.values()) == report.active
    assert tuple(life.seen) == report.seen
    assert (life.dispatched, life.deleted) == (report.dispatched, report.deleted)
    report = agrees(log[:-1])
    assert report.torn is not None
    assert [finding.code.value for finding in report.findings][-2:] == ["torn_tail", "unsaved_tail"]


async def _write(root: Path, life: Life, batches: set[int]) -> bytes | None:
    store = JsonlStore(root, clock=SetClock())
    session = await store.open("parent" if life.seed_length else "one")
    for position in range(len(life.events) + 1):
        if position in batches or position == len(life.events):
            await session.barrier()
        if position == life.seed_length > 0:
            await session.barrier()
            await session.close()
            await store.fork("parent", "one")
            session = await store.open("one")
        if position < len(life.events):
            event_type, data = life.events[position]
            session.append("foreign" if event_type == "log/checkpoint" else event_type, data)
    await session.close()
    return session.path.read_bytes() if session.path.exists() else None


@given(lives(), st.data())
def test_state_never_comes_from_behind_a_cut(life: Life, data: st.DataObject) -> None:
    """Cut anywhere: what is read is the state after the whole lines, and the rest is torn."""
    log = life.log()
    size = data.draw(st.integers(len(log.split(b"\n", 1)[0]) + 1, len(log)))

    report = agrees(log[:size])

    whole = log[: log.rfind(b"\n", 0, size) + 1]
    assert both(whole).active == report.active
    assert (report.torn is not None) == (len(whole) < size)
