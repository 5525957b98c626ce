"""The tables: made for a newcomer, checked for everybody, upgraded when a person says so."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import AsyncConnection, sql

from schedule_adapters.sessions import StoreErrorCode
from schedule_adapters.stores import postgres
from schedule_adapters.stores.postgres import PostgresStore, schema
from schedule_adapters.stores.postgres.migrating import migrate
from schedule_adapters.stores.postgres.place import parse_place
from schedule_adapters.stores.urls import open_store
from schedule_adapters.testing.postgres import own_schema, server_url
from schedule_adapters.testing.stores import SetClock
from tests.adapters.stores.postgres_world import Database, refusal, write

REVISION = "select version_num from session_schedule_version"
TO_A_NEWER_ONE = "update session_schedule_version set version_num = '9999'"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A schema that does not exist yet."""
    async with own_schema() as url:
        yield url


async def run(url: str, command: str) -> list[tuple[object, ...]]:
    """Run one command, or ask one question, in a schema that exists."""
    place = parse_place(url)
    async with await AsyncConnection.connect(place.conninfo, autocommit=True) as connection:
        await connection.execute(
            sql.SQL("set search_path to {}").format(sql.Identifier(place.schema))
        )
        answer = await connection.execute(command.encode())
        return await answer.fetchall() if answer.description else []


async def test_newcomer_names_a_database_and_it_works(url: str) -> None:
    """By the URL alone: schema and tables are made at the first use."""
    async with open_store(url, clock=SetClock()) as store:
        session = await store.open("one")
        session.append("x", {})
        await session.barrier()
        await session.close()

        assert list(await store.session_ids()) == ["one"]


async def test_many_newcomers_at_once_make_it_once(url: str) -> None:
    """They wait for each other, in any number of processes."""
    stores = await asyncio.gather(*(PostgresStore.connect(url, clock=SetClock()) for _ in range(5)))
    for store in stores:
        await store.close()

    rows = await run(url, REVISION)
    assert rows == [(schema.REVISIONS[-1],)]


async def test_older_schema_is_refused_with_the_command(url: str) -> None:
    """Never upgraded in passing: processes of the older version may be at work in it."""
    await asyncio.to_thread(migrate, parse_place(url), schema.REVISIONS[0])

    error = await refusal(PostgresStore.connect(url, clock=SetClock()))

    assert error.code == StoreErrorCode.STORE_UNAVAILABLE
    assert "session-schedule store upgrade" in error.message
    assert await run(url, REVISION) == [("0001",)]


async def test_upgrade_keeps_every_session(url: str) -> None:
    """Forward, in place; doing it again changes nothing."""
    await asyncio.to_thread(migrate, parse_place(url), schema.REVISIONS[0])
    await run(
        url,
        'insert into session values (\'old\', \'{"type":"session","version":0,'
        '"id":"old","createdAt":1}\')',
    )
    await PostgresStore.upgrade(url)
    await PostgresStore.upgrade(url)

    async with open_store(url, clock=SetClock()) as store:
        assert (await store.read("old")).header.created_at == 1


async def test_newer_schema_is_refused(url: str) -> None:
    """By the store, and by an upgrade that would know no way to it."""
    await (await PostgresStore.connect(url, clock=SetClock())).close()
    await run(url, TO_A_NEWER_ONE)

    for attempt in (PostgresStore.connect(url, clock=SetClock()), PostgresStore.upgrade(url)):
        error = await refusal(attempt)
        assert error.code == StoreErrorCode.STORE_UNAVAILABLE
        assert "newer" in error.message


async def test_table_of_something_else_is_left_alone(url: str) -> None:
    """A schema with a table named as one of ours: refused, nothing changed."""
    await run_in_server(f"create schema {parse_place(url).schema}")
    await run(url, "create table session (of_ours int)")

    error = await refusal(PostgresStore.connect(url, clock=SetClock()))

    assert "DuplicateTable" in error.message
    assert await run(url, "select tablename from pg_tables where schemaname = current_schema") == [
        ("session",)
    ]


async def test_user_without_the_right_to_make_it_is_told(url: str) -> None:
    """And with the schema made for it, and the tables in it, the user needs no more."""
    name = f"{parse_place(url).schema}_user"
    await run_in_server(f"create role {name} login")
    await run_in_server(f"grant {name} to current_user")
    poor = f"{url}&options=-crole%3D{name}"
    try:
        error = await refusal(PostgresStore.connect(poor, clock=SetClock()))
        await PostgresStore.upgrade(url)
        place = parse_place(url)
        await run_in_server(f"grant usage on schema {place.schema} to {name}")
        await run_in_server(
            f"grant select, insert, update on all tables in schema {place.schema} to {name}"
        )
        async with open_store(poor, clock=SetClock()) as store:
            session = await store.open("one")
            session.append("x", {})
            await session.barrier()
            await session.close()
    finally:
        await run_in_server(f"drop owned by {name}")
        await run_in_server(f"drop role {name}")

    assert "InsufficientPrivilege" in error.message


async def test_schema_that_is_upgraded_below_a_store_is_noticed_at_the_next_connection() -> None:
    """Whenever a connection is made the schema is looked at again."""
    async with Database.make() as database:
        cable, url = await database.cable()
        session = await database.store(url).open("one")
        await write(session, "x")
        await database.ask(TO_A_NEWER_ONE)
        cable.cut()
        session.append("y", {})

        error = await refusal(session.barrier())

        assert "newer" in error.message


def test_revisions_are_those_of_the_migrations() -> None:
    """The list is written down so that connecting needs no Alembic; here it is compared."""
    config = Config()
    folder = Path(postgres.__file__).with_name("migrations")
    config.set_main_option("script_location", str(folder))
    scripts = ScriptDirectory.from_config(config)

    revisions = [script.revision for script in scripts.walk_revisions()]

    assert tuple(reversed(revisions)) == schema.REVISIONS


def test_changes_have_an_index_of_their_own() -> None:
    """Listing every reminder does not read every conversation."""

    async def main() -> list[tuple[object, ...]]:
        async with Database.make() as database:
            await database.ask("set enable_seqscan = off")
            return await database.ask(
                "explain select line from event_line where type = 'schedule/change'"
            )

    assert "event_line_schedule_change" in str(asyncio.run(main()))


async def run_in_server(command: str) -> None:
    async with await AsyncConnection.connect(server_url(), autocommit=True) as connection:
        await connection.execute(command.encode())
