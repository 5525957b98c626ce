"""A connection that keeps the promise of a barrier, made anew after it was lost.

Every wait ends: the server is told to give up a statement, the system notices a peer that
vanished, and a server that took a statement and says nothing is cut off from this side.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.postgres.place import Place
from schedule_adapters.stores.postgres.schema import check_revision, read_revision, upgrade

Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
_Result = TypeVar("_Result")

_OLDEST_SERVER: Final = 130_000
_SETTINGS: Final = """
select set_config('search_path', quote_ident(%(schema)s), false),
       -- Durable here is the least; who asks for more (remote_apply) keeps it.
       set_config('synchronous_commit', case current_setting('synchronous_commit')
                  when 'remote_apply' then 'remote_apply' else 'on' end, false),
       -- The statements rely on rows being read again after a wait for their lock.
       set_config('default_transaction_isolation', 'read committed', false),
       -- Each a little earlier than we give up, for then the connection stays good.
       set_config('lock_timeout', %(lock_ms)s, false),
       set_config('statement_timeout', %(statement_ms)s, false),
       set_config('idle_in_transaction_session_timeout', %(statement_ms)s, false)
"""
_READ_BACK: Final = """
select name, setting from pg_settings where name = any(%s)
union all select 'in_recovery', case when pg_is_in_recovery() then 'on' else 'off' end
"""
_REQUIRED: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "in_recovery": (frozenset({"off"}), "the server is a standby; connect to its primary"),
    "default_transaction_read_only": (frozenset({"off"}), "nothing can be written"),
    "fsync": (frozenset({"on"}), "a power cut would lose what was confirmed"),
    "full_page_writes": (frozenset({"on"}), "a power cut could tear a page of the log"),
    "synchronous_commit": (
        frozenset({"on", "remote_apply"}),
        "a crash would lose what was confirmed",
    ),
    "transaction_isolation": (frozenset({"read committed"}), "a lease could not be checked"),
    "server_encoding": (frozenset({"UTF8"}), "it cannot hold every text"),
    "client_encoding": (frozenset({"UTF8"}), "it cannot carry every text"),
}
"""What must be set, and what would happen otherwise."""


class ConnectionLost(StoreError):  # noqa: N818 - what happened, not a fault of anybody
    """The connection was lost; whether the statement under way took effect is not known."""


def refusal(settings: Mapping[str, str]) -> str | None:
    """Why a server with these settings cannot keep the promise; None if it can."""
    if int(settings.get("server_version_num", "0")) < _OLDEST_SERVER:
        return f"the server is older than PostgreSQL {_OLDEST_SERVER // 10_000}"
    for name, (allowed, consequence) in _REQUIRED.items():
        value = settings.get(name)
        if value not in allowed:
            return f"{name} is {value}: {consequence}"
    return None


async def connect(place: Place, answer_s: float) -> Connection:
    """Make one connection in autocommit mode and check what it promises.

    Raises:
        StoreError: `store_unavailable`.
    """
    connection = await _dial(place, answer_s)
    try:
        await bounded(connection, place, answer_s, partial(_settle, place=place, answer_s=answer_s))
        revision = await bounded(connection, place, answer_s, read_revision)
        if revision is None:
            await upgrade(place)
            revision = await bounded(connection, place, answer_s, read_revision)
        check_revision(revision, place)
    except BaseException:
        await connection.close()
        raise
    return connection


async def bounded(
    connection: Connection,
    place: Place,
    answer_s: float,
    work: Callable[[Connection], Awaitable[_Result]],
) -> _Result:
    """Do one exchange with the server, which has so long to answer.

    Raises:
        ConnectionLost: the outcome is not known.
        StoreError: `store_unavailable`; the server refused it, and nothing was changed.
    """
    watch = asyncio.get_running_loop().call_later(answer_s, _cut, connection)
    try:
        return await work(connection)
    except psycopg.Error as error:
        what = f"{type(error).__name__} ({error.sqlstate})"
    finally:
        watch.cancel()
    # Out here, so that the server's error is no part of it: its details may repeat a row.
    if connection.closed:
        raise ConnectionLost(
            StoreErrorCode.STORE_UNAVAILABLE,
            "the connection to the database was lost",
            where=place.where,
        )
    raise _unavailable(place, f"the database refused it: {what}")


async def _dial(place: Place, answer_s: float) -> Connection:
    try:
        async with asyncio.timeout(answer_s):
            return await AsyncConnection.connect(place.conninfo, autocommit=True)
    except TimeoutError:
        reason = f"it does not answer within {answer_s:g} s"
    except psycopg.Error as error:
        # What libpq says here is about the way to the server, never about what is stored.
        text = " ".join(str(error).split())
        reason = text if place.hides(text) else "it was refused"
    raise _unavailable(place, f"no connection to the database: {reason}")


async def _settle(connection: Connection, place: Place, answer_s: float) -> None:
    """Set what is ours to set, and refuse a server that keeps no promise."""
    limits = {"lock_ms": f"{answer_s * 500:.0f}", "statement_ms": f"{answer_s * 800:.0f}"}
    await connection.execute(_SETTINGS, {"schema": place.schema, **limits})
    names = [*_REQUIRED, "server_version_num"]
    rows = await (await connection.execute(_READ_BACK, [names])).fetchall()
    reason = refusal(dict(rows))
    if reason is not None:
        raise _unavailable(place, reason)


class Link:
    """At most one connection, used by one caller at a time, made anew when it was lost."""

    def __init__(self, place: Place, answer_s: float) -> None:
        self._place = place
        self._answer_s = answer_s
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._closed = False

    async def exchange(self, work: Callable[[Connection], Awaitable[_Result]]) -> _Result:
        """Do `work` with the connection; on another one, from the start, if it gets lost.

        So the work must be one that does no harm when it is done twice, even when the
        first time takes effect after the second.

        Raises:
            ConnectionLost: lost twice; what became of it is not known.
            StoreError: `store_unavailable`; it was not done.
        """
        async with self._lock:
            try:
                return await self._attempt(work)
            except ConnectionLost:
                return await self._attempt(work)

    async def close(self) -> None:
        """Close the connection, once who uses it has ended."""
        async with self._lock:
            self._closed = True
            await self._drop()

    async def _attempt(self, work: Callable[[Connection], Awaitable[_Result]]) -> _Result:
        if self._closed:
            raise _unavailable(self._place, "the store is closed")
        if self._connection is None:
            self._connection = await connect(self._place, self._answer_s)
        connection = self._connection
        try:
            return await bounded(connection, self._place, self._answer_s, work)
        except asyncio.CancelledError:
            # The server was asked to give up the statement; when that comes too late, it
            # would hit the next one.
            await self._drop()
            raise
        finally:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _cut(connection: Connection) -> None:
    """Make whoever waits for the server see that the connection is lost."""
    with (
        contextlib.suppress(psycopg.Error, OSError),  # it is lost already
        socket.socket(fileno=os.dup(connection.fileno())) as ours,
    ):
        ours.shutdown(socket.SHUT_RDWR)


def _unavailable(place: Place, reason: str) -> StoreError:
    return StoreError(StoreErrorCode.STORE_UNAVAILABLE, reason, where=place.where)
