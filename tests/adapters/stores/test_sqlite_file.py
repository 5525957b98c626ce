"""The database file: which one is taken, what is demanded of it, and what damage leads to."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.sqlite import SqliteStore
from schedule_adapters.stores.sqlite.database import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    SETTINGS,
    open_database,
)
from schedule_adapters.testing.stores import SetClock
from tests.adapters.stores.sqlite_world import opened, other_hands, refused, types_in, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def content(path: Path) -> bytes:
    return path.read_bytes()


def keep_private(path: Path) -> None:
    path.chmod(0o600)


def put(path: Path, content: bytes) -> None:
    path.touch()
    path.chmod(0o600)
    path.write_bytes(content)


def spoil(path: Path, kind: str) -> None:
    """Put something else in the place of a file."""
    if path.exists():
        path.rename(path.with_name("elsewhere"))
    make: dict[str, Callable[[], None]] = {
        "link": lambda: path.symlink_to(path.with_name("elsewhere")),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path, 0o600),
        "open to all": lambda: path.touch(0o644),
    }
    make[kind]()


class TestSettings:
    async def test_what_matters_is_read_back(self, path: Path) -> None:
        """The settings of the connection that writes, as SQLite itself tells them."""
        async with opened(path) as store:
            engine = store._engine
            connection = engine.writer._connection
            assert connection is not None

            def read_back() -> dict[str, object]:
                return {
                    name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in SETTINGS
                }

            found = await asyncio.wrap_future(engine._writing.submit(read_back))

        assert found == {
            "busy_timeout": 5_000,
            "trusted_schema": 0,
            "cell_size_check": 1,
            "foreign_keys": 1,
            "journal_mode": b"wal",
            "synchronous": 2,
            "fullfsync": 1,
            "checkpoint_fullfsync": 1,
            "wal_autocheckpoint": 0,
        }

    async def test_the_connection_that_reads_cannot_write(self, path: Path) -> None:
        async with opened(path) as store:
            execute = store._engine.reader._connection.execute
            with pytest.raises(sqlite3.OperationalError):
                await store._engine.reading(execute, "DELETE FROM line")

    @pytest.mark.parametrize(("name", "value"), [("page_size", 1_000), ("no_such_setting", 1)])
    async def test_setting_that_stays_another_one_is_refused(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
    ) -> None:
        """A build or a file system that takes no notice would break the promise in silence."""
        monkeypatch.setitem(SETTINGS, name, value)

        error = await refused(
            SqliteStore.connect(path, clock=SetClock()), StoreErrorCode.STORE_UNAVAILABLE
        )

        assert name in error.message


class TestSchema:
    async def test_a_new_file_gets_the_tables_of_this_version(self, path: Path) -> None:
        async with opened(path):
            pass
        with other_hands(path) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
            assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            tables = connection.execute("PRAGMA table_list").fetchall()
        strict = {name: bool(is_strict) for _, name, _, _, _, is_strict in tables}
        assert strict == {
            "session": True,
            "line": True,
            "sqlite_schema": False,
            "sqlite_temp_schema": False,
        }

    async def test_a_newer_version_is_refused_and_left_alone(self, path: Path) -> None:
        async with opened(path):
            pass
        with other_hands(path) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")

        error = await refused(
            SqliteStore.connect(path, clock=SetClock()), StoreErrorCode.UNSUPPORTED_LOG
        )

        assert error.message == "version 2 of the tables is not known; use a newer release"
        with other_hands(path) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)

    @pytest.mark.parametrize(
        "statement",
        ["CREATE TABLE note (text)", "PRAGMA application_id = 1", "PRAGMA user_version = 1"],
    )
    async def test_the_database_of_another_program_is_left_alone(
        self, path: Path, statement: str
    ) -> None:
        """Even its journal stays as it was."""
        with other_hands(path) as connection:
            connection.execute(statement)
        keep_private(path)
        before = content(path)

        error = await refused(
            SqliteStore.connect(path, clock=SetClock()), StoreErrorCode.UNSUPPORTED_LOG
        )

        assert error.message == "the database belongs to another program"
        assert content(path) == before

    async def test_many_openers_of_a_new_file_make_it_once(self, path: Path) -> None:
        stores = await asyncio.gather(
            *(SqliteStore.connect(path, clock=SetClock()) for _ in range(8))
        )
        for number, store in enumerate(stores):
            await (await write(store, f"s-{number}", "x/y")).close()
        for store in stores:
            assert len(await store.session_ids()) == 8
        for store in stores:
            await store.close()


class TestPrivacy:
    async def test_files_are_private_and_so_are_new_folders(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "deep" / "sessions.db"
        async with opened(path) as store:
            session = await write(store, "one", "x/y")
            modes = {entry.name: mode(entry) for entry in path.parent.iterdir()}
            await session.close()

        assert modes == {
            "sessions.db": 0o600,
            "sessions.db-wal": 0o600,
            "sessions.db-shm": 0o600,
            "sessions.db.owners": 0o700,
        }
        assert [mode(path.parent), mode(path.parent.parent)] == [0o700, 0o700]

    @pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
    @pytest.mark.parametrize("kind", ["link", "folder", "pipe", "open to all"])
    async def test_what_is_no_private_file_is_refused(
        self, path: Path, suffix: str, kind: str
    ) -> None:
        async with opened(path) as store:
            await (await write(store, "one", "x/y")).close()
        spoil(path.with_name(f"{path.name}{suffix}"), kind)

        await refused(SqliteStore.connect(path, clock=SetClock()), StoreErrorCode.STORE_UNAVAILABLE)

    async def test_a_folder_that_all_may_write_is_refused(self, tmp_path: Path) -> None:
        """Anybody could lay files there that SQLite takes for its own."""
        folder = tmp_path / "shared"
        folder.mkdir()
        folder.chmod(0o777)

        await refused(
            SqliteStore.connect(folder / "sessions.db", clock=SetClock()),
            StoreErrorCode.STORE_UNAVAILABLE,
        )

    async def test_any_name_of_a_file_is_taken(self, tmp_path: Path) -> None:
        """Characters that mean something in SQLite's URIs, and bytes that are no text."""
        for name in ("a?mode=memory", "a#b", "a%41", os.fsdecode(b"\xff.db")):
            async with opened(tmp_path / name) as store:
                await (await write(store, "one", "x/y")).close()
            assert (tmp_path / name).stat().st_size > 0


