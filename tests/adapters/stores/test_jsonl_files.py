"""What the JSONL store leaves on the disk, and what it makes of what it finds there."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.disk import Disk
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.log_format import event_line, header_line
from schedule_adapters.testing.disks import FaultyDisk
from schedule_adapters.testing.stores import START, SetClock
from schedule_core.ports import SessionEvent
from schedule_core.records import ScheduleDeleteChange, ScheduleId

HEADER = (
    b'{"type":"session","version":0,"id":"one","createdAt":1796000000000,"delegationDepth":0}\n'
)
FIRST_BATCH = (
    b'{"type":"log/checkpoint","seq":0,"time":1796000000000,"data":{"durable":-1},'
    b'"ignorable":true}\n'
    b'{"type":"x/y","seq":1,"time":1796000000000,"data":{"n":1},"ignorable":true}\n'
)
TORN = b'{"type":"x/y","seq":2,"ti'


class UnsyncedDisk(Disk):
    """A disk for hundreds of short lives: what it would survive is not the question."""

    def fsync(self, descriptor: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


def tree(root: Path) -> list[str]:
    """Every file and folder below the root."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def folder_of(root: Path, name: str = "one") -> Path:
    return root / "_no-cwd" / name


def put(root: Path, content: bytes, *, project: str = "_no-cwd") -> Path:
    """Lay a log there as if another program had."""
    path = root / project / "one" / "session.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path, clock=SetClock())


async def test_new_log_byte_for_byte(tmp_path: Path, store: JsonlStore) -> None:
    """The layout that the original reads: header, checkpoint, events; ours ignorable."""
    session = await store.open("one")
    session.append("x/y", {"n": 1})
    await session.barrier()
    session.append_change(ScheduleDeleteChange(ScheduleId("schedule-1")))
    await session.barrier()
    await session.close()

    assert (folder_of(tmp_path) / "session.jsonl").read_bytes() == (
        HEADER + FIRST_BATCH + b'{"type":"log/checkpoint","seq":2,"time":1796000000000,'
        b'"data":{"durable":1},"ignorable":true}\n'
        b'{"type":"schedule/change","seq":3,"time":1796000000000,'
        b'"data":{"version":1,"operation":"delete","id":"schedule-1"}}\n'
    )
    assert tree(folder_of(tmp_path)) == ["session.jsonl", "session.lock"]


async def test_nothing_is_left_of_a_session_never_written(
    tmp_path: Path, store: JsonlStore
) -> None:
    """No folder and no lock file, not even that of the project."""
    session = await store.open("one")
    session.append("x/y", {})
    await session.close()

    assert tree(tmp_path) == []


async def test_folders_that_others_use_stay(tmp_path: Path, store: JsonlStore) -> None:
    """Tidying up takes only what is empty."""
    other, session = await store.open("two"), await store.open("one")
    (folder_of(tmp_path) / "note").write_bytes(b"")
    await session.close()

    assert tree(tmp_path) == [
        "_no-cwd", "_no-cwd/one", "_no-cwd/one/note", "_no-cwd/two", "_no-cwd/two/session.lock",
    ]  # fmt: skip
    await other.close()


async def test_files_and_folders_are_private(tmp_path: Path) -> None:
    """0600 and 0700, whatever the umask allows."""
    root = tmp_path / "a" / "root"
    old = os.umask(0)
    try:
        store = JsonlStore(root, clock=SetClock())
        session = await store.open("one")
        session.append("x/y", {"n": 1})
        await session.barrier()
        await session.close()
        with (folder_of(root) / "session.jsonl").open("ab") as log:
            log.write(TORN)
        session = await store.open("one")
        session.append("x/y", {"n": 2})
        await session.barrier()
        await session.close()
        await store.fork("one", "child")
    finally:
        os.umask(old)

    paths = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}
    folders = {path.name for path in paths if path.is_dir()}
    assert len(modes) == len(folders) + 3
    assert modes == {name: 0o700 if name in folders else 0o600 for name in modes}


