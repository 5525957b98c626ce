"""One live owner, in one process and across processes."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.session_lock import SessionLock
from schedule_adapters.testing.stores import SetClock

OWNER = """
import asyncio, sys
from pathlib import Path
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.testing.stores import SetClock

async def main():
    session = await JsonlStore(Path(sys.argv[1]), clock=SetClock()).open("one")
    session.append("x/confirmed", {})
    await session.barrier()
    session.append("x/pending", {})
    print("open", flush=True)
    sys.stdin.readline()
    await session.close()
    print("closed", flush=True)

asyncio.run(main())
"""


@contextmanager
def owner(root: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the session open, with one confirmed and one pending event."""
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", OWNER, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert line_of(process) == "open"
        yield process
        process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path, clock=SetClock())


async def test_second_opener_in_this_process_is_told_so(tmp_path: Path, store: JsonlStore) -> None:
    """Through another store of the same root as well."""
    session = await store.open("one")

    for other in (store, JsonlStore(tmp_path, clock=SetClock())):
        with pytest.raises(StoreError) as caught:
            await other.open("one")
        assert caught.value.code == StoreErrorCode.SESSION_LOCKED
        assert caught.value.message == f"the session is open in process {os.getpid()}"

    await session.close()


async def test_refused_opener_leaves_the_owner_in_place(store: JsonlStore) -> None:
    """Its refusal removes neither the lock file nor the folder of a session without a log."""
    session = await store.open("one")
    for _ in range(3):
        with pytest.raises(StoreError):
            await store.open("one")

    session.append("x/y", {})
    await session.barrier()
    await session.close()

    assert await store.session_ids() == ["one"]


async def test_owner_in_another_process_is_named(tmp_path: Path, store: JsonlStore) -> None:
    """A second opener is refused; a reader is not."""
    with owner(tmp_path) as process:
        with pytest.raises(StoreError) as caught:
            await store.open("one")
        events = (await store.read("one")).events

    assert caught.value.code == StoreErrorCode.SESSION_LOCKED
    assert caught.value.message == f"the session is open in process {process.pid}"
    assert [event.type for event in events] == ["log/checkpoint", "x/confirmed"]


async def test_killed_owner_frees_the_session(tmp_path: Path, store: JsonlStore) -> None:
    """Its lock ends with it, and what it confirmed is there; no repair, no waiting."""
    with owner(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        session = await store.open("one")

    assert [event.type for event in session.events_from(0)] == ["log/checkpoint", "x/confirmed"]
    await session.close()


async def test_owner_that_closes_frees_the_session(tmp_path: Path, store: JsonlStore) -> None:
    with owner(tmp_path) as process:
        process.stdin.write("\n")  # type: ignore[union-attr] # it is a pipe
        process.stdin.flush()  # type: ignore[union-attr] # as above
        assert line_of(process) == "closed"
        session = await store.open("one")

    await session.close()


async def test_stale_lock_file_is_no_lock(tmp_path: Path, store: JsonlStore) -> None:
    """A process that died leaves the file; only the lock on it counts."""
    folder = tmp_path / "_no-cwd" / "one"
    folder.mkdir(parents=True)
    (folder / "session.lock").write_text("1")

    await (await store.open("one")).close()


def test_removed_lock_file_is_not_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened before its owner removed it, locked after: the next try makes a new file.

    Otherwise two openers would each hold a lock, on two files of one name.
    """
    folder = tmp_path / "project" / "one"
    first = SessionLock.acquire(folder)
    flock = fcntl.flock

    def owner_leaves_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        first.release(keep=False)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", owner_leaves_first)
    second = SessionLock.acquire(folder)

    with pytest.raises(StoreError):
        SessionLock.acquire(folder)
    second.release(keep=False)
    assert list(tmp_path.iterdir()) == []


def test_many_openers_at_once_have_one_owner(tmp_path: Path) -> None:
    """Threads that open and leave without a trace, over and over: never two at a time."""
    owned = Lock()
    folder = tmp_path / "project" / "one"

    def open_and_leave(_: int) -> bool:
        try:
            lock = SessionLock.acquire(folder)
        except StoreError:
            return False
        alone = owned.acquire(blocking=False)
        assert alone
        owned.release()
        lock.release(keep=False)
        return True

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(open_and_leave, range(400)))

    assert any(results)
    assert list(tmp_path.iterdir()) == []
