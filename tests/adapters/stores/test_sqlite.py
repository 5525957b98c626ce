"""Sessions in one SQLite file: the contract of every store, and what this one adds to it."""

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from schedule_adapters.sessions import SessionStore, StoreErrorCode
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.stores.sqlite import SqliteStore, database
from schedule_adapters.testing.stores import FOREIGN, SessionStoreContract, SetClock
from schedule_core.ports import SCHEDULE_EVENT_TYPE, Clock
from tests.adapters.stores.sqlite_world import (
    held,
    opened,
    other_hands,
    refused,
    started,
    types_in,
    write,
)


class TestSqliteStore(SessionStoreContract):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "new" / "folder" / "sessions.db"

    async def make_store(self, clock: Clock) -> SessionStore:
        return await SqliteStore.connect(self.path, clock=clock)

    async def restarted(self, store: SessionStore) -> SessionStore:
        return await SqliteStore.connect(self.path, clock=SetClock())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


class TestRows:
    async def test_each_line_is_a_row_byte_for_byte(self, path: Path) -> None:
        """A packed row of the published original, which holds several events, is one row."""
        async with opened(path) as store:
            await store.adopt(FOREIGN)
            session = await write(store, "foreign", "x/y")
            await session.close()
            text = await store.export("foreign")

        with other_hands(path) as connection:
            rows = connection.execute("SELECT seq, type, text FROM line ORDER BY seq").fetchall()
            [header] = connection.execute("SELECT header FROM session").fetchone()
        assert [(seq, kind) for seq, kind, _ in rows] == [
            (0, "x/y"),
            (1, "assistant/chunk"),
            (4, "log/checkpoint"),
            (5, "x/y"),
        ]
        assert "\n".join([header, *(line for _, _, line in rows), ""]).encode() == (
            text.header_line + text.lines
        )

    async def test_rows_of_earlier_commits_never_change(self, path: Path) -> None:
        async with opened(path) as store:
            session = await write(store, "one", "x/a", "x/b")
            with other_hands(path) as connection:
                before = connection.execute("SELECT rowid, * FROM line").fetchall()
                session.append("x/c", {})
                await session.barrier()
                after = connection.execute("SELECT rowid, * FROM line").fetchall()
            await session.close()

        assert after[: len(before)] == before

    async def test_a_copy_from_files_and_back_is_the_same(self, tmp_path: Path, path: Path) -> None:
        clock = SetClock()
        files = JsonlStore(tmp_path / "files", clock=clock)
        session = await files.open("one")
        for number in range(3):
            session.append("x/y", {"n": number})
            await session.barrier()
        await session.close()
        text = await files.export("one")

        async with opened(path) as store:
            await store.adopt(text)
            assert await store.export("one") == text
            back = JsonlStore(tmp_path / "back", clock=clock)
            await back.adopt(await store.export("one"))

        assert await back.export("one") == text

    async def test_sessions_with_reminders_are_found_by_their_index(self, path: Path) -> None:
        """The partial index holds the schedule events alone, and answers without the lines."""
        async with opened(path) as store:
            for session_id, event_type in (("a", "x/y"), ("b", SCHEDULE_EVENT_TYPE)):
                await (await write(store, session_id, event_type)).close()
            assert await store.scheduled_ids() == ["b"]
            assert await store.session_ids() == ["a", "b"]

        with other_hands(path) as connection:
            plan = connection.execute(
                "EXPLAIN QUERY PLAN SELECT session FROM line WHERE type = 'schedule/change'"
            ).fetchall()
        assert "USING COVERING INDEX schedule_line" in str(plan)


