"""A real SQLite file for `sql_lives`: connections that fail, processes that are killed."""

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, cast
from unittest.mock import patch

from attrs import define, field

from schedule_adapters.sessions import SessionStore, StoreError
from schedule_adapters.stores.sqlite import SqliteStore, database
from schedule_adapters.testing.simulation.oracles import Oracle, require
from schedule_adapters.testing.stores import SetClock
from tests.adapters.stores.sqlite_world import opened, other_hands
from tests.simulation.sql_lives import POISON, live

_STRICT: Final = {"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1}
_BUSY_MS: Final = 1_000
_MOST_STATEMENTS: Final = 9


@define
class FailingConnection:
    """A connection whose n-th statement fails, before or after it takes effect, if it comes."""

    connection: sqlite3.Connection
    countdown: int
    takes_effect: bool
    only_commit: bool

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)

    def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        return self._do("execute", statement, *arguments)

    def executemany(self, statement: str, *arguments: object) -> sqlite3.Cursor:
        return self._do("executemany", statement, *arguments)

    def _do(self, method: str, statement: str, *arguments: object) -> sqlite3.Cursor:
        if self.only_commit and statement != "COMMIT":
            return cast("sqlite3.Cursor", getattr(self.connection, method)(statement, *arguments))
        self.countdown -= 1
        if self.countdown != -1:
            return cast("sqlite3.Cursor", getattr(self.connection, method)(statement, *arguments))
        if self.takes_effect:
            getattr(self.connection, method)(statement, *arguments)
        raise sqlite3.OperationalError("disk I/O error")


@define
class SqliteMedium:
    """One database file."""

    path: Path
    has_leases: bool = False
    _stores: list[SqliteStore] = field(factory=list)

    async def store(self) -> SessionStore:
        store = await SqliteStore.connect(self.path, clock=SetClock())
        self._stores.append(store)
        return store

    async def kill(self, store: SessionStore) -> None:
        """Its locks are gone, its links and its WAL are left."""
        owners = _of(store)._engine.owners
        while owners._seats:
            os.close(owners._seats.popitem()[1])
        before = _wal_salts(self.path)
        async with opened(self.path):
            after = _wal_salts(self.path)
        require(
            before != after, Oracle.CONFIRMED_KEPT, "what a killed owner left was not made durable"
        )

    async def nap(self, seconds: int) -> None:
        raise AssertionError("there is no lease here")

    async def heartbeat(self, store: SessionStore) -> None:
        raise AssertionError("there is no lease here")

    @asynccontextmanager
    async def together(self, store: SessionStore) -> AsyncIterator[None]:
        gate = threading.Event()
        _of(store)._engine._writing.submit(gate.wait)
        try:
            yield
        finally:
            gate.set()

    @asynccontextmanager
    async def trouble(self, store: SessionStore, random: Random) -> AsyncIterator[None]:
        """A statement fails; what comes then begins anew."""
        only_commit = random.random() < 0.5
        countdown = 0 if only_commit else random.randrange(_MOST_STATEMENTS)
        writer = _of(store)._engine.writer
        failing: list[FailingConnection] = []

        def arm() -> None:
            if writer._connection is not None:
                takes_effect = random.random() < 0.5
                failing.append(
                    FailingConnection(writer._connection, countdown, takes_effect, only_commit)
                )
                writer._connection = cast("sqlite3.Connection", failing[0])

        def disarm() -> None:
            if failing and writer._connection is cast("sqlite3.Connection", failing[0]):
                writer._connection = failing[0].connection

        await asyncio.wrap_future(_of(store)._engine._writing.submit(arm))
        yield
        await asyncio.wrap_future(_of(store)._engine._writing.submit(disarm))

    async def numbers(self, session_id: str) -> list[int]:
        query = (
            "SELECT text FROM line JOIN session ON session.key = line.session WHERE name = ?"
            " AND type = 'x/y' ORDER BY seq"
        )
        with other_hands(self.path) as connection:
            rows = connection.execute(query, (session_id,)).fetchall()
        return [json.loads(text)["data"]["n"] for (text,) in rows]

    async def intrude(self, session_id: str) -> None:
        with other_hands(self.path) as connection:
            connection.execute(
                "INSERT INTO line SELECT session, max(seq) + 1, 'x/z', '{}' FROM line"
                " WHERE session = (SELECT key FROM session WHERE name = ?)",
                (session_id,),
            )

    async def lose(self, session_id: str) -> None:
        with other_hands(self.path) as connection:
            connection.execute(
                "DELETE FROM line WHERE rowid = (SELECT max(line.rowid) FROM line"
                " JOIN session ON session.key = line.session WHERE name = ?)",
                (session_id,),
            )

    async def require_strict(self, store: SessionStore) -> None:
        def read() -> dict[str, object]:
            connection = _of(store)._engine.writer._connection
            assert connection is not None
            return {n: connection.execute(f"PRAGMA {n}").fetchone()[0] for n in _STRICT}

        found = await asyncio.wrap_future(_of(store)._engine._writing.submit(read))
        require(found == _STRICT, Oracle.CONFIRMED_KEPT, f"the writer has {found}")
        with patch.dict(database.SETTINGS, synchronous=7):  # which no build of SQLite takes
            try:
                await (await SqliteStore.connect(self.path, clock=SetClock())).close()
            except StoreError:
                return
        require(holds=False, oracle=Oracle.CONFIRMED_KEPT, what="a weak setting was not noticed")

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


def live_in_sqlite(seed: int) -> None:
    """Live the life of a seed in a new file.

    Raises:
        Violation: a rule was broken.
    """
    asyncio.run(_live(seed))


async def _live(seed: int) -> None:
    with (
        TemporaryDirectory() as folder,
        patch.dict(database.SETTINGS, busy_timeout=_BUSY_MS),
        patch.object(database, "_BUSY_MS", _BUSY_MS),
    ):
        medium = SqliteMedium(Path(folder) / "sessions.db")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(medium.close)
            async with opened(medium.path):
                pass
            with other_hands(medium.path) as connection:
                connection.execute(
                    f"CREATE TRIGGER refuse BEFORE INSERT ON line WHEN NEW.type = '{POISON}'"
                    " BEGIN SELECT RAISE(ABORT, 'no'); END"
                )
            await live(medium, seed)


def _of(store: SessionStore) -> SqliteStore:
    assert isinstance(store, SqliteStore)
    return store


def _wal_salts(path: Path) -> bytes:
    """What is new in each WAL; none if there is no WAL."""
    wal = database.wal_path(path)
    return wal.read_bytes()[16:24] if wal.exists() else b""
