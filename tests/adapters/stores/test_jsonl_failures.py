"""Disks that fail: what a barrier says then, and what the next one makes good.

The rules are design decision 11: nothing is confirmed that is not certain, nothing is lost
while the session stays open, and a handle whose fsync failed is never trusted again.
"""

import errno
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.jsonl import JsonlSession, JsonlStore
from schedule_adapters.testing.disks import FaultyDisk
from schedule_adapters.testing.stores import SetClock


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> JsonlStore:
    return JsonlStore(tmp_path, clock=SetClock(), disk=disk)


@pytest.fixture
async def session(store: JsonlStore) -> AsyncIterator[JsonlSession]:
    """An open session that holds one durable batch."""
    session = await store.open("one")
    session.append("x/first", {})
    await session.barrier()
    yield session
    await session.close()


async def fails(session: JsonlSession, code: int) -> None:
    """Expect the barrier to fail because of that error of the system."""
    with pytest.raises(StoreError) as caught:
        await session.barrier()
    assert caught.value.code == StoreErrorCode.WRITE_FAILED
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == code


async def all_is_durable(store: JsonlStore, session: JsonlSession) -> None:
    """Expect the file to hold the live log, each event once, and nothing beside it."""
    assert list((await store.read("one")).events) == list(session.events_from(0))
    names = {path.name for path in session.path.parent.iterdir()}
    assert names == {"session.jsonl", "session.lock"}