async def test_symbolic_links_are_refused(tmp_path: Path, store: JsonlStore) -> None:
    """A link in place of the log or of its folder is neither read, followed nor replaced."""
    target = tmp_path / "elsewhere"
    target.write_bytes(HEADER + FIRST_BATCH)
    folder_of(tmp_path).mkdir(parents=True)
    (folder_of(tmp_path) / "session.jsonl").symlink_to(target)
    real = tmp_path / "real"
    real.mkdir()
    (real / "session.jsonl").write_bytes(HEADER + FIRST_BATCH)
    folder_of(tmp_path, "two").symlink_to(real)

    for name in ("one", "two"):
        for attempt in (store.open(name), store.read(name), store.fork(name, "child")):
            with pytest.raises(StoreError, match="links") as caught:
                await attempt
            assert caught.value.code == StoreErrorCode.UNSUPPORTED_LOG

    assert target.read_bytes() == HEADER + FIRST_BATCH


async def test_lock_file_may_not_be_a_link(tmp_path: Path, store: JsonlStore) -> None:
    """Or locking would write a number into a file of somebody's choice."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (put(tmp_path, HEADER).parent / "session.lock").symlink_to(victim)

    with pytest.raises(StoreError, match="links"):
        await store.open("one")
    assert victim.read_bytes() == b"precious"


async def test_a_pipe_is_not_a_log(tmp_path: Path, store: JsonlStore) -> None:
    """Opening one must not wait for its other end."""
    folder_of(tmp_path).mkdir(parents=True)
    os.mkfifo(folder_of(tmp_path) / "session.jsonl")

    for attempt in (store.read("one"), store.open("one")):
        with pytest.raises(StoreError) as caught:
            await attempt
        assert caught.value.code == StoreErrorCode.STORE_UNAVAILABLE


async def test_unusable_root_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    for root in (tmp_path / "file", tmp_path / "file" / "deeper"):
        store = JsonlStore(root, clock=SetClock())
        for attempt in (store.open("one"), store.read("one"), store.session_ids()):
            with pytest.raises(StoreError) as caught:
                await attempt
            assert caught.value.code == StoreErrorCode.STORE_UNAVAILABLE


async def test_existing_session_is_found_in_any_project(tmp_path: Path, store: JsonlStore) -> None:
    """The original derives the project from the working directory; the id is what counts."""
    put(tmp_path, HEADER + FIRST_BATCH, project="-home-demo")

    session = await store.open("one")

    assert session.path == tmp_path / "-home-demo" / "one" / "session.jsonl"
    assert session.length == 2
    assert await store.session_ids() == ["one"]
    await session.close()


async def test_one_id_in_two_projects_is_an_error(tmp_path: Path, store: JsonlStore) -> None:
    """Neither is guessed to be the right one."""
    put(tmp_path, HEADER + FIRST_BATCH, project="a")
    put(tmp_path, HEADER + FIRST_BATCH, project="b")

    for attempt in (store.open("one"), store.read("one"), store.fork("one", "child")):
        with pytest.raises(StoreError, match="2 projects") as caught:
            await attempt
        assert caught.value.code == StoreErrorCode.CORRUPT_LOG
    assert await store.session_ids() == ["one"]


async def test_fork_lies_beside_its_parent(tmp_path: Path, store: JsonlStore) -> None:
    """Same project and same working directory: the original would look for it there."""
    header = HEADER.replace(b'"delegation', b'"cwd":"/home/demo","delegation')
    put(tmp_path, header + FIRST_BATCH, project="-home-demo")

    await store.fork("one", "child")

    assert (tmp_path / "-home-demo" / "child" / "session.jsonl").read_bytes() == (
        b'{"type":"session","version":0,"id":"child","createdAt":1796000000000,'
        b'"cwd":"/home/demo","parentSession":"one","seedLength":2,"delegationDepth":0}\n'
        + FIRST_BATCH
        + b'{"type":"session/end-seed","seq":2,"time":1796000000000,"data":{}}\n'
    )


async def test_header_must_name_the_folders_session(tmp_path: Path, store: JsonlStore) -> None:
    """A copied folder is not a second session."""
    put(tmp_path, HEADER.replace(b'"one"', b'"two"') + FIRST_BATCH)

    with pytest.raises(StoreError, match="another session") as caught:
        await store.open("one")
    assert caught.value.code == StoreErrorCode.CORRUPT_LOG


async def test_bad_sessions_are_listed_and_hurt_no_other(tmp_path: Path, store: JsonlStore) -> None:
    """Listing opens no log; foreign names and folders without a log are passed over."""
    put(tmp_path, b"rubbish")
    for name in ("bad name", "~", "empty"):
        folder_of(tmp_path, name).mkdir()
    (tmp_path / "a-file").write_bytes(b"")
    (tmp_path / "_no-cwd" / "a-file").write_bytes(b"")
    session = await store.open("two")
    session.append("x/y", {})
    await session.barrier()
    await session.close()

    assert await store.session_ids() == ["one", "two"]


async def test_corrupt_log_is_refused_and_untouched(tmp_path: Path, store: JsonlStore) -> None:
    """Neither opened nor read nor cut; the error says file, line and byte."""
    content = HEADER + FIRST_BATCH + TORN + b"\n" + event_line(
        SessionEvent("log/checkpoint", {"durable": 2}, seq=3, time=START)
    )  # fmt: skip
    path = put(tmp_path, content)

    for attempt in (store.open("one"), store.read("one"), store.fork("one", "child")):
        with pytest.raises(StoreError) as caught:
            await attempt
        error = caught.value
        assert error.code == StoreErrorCode.CORRUPT_LOG
        assert (error.where, error.line) == (str(path), 4)
        assert error.offset == len(HEADER + FIRST_BATCH)

    assert path.read_bytes() == content
    await _lock_is_free(store)


async def test_opening_a_torn_log_changes_nothing(tmp_path: Path, store: JsonlStore) -> None:
    """Only the first write repairs: one who only looks leaves the evidence alone."""
    path = put(tmp_path, HEADER + FIRST_BATCH + TORN)

    session = await store.open("one")
    await session.barrier()
    torn = session.torn
    await session.close()

    assert torn is not None
    assert torn.offset == len(HEADER + FIRST_BATCH)
    assert path.read_bytes() == HEADER + FIRST_BATCH + TORN
    assert tree(path.parent) == ["session.jsonl", "session.lock"]


async def test_torn_tail_is_saved_aside_and_cut(tmp_path: Path, store: JsonlStore) -> None:
    """Never glued to: the next event stands where the last durable one ended."""
    path = put(tmp_path, HEADER + FIRST_BATCH + TORN)
    session = await store.open("one")
    assert session.length == 2

    session.append("x/y", {"n": 2})
    await session.barrier()
    await session.close()

    saved = path.with_name(f"session.jsonl.torn-{len(HEADER + FIRST_BATCH)}-0")
    assert saved.read_bytes() == TORN
    assert path.read_bytes().startswith(HEADER + FIRST_BATCH + b'{"type":"log/checkpoint"')
    reread = await store.read("one")
    assert [event.seq for event in reread.events] == [0, 1, 2, 3]


async def test_saved_tails_never_overwrite_each_other(tmp_path: Path, store: JsonlStore) -> None:
    """Two crashes at the same place leave two files."""
    path = put(tmp_path, HEADER + FIRST_BATCH + b"first tail")
    offset = len(HEADER + FIRST_BATCH)
    for tail in (b"first tail", b"second tail"):
        path.write_bytes(HEADER + FIRST_BATCH + tail)
        session = await store.open("one")
        session.append("x/y", {})
        await session.barrier()
        await session.close()

    saved = [path.with_name(f"session.jsonl.torn-{offset}-{n}").read_bytes() for n in (0, 1)]
    assert saved == [b"first tail", b"second tail"]


async def test_last_batch_torn_at_every_byte_is_repaired(tmp_path: Path) -> None:
    """Wherever a crash cut the last batch: what came before is there, and writing goes on."""
    store = JsonlStore(tmp_path, clock=SetClock(), disk=UnsyncedDisk())
    session = await store.open("one")
    session.append("x/y", {"n": 1})
    await session.barrier()
    durable = session.path.read_bytes()
    session.append("x/y", {"n": 2})
    session.append("x/y", {"text": "é😀"})
    await session.barrier()
    await session.close()
    whole = session.path.read_bytes()
    line_ends = {i + 1 for i in range(len(durable), len(whole)) if whole[i] == ord("\n")}

    for size in range(len(durable), len(whole)):
        session.path.write_bytes(whole[:size])
        again = await store.open("one")
        kept = again.length
        again.append("x/z", {})
        await again.barrier()
        await again.close()

        assert kept == 2 + sum(end <= size for end in line_ends)
        events = (await store.read("one")).events
        assert list(events) == list(again.events_from(0))
        assert [event.seq for event in events] == list(range(kept + 2))


async def test_whole_batch_of_nul_is_a_torn_tail(tmp_path: Path, store: JsonlStore) -> None:
    """What a power cut leaves when the size was written and the content was not."""
    put(tmp_path, HEADER + FIRST_BATCH + b"\0" * 4096)

    session = await store.open("one")
    session.append("x/y", {})
    await session.barrier()
    await session.close()

    assert len((await store.read("one")).events) == 4


async def test_fork_of_a_torn_parent_leaves_the_tail_behind(
    tmp_path: Path, store: JsonlStore
) -> None:
    """It was never committed; and the parent is only read."""
    path = put(tmp_path, HEADER + FIRST_BATCH + TORN)

    header = await store.fork("one", "child")

    assert header.seed_length == 2
    assert path.read_bytes() == HEADER + FIRST_BATCH + TORN
    assert [e.type for e in (await store.read("child")).events] == [
        "log/checkpoint", "x/y", "session/end-seed",
    ]  # fmt: skip


async def test_fork_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = JsonlStore(tmp_path, clock=SetClock(), disk=disk)
    put(tmp_path, HEADER + FIRST_BATCH)
    before = tree(tmp_path)

    for call in ("write", "fsync", "publish"):
        disk.fail(call)
        with pytest.raises(StoreError) as caught:
            await store.fork("one", "child")
        assert caught.value.code == StoreErrorCode.WRITE_FAILED
        assert tree(tmp_path) == before


async def test_foreign_seed_length_reaches_the_fold_unjudged(
    tmp_path: Path, store: JsonlStore
) -> None:
    put(tmp_path, HEADER.replace(b'"delegation', b'"seedLength":"7","delegation'))

    session = await store.open("one")

    assert session.seed_length == "7"
    await session.close()


async def test_create_costs_one_fsync_of_the_log(tmp_path: Path) -> None:
    """The first write as well as each later one on an idle session; folders only at first."""
    disk = FaultyDisk()
    session = await JsonlStore(tmp_path, clock=SetClock(), disk=disk).open("one")

    costs = []
    for _ in range(3):
        before = (session.fsyncs, disk.calls["fsync"], disk.calls["sync_folder"])
        session.append("x/y", {})
        await session.barrier()
        await session.barrier()
        after = (session.fsyncs, disk.calls["fsync"], disk.calls["sync_folder"])
        costs.append(tuple(now - then for now, then in zip(after, before, strict=True)))

    assert costs == [(1, 1, 3), (1, 1, 0), (1, 1, 0)]
    await session.close()


async def test_left_over_of_a_dead_creator_is_removed(tmp_path: Path, store: JsonlStore) -> None:
    """It died before its first write had a name, so nothing of it was ever confirmed."""
    folder_of(tmp_path).mkdir(parents=True)
    (folder_of(tmp_path) / "session.jsonl.tmp").write_bytes(b"half a header")

    assert await store.session_ids() == []
    await (await store.open("one")).close()

    assert tree(tmp_path) == []


async def test_foreign_writer_is_noticed(tmp_path: Path, store: JsonlStore) -> None:
    """Another program that appends without our lock is neither overwritten nor glued to."""
    path = put(tmp_path, HEADER + FIRST_BATCH)
    session = await store.open("one")
    foreign = header_line(session.header)
    with path.open("ab") as log:
        log.write(foreign)

    session.append("x/y", {})
    with pytest.raises(StoreError) as caught:
        await session.barrier()
    await session.close()

    assert "another program" in str(caught.value.__cause__)
    assert path.read_bytes() == HEADER + FIRST_BATCH + foreign


async def test_cancelled_open_gives_the_lock_back(tmp_path: Path) -> None:
    """Whoever gives up while the file is still being read leaves no lock behind."""
    put(tmp_path, HEADER + FIRST_BATCH)
    store = JsonlStore(tmp_path, clock=SetClock())

    opening = asyncio.ensure_future(store.open("one"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    # The read runs in a thread; its end is the next callback of the loop's own executor.
    await asyncio.get_running_loop().shutdown_default_executor()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    # A second store in this thread: the loop has no executor left.
    store._open("one", START)._release()


async def _lock_is_free(store: JsonlStore) -> None:
    """The same refusal again, not `session_locked`."""
    with pytest.raises(StoreError) as caught:
        await store.open("one")
    assert caught.value.code == StoreErrorCode.CORRUPT_LOG
