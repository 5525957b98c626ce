"""Following a session that is open elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from schedule_adapters.sessions import StoreErrorCode
from schedule_core.ports import SessionEvent
from tests.adapters.stores.postgres_world import Database, refusal, write


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with Database.make() as database:
        yield database


async def types(changes: AsyncGenerator[tuple[SessionEvent, ...]], count: int) -> list[str]:
    """The types of the next events, without the checkpoints, as many as asked for."""
    found: list[str] = []
    while len(found) < count:
        events = await anext(changes)
        found += [event.type for event in events if event.type != "log/checkpoint"]
    return found


async def listening(database: Database) -> None:
    """Wait until a follower of this schema listens."""
    asked = (
        "select from pg_stat_activity where query like '%%event_line%%' and state = 'idle' "
        "and application_name = 'session-schedule' and pid <> pg_backend_pid()"
    )
    while not await database.ask(asked):  # noqa: ASYNC110 - not our process
        await asyncio.sleep(0.01)


async def test_follower_gets_what_is_there_and_then_what_comes(database: Database) -> None:
    """In order, from the position it asks for; woken long before it would look by itself."""
    session = await database.store().open("one")
    await write(session, "a", "b")
    async with contextlib.aclosing(database.store(poll_s=3_600).changes("one", 2)) as changes:
        assert await types(changes, 1) == ["b"]
        coming = asyncio.ensure_future(types(changes, 2))
        await asyncio.sleep(0.1)
        await write(session, "c")
        await write(session, "d")

        async with asyncio.timeout(10):
            assert await coming == ["c", "d"]


async def test_follower_looks_by_itself_when_the_word_is_lost(database: Database) -> None:
    """A notification is a hint: rows that come without one are found all the same."""
    session = await database.store().open("one")
    await write(session, "a")
    async with contextlib.aclosing(database.store(poll_s=0.05).changes("one")) as changes:
        assert await types(changes, 1) == ["a"]
        await database.ask(
            "insert into event_line values ('one', 2, gen_random_uuid(), 'b', "
            """'{"type":"b","seq":2,"time":1,"data":{}}')"""
        )

        assert await types(changes, 1) == ["b"]


async def test_follower_goes_on_after_its_connection_was_lost(database: Database) -> None:
    """Nothing is missed and nothing comes twice."""
    session = await database.store().open("one")
    await write(session, "a")
    cable, url = await database.cable()
    async with contextlib.aclosing(database.store(url, poll_s=3_600).changes("one")) as changes:
        assert await types(changes, 1) == ["a"]
        coming = asyncio.ensure_future(types(changes, 1))
        await asyncio.sleep(0.1)
        cable.cut()
        await write(session, "b")

        assert await coming == ["b"]
    assert cable.connections == 2


async def test_follower_of_a_server_that_is_gone_is_told(database: Database) -> None:
    cable, url = await database.cable()
    async with contextlib.aclosing(database.store(url, poll_s=0.05).changes("one")) as changes:
        coming = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        cable.on_request = lambda _: cable.cut()

        assert (await refusal(coming)).code == StoreErrorCode.STORE_UNAVAILABLE


async def test_other_sessions_do_not_concern_a_follower(database: Database) -> None:
    """Their words wake nobody else; one that does not exist yet may come to be."""
    store = database.store()
    other, session = await store.open("other"), await store.open("one")
    async with contextlib.aclosing(database.store(poll_s=0.2).changes("one")) as changes:
        coming = asyncio.ensure_future(types(changes, 1))
        await asyncio.sleep(0.1)
        await write(other, "x")
        await write(session, "a")

        assert await coming == ["a"]


async def test_line_that_no_log_holds_ends_the_following(database: Database) -> None:
    """As reading the log would: loud, with the code, and without its text."""
    await database.ask("insert into event_line values ('one', 0, gen_random_uuid(), 'b', '{')")
    async with contextlib.aclosing(database.store().changes("one")) as changes:
        assert (await refusal(anext(changes))).code == StoreErrorCode.CORRUPT_LOG
