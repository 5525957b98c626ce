"""The store of sessions in PostgreSQL, and one open session of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Self
from uuid import UUID

from attrs import field, frozen
from attrs.validators import gt

from schedule_adapters.sessions import (
    SessionHeader,
    SessionSnapshot,
    SessionText,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.flushed_log import FlushedLog
from schedule_adapters.stores.folder_names import canonical_id, decode_id, encode_id
from schedule_adapters.stores.forking import forked, new_header
from schedule_adapters.stores.log_format import header_line
from schedule_adapters.stores.log_image import LogImage, read_log, read_text
from schedule_adapters.stores.postgres import statements
from schedule_adapters.stores.postgres.connecting import Link
from schedule_adapters.stores.postgres.following import follow
from schedule_adapters.stores.postgres.leases import Lease
from schedule_adapters.stores.postgres.place import parse_place
from schedule_adapters.stores.postgres.rows import rows_of
from schedule_adapters.stores.postgres.schema import upgrade
from schedule_adapters.stores.postgres.statements import Batch
from schedule_adapters.stores.postgres.writer import HOLDER, Writer
from schedule_core.ports import Clock, SessionEvent


@frozen
class PostgresOptions:
    """How patient a store is.

    Attributes:
        lease_s: how long a session stays locked after its owner was last heard of.
        renew_s: how often a living owner is heard of; a third of that or less.
        answer_s: how long the server has to answer one question.
        poll_s: how long a follower waits for a notification before it looks all the same.
    """

    lease_s: float = field(default=30.0, validator=gt(0))
    renew_s: float = field(default=10.0, validator=gt(0))
    answer_s: float = field(default=10.0, validator=gt(0))
    poll_s: float = field(default=2.0, validator=gt(0))


@frozen
class _Stored:
    """A session as the tables hold it; `tail` is seq and event id of its last line."""

    image: LogImage
    text: SessionText
    tail: tuple[int, UUID] | None
    where: str


class PostgresSession(FlushedLog):
    """One open log; not to be made directly but by `PostgresStore.open`."""

    def __init__(  # noqa: PLR0913 - the parts that opening puts together, each once
        self,
        header: SessionHeader,
        events: list[SessionEvent],
        clock: Clock,
        *,
        lease: Lease,
        writer: Writer,
        where: str,
        on_release: Callable[["PostgresSession"], None],
    ) -> None:
        super().__init__(header, events, clock)
        self._lease = lease
        self._writer = writer
        self._where = where
        self._given_back: asyncio.Future[None] | None = None
        self._on_release = on_release

    @property
    def where(self) -> str:
        """The database and the session's key, for errors."""
        return self._where

    def append(self, event_type: str, data: object) -> SessionEvent:
        """Add one event; see `Session`.

        Raises:
            StoreError: also `session_taken_over`; nothing was added.
        """
        if not self._closed:
            self._lease.check()
        return super().append(event_type, data)

    async def barrier(self) -> None:
        """Return once everything appended before is durable, and the session is still ours.

        The second half matters even with nothing to write: an owner that slept too long
        must not act on what another one may have done since.

        Raises:
            StoreError: also `session_taken_over`, for good, and `store_unavailable`: it
                could not be made certain that the session is ours.
        """
        await super().barrier()
        if not self._closed:
            await self._writer.confirm(self._lease)

    async def close(self) -> None:
        """Give up the right to write, after a flush under way; writes nothing itself."""
        await super().close()
        if self._given_back is not None:
            await asyncio.wait([self._given_back])

    def _write(self, lines: bytes, first_seq: int) -> asyncio.Future[None]:
        rows = rows_of(lines, self._lease.owner, self._events[first_seq : len(self._events)])
        header = header_line(self._header)[:-1].decode() if first_seq == 0 else None
        return self._writer.append(Batch(self._lease, header, rows))

    def _release(self) -> None:
        self._given_back = self._writer.release(self._lease)
        self._on_release(self)


