"""A real PostgreSQL schema for `sql_lives`: lines that are cut, leases that run out."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final
from unittest.mock import patch

from attrs import define, field

from schedule_adapters.sessions import SessionStore, StoreError
from schedule_adapters.stores.postgres import PostgresOptions, PostgresStore, leases, statements
from schedule_adapters.stores.postgres.connecting import Connection
from schedule_adapters.testing.simulation.oracles import Oracle, require
from schedule_adapters.testing.stores import SetClock
from tests.adapters.stores.postgres_world import Cable, Database
from tests.adapters.stores.test_postgres_commits import at, once, refuse_type
from tests.simulation.sql_lives import LEASE_S, POISON, live

_MOST_PIECES: Final = 4
_FAULTS: Final = ("request", "answer", "down", "answer, then down", "killed")


@define
class PostgresMedium:
    """One schema; each store has a line of its own to it."""

    database: Database
    has_leases: bool = True
    slept_s: int = 0
    _cables: dict[PostgresStore, Cable] = field(factory=dict)

    async def store(self) -> SessionStore:
        cable, url = await self.database.cable()
        store = self.database.store(url, lease_s=LEASE_S, renew_s=LEASE_S / 3)
        await store.session_ids()
        self._cables[store] = cable
        return store

    async def kill(self, store: SessionStore) -> None:
        """Nothing of it gets through any more; its leases stay as they are."""
        cable = self._cables[_of(store)]
        cable.on_request = lambda _: cable.cut()
        cable.cut()

    async def nap(self, seconds: int) -> None:
        self.slept_s += seconds
        await self.database.ask(
            "update lease set expires = expires - %s * interval '1 second'", seconds
        )

    def steady_s(self) -> float:
        """What the owners' clocks show: they went on while everything stood still."""
        return time.monotonic() + self.slept_s

    async def heartbeat(self, store: SessionStore) -> None:
        writer = _of(store)._writer
        if writer._leases:
            await writer._renew(list(writer._leases))

    @asynccontextmanager
    async def together(self, store: SessionStore) -> AsyncIterator[None]:
        yield  # what is asked for in one turn of the loop goes out as one

    @asynccontextmanager
    async def trouble(self, store: SessionStore, random: Random) -> AsyncIterator[None]:
        cable = self._cables[_of(store)]
        idle = cable.on_request

        def stay_down() -> None:
            cable.on_request = lambda _: cable.cut()
            cable.cut()

        match random.choice(_FAULTS):
            case "request":
                cable.on_request = once(cable, cable.cut)
            case "answer":
                cable.on_answer = at(random.randrange(_MOST_PIECES), cable.cut)
            case "down":
                cable.on_request = once(cable, stay_down)
            case "answer, then down":
                cable.on_answer = once(cable, stay_down)
            case _:
                await self.database.ask(
                    "select pg_terminate_backend(pid, 1000) from pg_stat_activity"
                    " where pid <> pg_backend_pid() and pid = %s",
                    _writer_pid(_of(store)),
                )
        yield
        cable.on_request = cable.on_answer = idle

    async def numbers(self, session_id: str) -> list[int]:
        rows = await self.database.ask(
            "select line from event_line where session_id = %s and type = 'x/y' order by seq",
            session_id,
        )
        return [json.loads(line)["data"]["n"] for (line,) in rows]

    async def intrude(self, session_id: str) -> None:
        await self.database.ask(
            "insert into event_line (session_id, seq, event_id, type, line)"
            " select session_id, max(seq) + 1, gen_random_uuid(), 'x/z', '{}' from event_line"
            " where session_id = %s group by session_id",
            session_id,
        )

    async def lose(self, session_id: str) -> None:
        await self.database.ask(
            "delete from event_line e where session_id = %s and seq ="
            " (select max(seq) from event_line l where l.session_id = e.session_id)",
            session_id,
        )

    async def require_strict(self, store: SessionStore) -> None:
        shown = await _of(store)._writer._link.exchange(_show_synchronous_commit)
        require(shown == ("on",), Oracle.CONFIRMED_KEPT, f"the writer has {shown}")
        url = f"{self.database.url}&options=-c%20default_transaction_read_only%3Don"
        try:
            weak = await PostgresStore.connect(url, clock=SetClock(), options=PostgresOptions())
        except StoreError:
            return
        await weak.close()
        require(holds=False, oracle=Oracle.CONFIRMED_KEPT, what="a weak setting was not noticed")


def live_in_postgres(seed: int) -> None:
    """Live the life of a seed in a new schema.

    Raises:
        Violation: a rule was broken.
    """
    asyncio.run(_live(seed))


async def _live(seed: int) -> None:
    async with Database.make() as database:
        await refuse_type(database, POISON)
        medium = PostgresMedium(database)
        with (
            patch.object(leases, "steady_s", medium.steady_s),
            patch.object(statements, "steady_s", medium.steady_s),
        ):
            await live(medium, seed)


async def _show_synchronous_commit(connection: Connection) -> tuple[object, ...] | None:
    return await (await connection.execute("show synchronous_commit")).fetchone()


def _writer_pid(store: PostgresStore) -> int:
    connection = store._writer._link._connection
    return -1 if connection is None else connection.info.backend_pid


def _of(store: SessionStore) -> PostgresStore:
    assert isinstance(store, PostgresStore)
    return store
