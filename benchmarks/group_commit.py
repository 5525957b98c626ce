"""Fifty sessions whose commits are shared, against the same sessions and a commit per event."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from benchmarks.report import promise
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session, SessionStore
from schedule_adapters.stores.urls import open_store
from schedule_adapters.testing.postgres import own_schema

_SESSIONS: Final = 50
_ROUNDS: Final = 5
_ALONE, _TOGETHER = 4, 40
"""Events of each session in one round; either way it lasts long enough to be measured."""


def run() -> bool:
    """Compare the best of alternating rounds, in each store that there is."""
    with TemporaryDirectory(dir=Path.cwd()) as folder:  # where the disk is, not in memory
        return asyncio.run(_measure_all(Path(folder)))


async def _measure_all(folder: Path) -> bool:
    # A file for each session: nothing is shared, but the disk takes several fsyncs at once.
    share = await _share(f"jsonl:{folder / 'logs'}")
    print(f"        JSONL: {share:.2f}, with nothing shared but the disk")
    sqlite = await _share(f"sqlite:{folder / 'sessions.db'}")
    kept = promise(_line("SQLite"), sqlite, 1 / 8)
    try:
        async with own_schema() as url:
            postgres = await _share(url)
    except (pytest.fail.Exception, pytest.skip.Exception):
        print("        PostgreSQL is left out: no server answers")
        return kept
    return promise(_line("PostgreSQL"), postgres, 1 / 4) and kept


def _line(store: str) -> str:
    return f"{store}: time of an event, {_SESSIONS} sessions together / one commit each"


async def _share(url: str) -> float:
    """Measure one store: the time of an event with shared commits, to its time without."""
    async with open_store(url, clock=SystemClock()) as store, _opened(store) as sessions:
        one_at_a_time = asyncio.Semaphore(1)
        rounds = [
            (
                await _event_s(sessions, _ALONE, lambda: one_at_a_time),
                await _event_s(sessions, _TOGETHER, nullcontext),
            )
            for _ in range(_ROUNDS)
        ]
    together = min(together for _, together in rounds)
    return together / min(alone for alone, _ in rounds)


@asynccontextmanager
async def _opened(store: SessionStore) -> AsyncIterator[list[Session]]:
    sessions = [await store.open(f"session-{number}") for number in range(_SESSIONS)]
    await _event_s(sessions, 1, nullcontext)  # the first one makes the session
    yield sessions
    for session in sessions:
        await session.close()


async def _event_s(
    sessions: list[Session],
    events: int,
    turn: Callable[[], AbstractAsyncContextManager[object]],
) -> float:
    """Let every session make so many events durable, each before its next; seconds per event."""

    async def fill(session: Session) -> None:
        for number in range(events):
            async with turn():
                session.append("assistant/chunk", {"turn": number, "text": "x" * 100})
                await session.barrier()

    started = time.perf_counter()
    await asyncio.gather(*map(fill, sessions))
    return (time.perf_counter() - started) / (len(sessions) * events)
