"""Commits that fail, whose outcome is not known, or whose process dies in them."""

import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedule_adapters.sessions import StoreErrorCode
from schedule_adapters.stores.sqlite import SqliteStore, database
from schedule_adapters.stores.sqlite.database import SETTINGS
from tests.adapters.stores.sqlite_world import (
    held,
    opened,
    other_hands,
    refused,
    started,
    types_in,
    write,
)

STRACE = shutil.which("strace")
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is missing: apt install strace")
CHILD = """
import asyncio, os, resource, sys
from pathlib import Path
from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.live import LiveSchedule
from schedule_adapters.sessions import StoreError
from schedule_adapters.stores.sqlite import SqliteStore
from schedule_adapters.testing.stores import SetClock

path = Path(sys.argv[1])

def say(text):
    os.write(1, f"{text}\\n".encode())

async def barrier(session):
    try:
        await session.barrier()
    except StoreError as error:
        say(error.code)
    else:
        say("durable")

async def main():
    store = await SqliteStore.connect(path, clock=SetClock())
    await life(store, await store.open("one"))
    await store.close()
"""
CREATE = """
async def life(store, session):
    schedule = LiveSchedule(AbsentAgent(), session, clock=SetClock())
    for _ in range(4):
        say("create")
        made = await schedule.call_tool(
            "schedule_create", {"prompt": "stretch", "after_seconds": 60}
        )
        assert made["id"], made
        say("created")
    await schedule.close()
    await session.close()

asyncio.run(main())
"""
FAIL = """
async def life(store, session):
    for event_type in ("x/first", "x/second", "x/third"):
        session.append(event_type, {})
        await barrier(session)
    say(store.commits)
    await barrier(session)
    await session.close()

asyncio.run(main())
"""
FILL = """
async def life(store, session):
    session.append("x/first", {})
    await barrier(session)
    size = path.with_name(path.name + "-wal").stat().st_size
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, hard))
    session.append("x/second", {"text": "x" * 50_000})
    await barrier(session)
    await barrier(session)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    session.append("x/third", {})
    await barrier(session)
    await session.close()

asyncio.run(main())
"""
WRITE = """
async def life(store, session):
    for number in range(1_000_000):
        session.append("x/y", {"n": number, "text": "x" * 3_000})
        await session.barrier()
        say(number)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def run(path: Path, script: str, *strace: str) -> list[str]:
    """What a child says, and after that what strace says of it."""
    trace = path.with_name("trace")
    before = [str(STRACE), "-f", "-o", str(trace), *strace] if strace else []
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*before, sys.executable, "-c", CHILD + script, str(path)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    return [*done.stdout.split(), *(trace.read_text().splitlines() if strace else [])]


@needs_strace
def test_a_create_on_an_idle_session_is_one_fsync(path: Path) -> None:
    """Counted by the system, for the first create, which makes the session, and for others."""
    lines = run(path, CREATE, "-e", "trace=fsync,fdatasync,write", "-e", "signal=none")

    signs = {" fsync(": "s", " fdatasync(": "s", '"create\\n': "<", '"created\\n': ">"}
    marks = "".join(sign for line in lines for call, sign in signs.items() if call in line)
    assert re.findall("<(s*)>", marks) == ["s"] * 4


@needs_strace
def test_failed_fsync_is_not_taken_for_a_commit(path: Path) -> None:
    """Refused once, and then written once: by a new connection, behind a whole checkpoint."""
    whole = run(path, FAIL, "-e", "trace=fdatasync,write", "-e", "signal=none")
    first_answer = next(n for n, line in enumerate(whole) if '"durable' in line)
    syncs = _syncs_of_the_writer(whole[:first_answer])
    path.unlink()

    said = run(
        path,
        FAIL,
        *("-e", "trace=fdatasync", "-e", f"inject=fdatasync:error=EIO:when={syncs + 1}"),
    )

    assert said[:5] == ["durable", "write_failed", "durable", "2", "durable"]
    assert sum("INJECTED" in line for line in said) == 1
    assert asyncio.run(types_in(path, "one")) == ["x/first", "x/second", "x/third"]


def _syncs_of_the_writer(lines: list[str]) -> int:
    """How often the thread that synced last had synced by then; strace counts by thread."""
    threads = [line.split()[0] for line in lines if "fdatasync(" in line]
    return threads.count(threads[-1])


def test_full_disk_is_refused_until_there_is_room(path: Path) -> None:
    """The system lets no file grow any more; later it does, and nothing was lost or doubled."""
    said = run(path, FILL)

    assert said == ["durable", "write_failed", "write_failed", "durable"]
    assert asyncio.run(types_in(path, "one")) == ["x/first", "x/second", "x/third"]


@pytest.mark.parametrize("acknowledged", [1, 7, 30])
def test_killed_process_loses_nothing_that_was_confirmed(path: Path, acknowledged: int) -> None:
    """Killed while it commits, over and over; the next owner is let in at once."""
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", CHILD + WRITE, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(acknowledged)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()

    assert said == [f"{number}\n" for number in range(len(said))]

    async def go_on() -> list[Any]:
        async with opened(path) as store:
            session = await store.open("one")
            session.append("x/next", {})
            await session.barrier()
            await session.close()
            return [event.data for event in (await store.read("one")).events if "x/" in event.type]

    *found, last = asyncio.run(go_on())
    assert last == {}
    assert [data["n"] for data in found] == list(range(len(found)))
    assert len(said) <= len(found) <= len(said) + 1


async def test_busy_database_is_refused_and_the_next_barrier_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program keeps it to itself for too long."""
    monkeypatch.setitem(SETTINGS, "busy_timeout", 10)
    monkeypatch.setattr(database, "_BUSY_MS", 10)
    async with opened(path) as store:
        session = await write(store, "one", "x/first")
        with held(path):
            session.append("x/second", {})
            for _ in range(2):
                error = await refused(session.barrier(), StoreErrorCode.WRITE_FAILED)
            assert "SQLITE_BUSY" in error.message or "stays in use" in error.message
        await session.barrier()
        await session.close()

    assert await types_in(path, "one") == ["x/first", "x/second"]