class PostgresStore:
    """The sessions in one schema of one database; on the loop of its first use."""

    def __init__(self, url: str, *, clock: Clock, options: PostgresOptions | None = None) -> None:
        self._place = parse_place(url)
        self._clock = clock
        self._options = options = options or PostgresOptions()
        self._reader = Link(self._place, options.answer_s)
        self._writer = Writer(
            self._place,
            Link(self._place, options.answer_s),
            ttl_s=options.lease_s,
            renew_s=options.renew_s,
        )
        self._open: set[PostgresSession] = set()

    @classmethod
    async def connect(
        cls, url: str, *, clock: Clock, options: PostgresOptions | None = None
    ) -> Self:
        """The store at a URL; its tables are made if it has none.

        Args:
            url: `postgresql://...` as libpq reads it, and `schema=NAME` as one more parameter.
            clock: the wall clock of event times; leases go by the server's clock.
            options: how patient it is.

        Raises:
            StoreError: `store_unavailable`; no way to the database, settings that would
                weaken what a barrier promises, or the schema of another version.
        """
        store = cls(url, clock=clock, options=options)
        await store.session_ids()
        return store

    @staticmethod
    async def upgrade(url: str) -> None:
        """Bring the schema at a URL to this version's; stop what uses it before.

        Raises:
            StoreError: `store_unavailable`; nothing was changed.
        """
        await upgrade(parse_place(url))

    async def open(self, session_id: str) -> PostgresSession:
        """Open a session for writing, which takes its lease; merely opening writes no event."""
        lease = Lease(encode_id(session_id))
        header = new_header(canonical_id(session_id), self._clock.now())
        await self._writer.take(lease)
        try:
            stored = await self._load(lease.key)  # only now: nobody else writes in it
        except BaseException as error:
            given_back = self._writer.release(lease)
            if isinstance(error, StoreError):
                await asyncio.wait([given_back])
            raise
        if stored is not None:
            lease.tail = stored.tail
        session = PostgresSession(
            header if stored is None else stored.image.header,
            [] if stored is None else stored.image.events,
            self._clock,
            lease=lease,
            writer=self._writer,
            where=self._where(lease.key),
            on_release=self._open.discard,
        )
        self._open.add(session)
        return session

    async def read(self, session_id: str) -> SessionSnapshot:
        """Read what is durable of a session; takes no lease."""
        stored = await self._stored(session_id)
        return SessionSnapshot(stored.image.header, tuple(stored.image.events), stored.where)

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        """Make a child, durable and whole when this returns."""
        encode_id(child_id)
        parent = await self._stored(parent_id)
        child = forked(parent.text, len(parent.image.events), child_id, self._clock.now())
        await self._put(child)
        return child.header

    async def export(self, session_id: str) -> SessionText:
        """Read a session's log as text, byte for byte as it was written."""
        return (await self._stored(session_id)).text

    async def adopt(self, text: SessionText) -> None:
        """Make a session of a text, in one transaction."""
        read_text(text, self._place.where)
        await self._put(text)

    async def session_ids(self) -> list[str]:
        """The ids of all sessions, good or bad."""
        ids = map(decode_id, await self._reader.exchange(statements.read_keys))
        return sorted(session_id for session_id in ids if session_id is not None)

    def changes(
        self, session_id: str, position: int = 0
    ) -> AsyncGenerator[tuple[SessionEvent, ...]]:
        """Follow a session that is open elsewhere, on a connection of its own.

        Gives the durable events from index `position` on, some at a time, and never ends;
        close it with `contextlib.aclosing`. A session that does not exist may come to be.

        Raises:
            StoreError: while it is read: `store_unavailable`, `corrupt_log`.
        """
        return follow(
            self._place,
            encode_id(session_id),
            position,
            answer_s=self._options.answer_s,
            poll_s=self._options.poll_s,
        )

    async def close(self) -> None:
        """Close the sessions that are still open, then the connections."""
        await asyncio.gather(*(session.close() for session in list(self._open)))
        await self._writer.close()
        await self._reader.close()

    async def _put(self, text: SessionText) -> None:
        lease = Lease(encode_id(text.header.id))
        work = partial(
            statements.put,
            lease=lease,
            holder=HOLDER,
            header=text.header_line[:-1].decode(),
            rows=rows_of(text.lines, lease.owner),
        )
        try:
            is_made = await self._reader.exchange(work)
        except StoreError as error:
            raise StoreError(
                StoreErrorCode.WRITE_FAILED,
                f"the session could not be written: {error.message}",
                where=self._where(lease.key),
            ) from error
        if not is_made:
            raise StoreError(
                StoreErrorCode.SESSION_EXISTS,
                "there is such a session",
                where=self._where(lease.key),
            )

    async def _stored(self, session_id: str) -> _Stored:
        key = encode_id(session_id)
        stored = await self._load(key)
        if stored is None:
            raise StoreError(
                StoreErrorCode.SESSION_NOT_FOUND,
                "there is no such session",
                where=self._where(key),
            )
        return stored

    async def _load(self, key: str) -> _Stored | None:
        """What the tables hold of a session, as one whole log; None if there is none."""
        header = await self._reader.exchange(partial(statements.read_header, key=key))
        if header is None:
            return None
        header_text = header.encode() + b"\n"
        lines, tail = bytearray(), None
        while page := await self._reader.exchange(
            partial(statements.read_lines, key=key, after=-1 if tail is None else tail[0])
        ):
            for _, _, line in page:
                lines += line.encode() + b"\n"
            tail = page[-1][:2]
        where = self._where(key)
        image = read_log(header_text + lines, where)
        if image.torn is not None:  # a transaction leaves no torn tail
            raise StoreError(
                StoreErrorCode.CORRUPT_LOG,
                image.torn.reason,
                where=where,
                line=image.torn.line,
                offset=image.torn.offset,
            )
        if encode_id(image.header.id) != key:
            raise StoreError(
                StoreErrorCode.CORRUPT_LOG,
                "the header names another session than the table",
                where=where,
                line=1,
                offset=0,
            )
        return _Stored(image, SessionText(image.header, header_text, bytes(lines)), tail, where)

    def _where(self, key: str) -> str:
        return f"{self._place.where} {key}"