class TestGroupCommit:
    async def test_batches_that_wait_share_one_commit(self, path: Path) -> None:
        async with opened(path) as store:
            sessions = [await store.open(f"s-{number}") for number in range(20)]
            with held(path):
                barriers = []
                for session in sessions:
                    session.append("x/y", {})
                    barriers.append(await started(session))
            await asyncio.gather(*barriers)

            assert store.commits <= 2  # the first may have begun with less than all of them
            for session in sessions:
                await session.close()

    async def test_a_batch_never_joins_a_commit_that_began_before_it(self, path: Path) -> None:
        """A barrier shares only a flush that started after it was asked for."""
        async with opened(path) as store:
            early, late = await store.open("early"), await store.open("late")
            with held(path):
                early.append("x/y", {})
                first = await started(early)
                while store._engine._commits._waiting:  # noqa: ASYNC110 - a thread takes it
                    await asyncio.sleep(0.001)
                late.append("x/y", {})
                second = await started(late)
                assert len(store._engine._commits._waiting) == 1
            await asyncio.gather(first, second)

            assert store.commits == 2
            await early.close()
            await late.close()

    async def test_a_refused_batch_leaves_the_others_of_its_commit(self, path: Path) -> None:
        async with opened(path) as store:
            sessions = [await write(store, name, "x/first") for name in ("a", "b", "c", "d")]
            with other_hands(path) as connection:
                connection.execute(
                    "INSERT INTO line SELECT session, 99, type, text FROM line"
                    " WHERE session = (SELECT key FROM session WHERE name = 'c')"
                    " ORDER BY seq LIMIT 1"
                )
            commits = store.commits
            with held(path):
                barriers = []
                for session in sessions:
                    session.append("x/second", {})
                    barriers.append(await started(session))
            a, b, c, d = await asyncio.gather(*barriers, return_exceptions=True)

            assert [a, b, d] == [None, None, None]
            assert getattr(c, "code", None) == StoreErrorCode.SESSION_TAKEN_OVER
            assert store.commits <= commits + 2
            for session in sessions:
                await session.close()
        assert await types_in(path, "d") == ["x/first", "x/second"]

    async def test_a_flush_of_a_loop_that_ends_is_whole(self, path: Path) -> None:
        """Cancelling every task, as `asyncio.run` does, does not tear the commit apart."""

        def another_loop() -> None:
            async def leave_early() -> None:
                store = await SqliteStore.connect(path, clock=SetClock())
                stores.append(store)
                session = await store.open("one")
                session.append("x/y", {})
                await started(session)

            asyncio.run(leave_early())

        stores: list[SqliteStore] = []
        await asyncio.to_thread(another_loop)
        await stores[0].close()

        assert await types_in(path, "one") == ["x/y"]


class TestOwners:
    async def test_another_store_of_the_file_is_refused_too(self, path: Path) -> None:
        async with opened(path) as store, opened(path) as other:
            session = await store.open("one")

            error = await refused(other.open("one"), StoreErrorCode.SESSION_LOCKED)

            assert error.message == f"the session is open in process {os.getpid()}"
            await session.close()
            await (await other.open("one")).close()

    async def test_a_session_costs_no_descriptor(self, path: Path) -> None:
        async with opened(path) as store:
            before = descriptors()
            sessions = [await store.open(f"s-{number}") for number in range(300)]
            after = descriptors()
            for session in sessions:
                await session.close()

        assert after == before

    async def test_cancelled_opening_leaves_the_session_free(self, path: Path) -> None:
        async with opened(path) as store:
            opening = asyncio.ensure_future(store.open("one"))
            await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await store.session_ids()  # what the reader does next; the opening is over then
            await asyncio.sleep(0)

            await (await store.open("one")).close()

    async def test_a_damaged_session_stays_free(self, path: Path) -> None:
        """Refusing to open it takes no right to it."""
        async with opened(path) as store:
            await (await write(store, "one", "x/y")).close()
            with other_hands(path) as connection:
                connection.execute("UPDATE line SET text = 'x' WHERE seq = 0")
            for _ in range(2):
                await refused(store.open("one"), StoreErrorCode.CORRUPT_LOG)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class TestClosing:
    async def test_commits_under_way_are_finished_first(self, path: Path) -> None:
        store = await SqliteStore.connect(path, clock=SetClock())
        session = await store.open("one")
        with held(path):
            session.append("x/y", {})
            barrier = await started(session)
            closing = asyncio.ensure_future(store.close())
            await asyncio.sleep(0)
        await asyncio.gather(barrier, closing)
        await session.close()

        assert await types_in(path, "one") == ["x/y"]

    async def test_nothing_is_left_beside_the_file_but_the_folder_of_owners(
        self, path: Path
    ) -> None:
        async with opened(path) as store:
            session = await write(store, "one", "x/y")
            await session.close()

        assert sorted(entry.name for entry in path.parent.iterdir()) == [
            "sessions.db",
            "sessions.db.owners",
        ]
        assert list((path.parent / "sessions.db.owners").iterdir()) == []

    async def test_closed_store_refuses_everything(self, path: Path) -> None:
        async with opened(path) as store:
            session = await store.open("one")
            session.append("x/y", {})
        for attempt in (
            session.barrier(),
            store.open("two"),
            store.read("one"),
            store.adopt(FOREIGN),
            store.session_ids(),
        ):
            error = await refused(attempt, StoreErrorCode.STORE_UNAVAILABLE)
            assert error.message == "the store is closed"
        await session.close()

    async def test_cancelled_connecting_leaves_nothing_open(self, path: Path) -> None:
        connecting = asyncio.ensure_future(SqliteStore.connect(path, clock=SetClock()))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

        owners = path.parent / "sessions.db.owners"
        while not owners.is_dir() or any(owners.iterdir()):  # noqa: ASYNC110 - a thread does it
            await asyncio.sleep(0.001)
        async with opened(path) as store:
            assert await store.session_ids() == []


