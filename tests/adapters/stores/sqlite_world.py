"""What the tests of the SQLite store share: a file, other hands in it, and what it holds."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from schedule_adapters.sessions import Session, StoreError, StoreErrorCode
from schedule_adapters.stores.sqlite import SqliteSession, SqliteStore
from schedule_adapters.testing.stores import SetClock

CHECKPOINT = "log/checkpoint"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    """A store of that file, closed at the end."""
    store = await SqliteStore.connect(path, clock=SetClock())
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def other_hands(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of another program."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextmanager
def held(path: Path) -> Iterator[None]:
    """The time in which another program writes: no commit can begin."""
    with other_hands(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def started(session: Session) -> asyncio.Task[None]:
    """A barrier that has begun: what it waits for is with the writer by now."""
    barrier = asyncio.ensure_future(session.barrier())
    await asyncio.sleep(0)
    return barrier


async def write(store: SqliteStore, session_id: str, *types: str) -> SqliteSession:
    """An open session with one durable batch for each of these types."""
    session = await store.open(session_id)
    for event_type in types:
        session.append(event_type, {})
        await session.barrier()
    return session


async def types_in(path: Path, session_id: str) -> list[str]:
    """The types that a new store finds, without the checkpoints."""
    async with opened(path) as store:
        events = (await store.read(session_id)).events
    return [event.type for event in events if event.type != CHECKPOINT]


async def refused(attempt: Awaitable[object], code: StoreErrorCode) -> StoreError:
    """The error that an attempt ends with, which has that code."""
    with pytest.raises(StoreError) as caught:
        await attempt
    assert caught.value.code == code
    return caught.value