class TestDamage:
    @pytest.mark.parametrize("damaged", [b"x" * 8_192, b"SQLite format 3\0" + b"\xff" * 9_000])
    async def test_what_is_no_database_is_refused(self, path: Path, damaged: bytes) -> None:
        put(path, damaged)

        await refused(SqliteStore.connect(path, clock=SetClock()), StoreErrorCode.CORRUPT_LOG)

        assert content(path) == damaged

    async def test_damage_anywhere_is_coded(self, path: Path) -> None:
        """Whatever page is overwritten or cut off: never an error of SQLite's own."""
        async with opened(path) as store:
            for number in range(4):
                session = await write(store, f"s-{number}", "x/y", "schedule/change")
                session.append("x/long", {"text": "x" * 6_000})
                await session.barrier()
                await session.close()
        whole = content(path)
        outcomes = set()
        for start in range(0, len(whole), 4_096):
            for damaged in (
                whole[:start] + b"\xa5" * 4_096 + whole[start + 4_096 :],
                whole[:start] + bytes(4_096) + whole[start + 4_096 :],
                whole[: start + 100],
            ):
                put(path, damaged)
                outcomes |= await self._codes(path)

        assert outcomes <= {
            StoreErrorCode.CORRUPT_LOG,
            StoreErrorCode.UNSUPPORTED_LOG,
            StoreErrorCode.STORE_UNAVAILABLE,
            StoreErrorCode.SESSION_NOT_FOUND,
            StoreErrorCode.SESSION_TAKEN_OVER,
            StoreErrorCode.WRITE_FAILED,
            StoreErrorCode.SESSION_EXISTS,
        }
        assert StoreErrorCode.CORRUPT_LOG in outcomes

    async def _codes(self, path: Path) -> set[StoreErrorCode]:
        """Do everything with a store; gives the codes of what was refused."""
        codes = set()
        try:
            async with opened(path) as store:
                for number in range(4):
                    try:
                        session = await store.open(f"s-{number}")
                        session.append("x/z", {})
                        try:
                            await session.barrier()
                        finally:
                            await session.close()
                        await store.fork(f"s-{number}", f"f-{number}")
                    except StoreError as error:
                        codes.add(error.code)
                await store.scheduled_ids()
                await store.session_ids()
        except StoreError as error:
            codes.add(error.code)
        return codes

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE line SET text = 'not JSON' WHERE seq = 1",
            'UPDATE line SET text = \'{"type":"x/y","seq":1,"time":1,"data":\' WHERE seq = 1',
            "UPDATE line SET text = CAST(x'ff' AS TEXT) WHERE seq = 1",
            "DELETE FROM line WHERE seq = 0",
            "UPDATE session SET header = '{}'",
            "UPDATE session SET name = 'two'",
        ],
    )
    async def test_a_row_that_is_not_valid_is_corruption(self, path: Path, statement: str) -> None:
        """The last one too: a row is stored whole, so it is never a torn tail."""
        async with opened(path) as store:
            await (await write(store, "one", "x/y")).close()
            with other_hands(path) as connection:
                connection.execute(statement)
            session_id = "two" if "two" in statement else "one"
            for attempt in (
                store.open(session_id),
                store.read(session_id),
                store.export(session_id),
                store.fork(session_id, "child"),
            ):
                await refused(attempt, StoreErrorCode.CORRUPT_LOG)

    async def test_a_header_of_another_version_is_refused(self, path: Path) -> None:
        async with opened(path) as store:
            await (await write(store, "one", "x/y")).close()
            with other_hands(path) as connection:
                connection.execute(
                    "UPDATE session SET header = replace(header, '\"version\":0', '\"version\":1')"
                )
            await refused(store.open("one"), StoreErrorCode.UNSUPPORTED_LOG)

    async def test_errors_repeat_nothing_that_is_stored(self, path: Path) -> None:
        """Neither a line, nor SQLite's own text: the name of its error at most."""
        async with opened(path) as store:
            await (await write(store, "one", "canary/type")).close()
            with other_hands(path) as connection:
                connection.execute("UPDATE line SET text = 'canary' WHERE seq = 1")
            error = await refused(store.read("one"), StoreErrorCode.CORRUPT_LOG)

        assert "canary" not in str(error)
        assert (error.line, error.where) == (3, f"{path} (one)")


async def test_a_relative_path_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes the working directory later, and however often it is connected anew."""
    monkeypatch.chdir(tmp_path)
    async with opened(Path("sessions.db")) as store:
        monkeypatch.chdir("/")
        engine = store._engine
        await asyncio.wrap_future(engine._writing.submit(engine.writer._abandon))
        session = await write(store, "one", "x/y")
        await session.close()
    assert await types_in(tmp_path / "sessions.db", "one") == ["x/y"]


def test_a_missing_file_is_not_made_by_a_connection(path: Path) -> None:
    """Only the maker of a private file makes one."""
    with pytest.raises(StoreError) as caught:
        open_database(path)

    assert caught.value.code == StoreErrorCode.STORE_UNAVAILABLE
    assert not path.exists()
