"""The one connection that writes, used by one thread alone. Every method blocks.

After any failure the connection is thrown away: what its commit did is not known, and a page
cache that lost an fsync still shows the lines. The next one begins with `make_durable`; after
that, what stands in the tables is durable, and lines that come again are told from it.
"""

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.owner_links import OwnerLinks
from schedule_adapters.stores.sqlite.database import (
    begin_wal,
    coded,
    make_durable,
    open_database,
    sqlite_error,
    try_checkpoint,
    wal_path,
)
from schedule_adapters.stores.sqlite.reader import place
from schedule_adapters.stores.sqlite.rows import Batch, Row

_RESTING_WAL: Final = 4 << 20
"""Bytes of WAL that are copied away while nothing waits."""
_LONGEST_WAL: Final = 64 << 20
"""Bytes of WAL that are copied away even while batches wait."""

_SESSION: Final = (
    "SELECT key, header, (SELECT max(seq) FROM line WHERE line.session = key)"
    " FROM session WHERE name = ?"
)
_NEW_SESSION: Final = "INSERT INTO session (name, header) VALUES (?, ?)"
_SINCE: Final = "SELECT seq, type, text FROM line WHERE session = ? AND seq > ? ORDER BY seq"
_NEW_LINE: Final = "INSERT INTO line (session, seq, type, text) VALUES (?, ?, ?, ?)"


class Writer:
    """The writer of one store.

    Attributes:
        commits: how many commits it made; each is one fsync.
    """

    def __init__(self, path: Path, owners: OwnerLinks) -> None:
        """Open the database.

        Raises:
            StoreError: as `open_database`.
        """
        self.commits = 0
        self._path = path
        self._owners = owners
        self._connection: sqlite3.Connection | None = None  # None after a failure
        self._stuck_wal = 0  # its size when it could not be copied away
        with coded(path, StoreErrorCode.STORE_UNAVAILABLE, "the database cannot be used"):
            self._connected()

    def commit(self, batches: Sequence[Batch]) -> list[StoreError | None]:
        """Make batches durable in one transaction; says for each what was wrong with it alone.

        Raises:
            StoreError: none of them is known durable; the next commit tries again.
        """
        with coded(
            self._path,
            StoreErrorCode.WRITE_FAILED,
            "the log could not be written; the next barrier tries again",
        ):
            connection = self._connected()
            try:
                self._bound_wal(connection, _LONGEST_WAL)
                connection.execute("BEGIN IMMEDIATE")
                with contextlib.ExitStack() as claims:
                    outcomes = [self._add(connection, batch, claims) for batch in batches]
                    connection.execute("COMMIT")
            except BaseException:
                self._abandon()
                raise
        self.commits += None in outcomes
        return outcomes

    def rest(self) -> None:
        """Do what can wait: copy a long WAL into the database."""
        if self._connection is not None:
            try:
                self._bound_wal(self._connection, _RESTING_WAL)
            except (sqlite3.Error, OSError):
                self._abandon()  # every commit so far is durable; the next one begins anew

    def close(self) -> None:
        """Give the connection back, the WAL copied away if that can be done now."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                try_checkpoint(self._connection)
            self._abandon()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = open_database(self._path)
            try:
                make_durable(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._stuck_wal = connection, 0
        return self._connection

    def _abandon(self) -> None:
        if self._connection is not None:
            self._connection.close()  # rolls back what is open
            self._connection = None

    def _bound_wal(self, connection: sqlite3.Connection, limit: int) -> None:
        size = wal_path(self._path).stat().st_size
        if size - self._stuck_wal <= limit:
            return
        if try_checkpoint(connection):
            self._stuck_wal = 0
            begin_wal(connection)
        else:
            self._stuck_wal = size  # whoever reads from it may be stopped; not at each commit

    def _add(
        self, connection: sqlite3.Connection, batch: Batch, claims: contextlib.ExitStack
    ) -> StoreError | None:
        """Add one batch, or leave it out whole; the others of the transaction stay."""
        where = place(self._path, batch.name)
        connection.execute("SAVEPOINT batch")
        try:
            if batch.is_new:
                self._claim_new(batch.name, where, claims)
            _insert(connection, batch, where)
        except (sqlite3.Error, StoreError) as error:
            if not connection.in_transaction:
                raise  # SQLite has rolled everything back
            connection.execute("ROLLBACK TO batch")
            connection.execute("RELEASE batch")
            if isinstance(error, StoreError):
                return error
            return sqlite_error(
                error, where, StoreErrorCode.WRITE_FAILED, "the log could not be written"
            )
        connection.execute("RELEASE batch")
        return None

    def _claim_new(self, name: str, where: str, claims: contextlib.ExitStack) -> None:
        """Keep everybody out of a session until it is there."""
        try:
            self._owners.claim(name)
        except StoreError as error:
            raise _exists(where) from error  # new, and open for writing right now
        claims.callback(self._owners.release, name)


def _insert(connection: sqlite3.Connection, batch: Batch, where: str) -> None:
    found = connection.execute(_SESSION, (batch.name,)).fetchone()
    if found is None:
        if batch.after != -1:
            raise _taken_over(where)
        key = connection.execute(_NEW_SESSION, (batch.name, batch.header)).lastrowid
        rows = batch.rows
    else:
        if batch.is_new:
            raise _exists(where)
        key, header, last = found
        if header != batch.header.encode():
            raise _taken_over(where)
        rows = batch.rows if _ends_before(batch, last) else _missing(connection, key, batch, where)
    connection.executemany(_NEW_LINE, ((key, *row) for row in rows))


def _ends_before(batch: Batch, last: int | None) -> bool:
    """Whether the stored log ends where the batch begins."""
    return last == batch.after or (last is None and batch.after == -1)


def _missing(connection: sqlite3.Connection, key: int, batch: Batch, where: str) -> Sequence[Row]:
    """The rows of a batch that an earlier try did not write."""
    stored = [
        (seq, kind.decode(), text.decode())
        for seq, kind, text in connection.execute(_SINCE, (key, batch.after))
    ]
    if not stored or stored != list(batch.rows[: len(stored)]):
        raise _taken_over(where)
    return batch.rows[len(stored) :]


def _exists(where: str) -> StoreError:
    return StoreError(StoreErrorCode.SESSION_EXISTS, "there is such a session", where=where)


def _taken_over(where: str) -> StoreError:
    return StoreError(
        StoreErrorCode.SESSION_TAKEN_OVER,
        "another program wrote to the session; close it and open it again",
        where=where,
    )