class LostAnswer:
    """A connection whose next commit does, or does not, take effect, and says it failed."""

    def __init__(self, connection: sqlite3.Connection, *, commits: bool) -> None:
        self._connection = connection
        self._commits = commits

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        if statement != "COMMIT":
            return self._connection.execute(statement, *arguments)  # type: ignore[arg-type]
        if self._commits:
            self._connection.execute(statement)
        raise sqlite3.OperationalError("disk I/O error")


async def lose_next_answer(store: SqliteStore, *, commits: bool) -> None:
    writer = store._engine.writer

    def lose() -> None:
        assert writer._connection is not None
        writer._connection = LostAnswer(writer._connection, commits=commits)  # type: ignore[assignment]

    await asyncio.wrap_future(store._engine._writing.submit(lose))


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
async def test_lines_that_come_again_stand_there_once(
    path: Path, *, commits: bool, more: bool, is_new: bool
) -> None:
    """Whether the commit in doubt took effect or not; alone, or with more lines behind them."""
    async with opened(path) as store:
        session = await write(store, "one", *([] if is_new else ["x/first"]))
        await lose_next_answer(store, commits=commits)
        session.append("x/second", {})
        await refused(session.barrier(), StoreErrorCode.WRITE_FAILED)
        if more:
            session.append("x/third", {})

        await session.barrier()

        live = list(session.events_from(0))
        await session.close()
        assert list((await store.read("one")).events) == live
        expected = [*([] if is_new else ["x/first"]), "x/second", *(["x/third"] if more else [])]
    assert await types_in(path, "one") == expected


async def test_all_of_a_commit_in_doubt_are_refused_and_come_again(path: Path) -> None:
    async with opened(path) as store:
        sessions = [await write(store, f"s-{number}", "x/first") for number in range(4)]
        await lose_next_answer(store, commits=True)
        barriers = []
        with held(path):
            for session in sessions:
                session.append("x/second", {})
                barriers.append(await started(session))
        results = await asyncio.gather(*barriers, return_exceptions=True)

        codes = [getattr(result, "code", None) for result in results]
        assert codes[0] == StoreErrorCode.WRITE_FAILED
        assert set(codes) <= {StoreErrorCode.WRITE_FAILED, None}
        for session in sessions:
            await session.barrier()
            await session.close()
    for number in range(4):
        assert await types_in(path, f"s-{number}") == ["x/first", "x/second"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM line WHERE seq = 1",
        "UPDATE line SET seq = 7 WHERE seq = 1",
        "UPDATE session SET header = header || ' '",
        "INSERT INTO line SELECT session, 2, type, text FROM line WHERE seq = 1",
    ],
)
async def test_what_another_program_changed_is_not_built_upon(path: Path, statement: str) -> None:
    """Its own lines stay pending, and no other session is kept from its own."""
    async with opened(path) as store:
        session = await write(store, "one", "x/first")
        with other_hands(path) as connection:
            connection.execute(statement)
        session.append("x/second", {})

        for _ in range(2):
            await refused(session.barrier(), StoreErrorCode.SESSION_TAKEN_OVER)

        await (await write(store, "two", "x/y")).close()
        await session.close()


async def test_a_session_that_appeared_from_elsewhere_is_not_mixed_with(path: Path) -> None:
    """Opened while there was none, and written by somebody else since."""
    async with opened(path) as store:
        await (await write(store, "one", "x/y")).close()
        session = await store.open("new")
        with other_hands(path) as connection:
            connection.execute("INSERT INTO session (name, header) VALUES ('new', '{}')")
        session.append("x/y", {})

        await refused(session.barrier(), StoreErrorCode.SESSION_TAKEN_OVER)
        await session.close()


async def test_lines_of_a_killed_owner_are_durable_before_they_are_read(path: Path) -> None:
    """Connecting leaves an empty WAL behind: what was in it is in the database, and synced."""
    with subprocess.Popen(  # noqa: ASYNC220, S603 - our own interpreter
        [sys.executable, "-c", CHILD + WRITE, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    wal = path.with_name("sessions.db-wal")
    left = _size(wal)

    async with opened(path):
        begun = _size(wal)

    assert left > 10_000
    assert begun < 10_000


def _size(path: Path) -> int:
    return path.stat().st_size
