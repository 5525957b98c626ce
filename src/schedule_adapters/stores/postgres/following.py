"""What the owner of a session appends, as it becomes durable, for readers elsewhere.

NOTIFY is a hint and may be lost, so the table is looked at again after a while whatever
happens. The place to go on from is the session's own numbering, which has one writer and no
gaps; a number drawn for all sessions together would pass over what is still being committed.
"""

import contextlib
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

import psycopg
from psycopg import sql

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.log_format import BadLine, check_following, parse_events
from schedule_adapters.stores.postgres import statements
from schedule_adapters.stores.postgres.connecting import (
    Connection,
    ConnectionLost,
    bounded,
    connect,
)
from schedule_adapters.stores.postgres.place import Place
from schedule_core.ports import SessionEvent

_NOTIFY: Final = "select pg_notify(%s, key) from unnest(%s::text[]) as k (key)"


async def notify(connection: Connection, schema: str, keys: list[str]) -> None:
    """Tell followers that there is something new in these sessions.

    In a transaction of its own, after the commit: one that notifies holds a lock of the
    whole database server while it commits, and this one has nothing to sync.
    """
    await connection.execute(_NOTIFY, [schema, keys])


async def follow(
    place: Place, key: str, position: int, *, answer_s: float, poll_s: float
) -> AsyncGenerator[tuple[SessionEvent, ...]]:
    """The durable events from a position on, in order, some at a time; it never ends.

    Raises:
        StoreError: `store_unavailable`, and one may go on later from the position reached;
            `corrupt_log`.
    """
    listening = sql.SQL("listen {}").format(sql.Identifier(place.schema))
    while True:
        connection = await connect(place, answer_s)
        try:
            await bounded(connection, place, answer_s, lambda c: c.execute(listening))
            while True:
                read = partial(statements.read_lines, key=key, after=position - 1)
                page = await bounded(connection, place, answer_s, read)
                events = _events([line for _, _, line in page], position, f"{place.where} {key}")
                if events:
                    position += len(events)
                    yield events
                else:
                    await _woken(connection, key, poll_s)
        except ConnectionLost:
            continue  # what was said meanwhile is in the table
        finally:
            await connection.close()


def _events(lines: list[str], position: int, where: str) -> tuple[SessionEvent, ...]:
    events: list[SessionEvent] = []
    try:
        for line in lines:
            found = parse_events(line.encode())
            check_following(found, position + len(events))
            events += found
    except BadLine as bad:
        raise StoreError(StoreErrorCode.CORRUPT_LOG, str(bad), where=where) from None
    return tuple(events)


async def _woken(connection: Connection, key: str, poll_s: float) -> None:
    """Wait for a word about this session, for a while; returns at once if nobody can say it."""
    with contextlib.suppress(psycopg.OperationalError):  # the next look finds out
        async with contextlib.aclosing(connection.notifies(timeout=poll_s)) as notifications:
            async for notification in notifications:
                if notification.payload == key:
                    return
