"""Sessions in one SQLite file, as the store and the sessions that a program sees."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Self

from schedule_adapters.sessions import (
    SessionHeader,
    SessionSnapshot,
    SessionText,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.flushed_log import FlushedLog
from schedule_adapters.stores.folder_names import canonical_id, encode_id
from schedule_adapters.stores.forking import forked, new_header
from schedule_adapters.stores.log_format import header_line
from schedule_adapters.stores.log_image import LogImage, read_text
from schedule_adapters.stores.sqlite.database import coded
from schedule_adapters.stores.sqlite.engine import Engine
from schedule_adapters.stores.sqlite.reader import StoredLog, place
from schedule_adapters.stores.sqlite.rows import Batch, foreign_rows, own_rows
from schedule_core.instants import Instant
from schedule_core.ports import Clock


class SqliteSession(FlushedLog):
    """One open session; not to be made directly but by `SqliteStore.open`."""

    def __init__(self, engine: Engine, clock: Clock, name: str, log: StoredLog) -> None:
        super().__init__(log.image.header, log.image.events, clock)
        self._engine = engine
        self._name = name
        self._header_text = log.content[: log.image.header_size - 1].decode()
        self._opened_length = self.length
        self._opened_last = log.last

    @property
    def where(self) -> str:
        """The file and the session in it, for errors."""
        return place(self._engine.path, self._name)

    def _write(self, lines: bytes, first_seq: int) -> asyncio.Future[None]:
        # The last row found at opening may be a packed one; ours hold one event each.
        at_opening = first_seq == self._opened_length
        after = self._opened_last if at_opening else first_seq - 1
        batch = Batch(self._name, self._header_text, after, own_rows(lines, first_seq))
        return self._engine.submit(batch)

    def _release(self) -> None:
        self._engine.owners.release(self._name)


class SqliteStore:
    """The sessions in one database file; `connect` makes one.

    Beside the file lie what SQLite needs and the folder of the owners. Not for network file
    systems: neither SQLite's locks nor ours can be relied on there.
    """

    def __init__(self, engine: Engine, *, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    @classmethod
    async def connect(cls, path: Path, *, clock: Clock) -> Self:
        """Open a database file, which is made if there is none.

        Raises:
            StoreError: `store_unavailable`, `corrupt_log`, `unsupported_log`.
        """
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, Engine, path)
        try:
            return cls(await asyncio.shield(opening), clock=clock)
        except asyncio.CancelledError:
            opening.add_done_callback(partial(_close_unclaimed, loop))
            raise

    @property
    def commits(self) -> int:
        """How many commits were made; each is one fsync, whatever it shares."""
        return self._engine.writer.commits

    async def open(self, session_id: str) -> SqliteSession:
        """Open a session for writing; merely opening one writes nothing."""
        opening = self._engine.reading(self._open, session_id, self._clock.now())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_release_unclaimed)  # or nobody could ever open it
            raise

    async def read(self, session_id: str) -> SessionSnapshot:
        """Read what is durable of a session."""
        log = await self._engine.reading(self._read, session_id)
        where = place(self._engine.path, encode_id(session_id))
        return SessionSnapshot(log.image.header, tuple(log.image.events), where)

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        """Make a child of what is durable of the parent."""
        child, batch = await self._engine.reading(
            self._fork, parent_id, child_id, self._clock.now()
        )
        await self._engine.submit(batch)
        return child

    async def export(self, session_id: str) -> SessionText:
        """Read a log's text."""
        return _text(await self._engine.reading(self._read, session_id))

    async def adopt(self, text: SessionText) -> None:
        """Make a session of a text, in one commit."""
        batch = await self._engine.reading(self._new, text)
        await self._engine.submit(batch)

    async def session_ids(self) -> list[str]:
        """The ids of all sessions, good or bad, sorted."""
        return await self._engine.reading(self._engine.reader.ids)

    async def scheduled_ids(self) -> list[str]:
        """The ids of the sessions that ever had a reminder, sorted; reads an index alone."""
        return await self._engine.reading(self._engine.reader.scheduled_ids)

    async def close(self) -> None:
        """Finish the commits under way, empty the WAL, end both threads."""
        await asyncio.to_thread(self._engine.close)

    def _open(self, session_id: str, now: Instant) -> SqliteSession:
        name = encode_id(session_id)
        owners = self._engine.owners
        with coded(
            place(self._engine.path, name),
            StoreErrorCode.STORE_UNAVAILABLE,
            "the session cannot be opened",
        ):
            owners.claim(name)
            try:
                log = self._engine.reader.read(session_id, name)
                if log is None:
                    log = _empty(canonical_id(session_id), now)
                return SqliteSession(self._engine, self._clock, name, log)
            except BaseException:
                owners.release(name)
                raise

    def _read(self, session_id: str) -> StoredLog:
        name = encode_id(session_id)
        log = self._engine.reader.read(session_id, name)
        if log is None:
            raise StoreError(
                StoreErrorCode.SESSION_NOT_FOUND,
                "there is no such session",
                where=place(self._engine.path, name),
            )
        return log

    def _fork(self, parent_id: str, child_id: str, now: Instant) -> tuple[SessionHeader, Batch]:
        encode_id(child_id)
        parent = self._read(parent_id)
        child = forked(_text(parent), len(parent.image.events), child_id, now)
        return child.header, _new_batch(child)

    def _new(self, text: SessionText) -> Batch:
        image = read_text(text, str(self._engine.path))
        return _new_batch(SessionText(image.header, text.header_line, text.lines))


def _new_batch(text: SessionText) -> Batch:
    name = encode_id(text.header.id)
    header = text.header_line[:-1].decode()
    return Batch(name, header, -1, foreign_rows(text.lines), is_new=True)


def _empty(session_id: str, now: Instant) -> StoredLog:
    """A session that is not there yet."""
    header = new_header(session_id, now)
    line = header_line(header)
    return StoredLog(line, LogImage(header, [], len(line), len(line), None), -1)


def _text(log: StoredLog) -> SessionText:
    size = log.image.header_size
    return SessionText(log.image.header, log.content[:size], log.content[size:])


def _close_unclaimed(loop: asyncio.AbstractEventLoop, opening: "asyncio.Future[Engine]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        loop.run_in_executor(None, opening.result().close)


def _release_unclaimed(opening: "asyncio.Future[SqliteSession]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()._release_once()  # noqa: SLF001 - the session has no other owner yet