async def test_short_writes_are_continued(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """A write may take less than it was given without being an error."""
    disk.longest_write = 7
    session.append("x/y", {"text": "é" * 50})

    await session.barrier()

    await all_is_durable(store, session)


async def test_write_that_takes_nothing_ends(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """Or the loop over short writes would never do so."""
    disk.longest_write = 0
    session.append("x/y", {})

    await fails(session, errno.EIO)

    disk.longest_write = 100
    await session.barrier()
    await all_is_durable(store, session)


async def test_full_disk_leaves_no_torn_tail(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """It shows as a short write in a living process: the part is cut back, all stays pending."""
    before = session.path.read_bytes()
    for room in range(60):
        disk.room = room
        session.append("x/y", {"room": room})
        await fails(session, errno.ENOSPC)
        assert session.path.read_bytes() == before

    disk.room = None
    await session.barrier()

    await all_is_durable(store, session)
    assert disk.calls["replace"] == 0


async def test_failed_barrier_leaves_everything_live(
    session: JsonlSession, disk: FaultyDisk
) -> None:
    """The event was added; only its durability is unknown."""
    event = session.append("x/y", {})
    disk.fail("fsync")

    await fails(session, errno.EIO)

    assert list(session.events_from(event.seq)) == [event]


async def test_failed_fsync_poisons_the_handle(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """A second fsync could succeed for pages that the disk never got: a new file is written."""
    old = session.path.stat().st_ino
    session.append("x/y", {"n": 1})
    disk.fail("fsync")
    await fails(session, errno.EIO)

    session.append("x/y", {"n": 2})
    await session.barrier()

    assert session.path.stat().st_ino != old
    assert disk.calls["replace"] == 1
    await all_is_durable(store, session)


async def test_recovered_handle_is_an_ordinary_one(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """After the recovery, appending costs one fsync again and replaces nothing."""
    session.append("x/y", {"n": 1})
    disk.fail("fsync")
    await fails(session, errno.EIO)
    await session.barrier()
    before = session.fsyncs

    session.append("x/y", {"n": 2})
    await session.barrier()

    assert session.fsyncs == before + 1
    assert disk.calls["replace"] == 1
    await all_is_durable(store, session)


async def test_recovery_copies_only_what_was_durable(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """What the page cache shows beyond that is not believed, whatever it is."""
    session.append("x/y", {"n": 1})
    disk.fail("fsync")
    await fails(session, errno.EIO)
    with session.path.open("ab") as log:
        log.write(b"\0" * 4096)

    await session.barrier()

    await all_is_durable(store, session)


async def test_failed_cut_poisons_the_handle(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """A part of a batch is left in the file, so nothing may be appended behind it."""
    disk.room = 10
    session.append("x/y", {})
    disk.fail("truncate")
    await fails(session, errno.ENOSPC)
    disk.room = None

    await session.barrier()

    assert disk.calls["replace"] == 1
    await all_is_durable(store, session)


async def test_closing_a_poisoned_handle_leaves_what_was_durable(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """The next owner must not build on lines that only the page cache holds."""
    before = session.path.read_bytes()
    session.append("x/y", {"n": 1})
    disk.fail("fsync")
    await fails(session, errno.EIO)
    assert session.path.read_bytes() != before

    await session.close()

    assert session.path.read_bytes() == before


async def test_log_is_synced_before_it_is_built_on(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk
) -> None:
    """Its last owner may have been killed between write and fsync: read is not durable."""
    await session.close()
    for call in ("fsync", "sync_folder"):
        disk.fail(call)
        with pytest.raises(StoreError) as caught:
            await store.open("one")
        assert caught.value.code == StoreErrorCode.STORE_UNAVAILABLE

    await (await store.open("one")).close()


async def test_lines_that_only_the_page_cache_holds_are_not_built_on(tmp_path: Path) -> None:
    """After a failed fsync they can be read, and a later fsync passes; the disk lacks them."""
    store = JsonlStore(tmp_path, clock=SetClock())
    session = await store.open("one")
    session.append("x/durable", {})
    await session.barrier()
    on_disk = session.path.stat().st_size
    session.append("x/shown", {})
    await session.barrier()
    await session.close()

    class Disk(FaultyDisk):
        def drop_cache(self, descriptor: int) -> None:
            self.calls["drop_cache"] += self.calls["fsync"]  # after the sync, or it drops nothing
            os.ftruncate(descriptor, on_disk)

    disk = Disk()
    later = await JsonlStore(tmp_path, clock=SetClock(), disk=disk).open("one")

    assert [event.type for event in later.events_from(1)] == ["x/durable"]
    assert disk.calls["drop_cache"] == 1
    await later.close()


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "sync_folder"])
async def test_failed_recovery_is_tried_again(
    store: JsonlStore, session: JsonlSession, disk: FaultyDisk, call: str
) -> None:
    """At whatever step it fails, the log keeps its durable part, and a later barrier succeeds."""
    session.append("x/y", {"n": 1})
    disk.fail("fsync")
    await fails(session, errno.EIO)

    for _ in range(2):
        disk.fail(call)
        await fails(session, errno.EIO)
        assert (await store.read("one")).events[:2] == tuple(session.events_from(0))[:2]
    session.append("x/y", {"n": 2})
    await session.barrier()

    await all_is_durable(store, session)


@pytest.mark.parametrize("call", ["write", "fsync", "publish"])
async def test_failed_creation_leaves_no_log(
    store: JsonlStore, disk: FaultyDisk, call: str
) -> None:
    """No log before the first batch is durable as a whole; the next barrier makes it."""
    session = await store.open("one")
    session.append("x/y", {"n": 1})
    disk.fail(call)

    await fails(session, errno.EIO)
    assert await store.session_ids() == []

    session.append("x/y", {"n": 2})
    await session.barrier()
    await all_is_durable(store, session)
    await session.close()


async def test_creation_whose_name_is_not_durable_is_not_confirmed(
    store: JsonlStore, disk: FaultyDisk
) -> None:
    """The file is there, but a power cut could take its name: the barrier fails."""
    session = await store.open("one")
    session.append("x/y", {"n": 1})
    disk.fail("sync_folder", skip=1)

    await fails(session, errno.EIO)
    session.append("x/y", {"n": 2})
    await session.barrier()

    await all_is_durable(store, session)
    await session.close()


async def test_creation_never_overwrites(store: JsonlStore, tmp_path: Path) -> None:
    """A log that another program made meanwhile stays as it is."""
    session = await store.open("one")
    session.append("x/y", {})
    session.path.write_bytes(b"somebody else's")

    await fails(session, errno.EEXIST)
    await session.close()

    assert session.path.read_bytes() == b"somebody else's"


@pytest.mark.parametrize("call", ["write", "fsync", "sync_folder", "truncate"])
async def test_failed_repair_of_a_torn_tail_is_tried_again(
    store: JsonlStore, disk: FaultyDisk, call: str
) -> None:
    """The tail is saved whole before it is cut, and is never glued to."""
    session = await store.open("one")
    session.append("x/y", {})
    await session.barrier()
    await session.close()
    durable = session.path.read_bytes()
    session.path.write_bytes(durable + b"torn")
    session = await store.open("one")
    session.append("x/y", {"n": 1})

    disk.fail(call)
    await fails(session, errno.EIO)
    assert session.path.read_bytes() == durable + b"torn"
    await session.barrier()
    await session.close()

    saved = list(session.path.parent.glob("*.torn-*"))
    assert {path.read_bytes() for path in saved} == {b"torn"}
    # A saved file whose name is not certain is left, and the tail saved again beside it.
    assert len(saved) == (2 if call == "sync_folder" else 1)
    assert list((await store.read("one")).events) == list(session.events_from(0))


async def test_failed_sync_of_the_cut_poisons_the_handle(
    store: JsonlStore, disk: FaultyDisk
) -> None:
    """The cut is synced before anything is written over it; the recovery saves no second time."""
    session = await store.open("one")
    session.append("x/y", {})
    await session.barrier()
    await session.close()
    durable = session.path.read_bytes()
    session.path.write_bytes(durable + b"torn")
    session = await store.open("one")
    session.append("x/y", {"n": 1})

    disk.fail("fsync", skip=1)  # the first one is that of the saved tail
    await fails(session, errno.EIO)
    assert session.path.read_bytes() == durable
    await session.barrier()
    await session.close()

    saved = list(session.path.parent.glob("*.torn-*"))
    assert [path.read_bytes() for path in saved] == [b"torn"]
    assert disk.calls["replace"] == 1
    assert list((await store.read("one")).events) == list(session.events_from(0))


async def test_every_fault_at_every_step_loses_nothing(tmp_path: Path) -> None:
    """One fault, at the n-th call of each kind, for every n that a short life meets."""
    for call in ("write", "fsync", "truncate", "publish", "replace", "sync_folder"):
        for skip in range(8):
            disk = FaultyDisk()
            disk.fail(call, skip=skip)
            store = JsonlStore(tmp_path / f"{call}-{skip}", clock=SetClock(), disk=disk)
            confirmed = 0
            for _ in range(2):
                try:
                    session = await store.open("one")
                except StoreError:  # the fault met the making of the root
                    session = await store.open("one")
                assert session.length >= confirmed
                for number in range(4):
                    session.append("x/y", {"n": number})
                    try:
                        await session.barrier()
                    except StoreError as error:
                        assert error.code == StoreErrorCode.WRITE_FAILED  # noqa: PT017 - one in many
                    else:
                        confirmed = session.length
                await session.close()
            events = (await store.read("one")).events
            assert [event.seq for event in events] == list(range(len(events)))
            assert len(events) >= confirmed
            assert list(events[:confirmed]) == list(session.events_from(0))[:confirmed]


LIMITED_LIFE = """
import asyncio, resource, sys
from pathlib import Path
from schedule_adapters.sessions import StoreError
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.stores import SetClock

async def main():
    session = await JsonlStore(Path(sys.argv[1]), clock=SetClock()).open("one")
    session.append("x/kept", {})
    await session.barrier()
    size = session.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))
    session.append("x/kept", {"text": "x" * 100})
    try:
        await session.barrier()
    except StoreError as error:
        print(error.code, type(error.__cause__).__name__, session.path.stat().st_size == size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await session.barrier()
    await session.close()

asyncio.run(main())
"""


async def test_real_file_size_limit(tmp_path: Path) -> None:
    """The system's own short write in a living process: cut back, then written once."""
    life = subprocess.run(  # noqa: S603, ASYNC221 - our own interpreter; a test may wait
        [sys.executable, "-B", "-c", LIMITED_LIFE, str(tmp_path)],  # -B: no cut-off .pyc files
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert life.stderr == ""
    assert life.stdout.split() == ["write_failed", "OSError", "True"]
    events = (await JsonlStore(tmp_path, clock=SetClock()).read("one")).events
    assert [e.type for e in events if e.type != "log/checkpoint"] == ["x/kept"] * 2