async def test_a_long_wal_is_copied_away_while_nothing_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the commit after that is one fsync again: the next WAL has begun."""
    monkeypatch.setattr("schedule_adapters.stores.sqlite.writer._RESTING_WAL", 100_000)
    wal = path.with_name("sessions.db-wal")
    async with opened(path) as store:
        session = await store.open("one")
        for number in range(40):
            session.append("x/y", {"n": number, "text": "x" * 5_000})
            await session.barrier()
        await asyncio.wrap_future(store._engine._writing.submit(lambda: None))
        size = wal.stat().st_size
        await session.close()

    assert 0 < size <= 100_000
    assert len(await types_in(path, "one")) == 40


async def test_a_wal_that_is_never_at_rest_is_bounded(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedule_adapters.stores.sqlite.writer._RESTING_WAL", 1 << 40)
    monkeypatch.setattr("schedule_adapters.stores.sqlite.writer._LONGEST_WAL", 100_000)
    wal = path.with_name("sessions.db-wal")
    async with opened(path) as store:
        session = await store.open("one")
        for number in range(40):
            session.append("x/y", {"n": number, "text": "x" * 5_000})
            await session.barrier()
        size = wal.stat().st_size
        await session.close()

    assert 0 < size <= 130_000


async def test_a_reader_that_stopped_holds_up_no_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The WAL grows meanwhile; the copying is tried again when it has grown as much again."""
    monkeypatch.setattr("schedule_adapters.stores.sqlite.writer._RESTING_WAL", 100_000)
    monkeypatch.setitem(database.SETTINGS, "busy_timeout", 10)
    wal = path.with_name("sessions.db-wal")
    async with opened(path) as store:
        session = await write(store, "one", "x/first")
        sizes = []
        with other_hands(path) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM line").fetchone()
            for _ in range(2):
                for _ in range(20):
                    session.append("x/y", {"text": "x" * 10_000})
                    await session.barrier()
                sizes.append(wal.stat().st_size)
        for _ in range(20):
            session.append("x/y", {"text": "x" * 10_000})
            await session.barrier()
        await asyncio.wrap_future(store._engine._writing.submit(lambda: None))
        sizes.append(wal.stat().st_size)
        await session.close()

    assert 200_000 < sizes[0] < sizes[1]
    assert sizes[2] < 200_000
    assert len(await types_in(path, "one")) == 61


def test_the_library_is_new_enough_here() -> None:
    """Strict tables, and threads."""
    assert sqlite3.sqlite_version_info >= (3, 37)
    assert sqlite3.threadsafety > 0
