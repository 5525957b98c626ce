"""Sessions in memory, for tests and examples: the same contract, gone with the store."""

from collections.abc import Callable

from schedule_adapters.sessions import (
    SessionHeader,
    SessionSnapshot,
    SessionText,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.folder_names import canonical_id, encode_id
from schedule_adapters.stores.forking import forked, new_header
from schedule_adapters.stores.live_log import LiveLog
from schedule_adapters.stores.log_format import event_line, header_line
from schedule_adapters.stores.log_image import read_text
from schedule_core.ports import Clock, SessionEvent

_WHERE = "memory"


class MemorySession(LiveLog):
    """One open session; not to be made directly but by `MemoryStore.open`."""

    def __init__(
        self, store: "MemoryStore", header: SessionHeader, events: list[SessionEvent]
    ) -> None:
        super().__init__(header, events, store.clock)
        self._store = store

    async def barrier(self) -> None:
        """Keep everything appended so far; it is durable as far as memory can be.

        Raises:
            StoreError: `write_failed` when the store was told so; all stays pending.
                `session_closed`; it never became durable.
        """
        if self._durable == len(self._events):
            return
        if self._closed:
            raise StoreError(
                StoreErrorCode.SESSION_CLOSED, "the session was closed before this was durable"
            )
        if self._store.fail_barriers():
            raise StoreError(StoreErrorCode.WRITE_FAILED, "told to fail", where=_WHERE)
        _, length = self._take_batch()
        self._store.keep(self._header, self._events[:length])
        self._mark_durable(length)

    async def close(self) -> None:
        """Give up the right to write."""
        if not self._closed:
            self._closed = True
            self._store.release(self._header.id)


class MemoryStore:
    """Sessions that live as long as the store; a closed one keeps what a barrier confirmed.

    Attributes:
        fail_barriers: asked by each barrier that has something to do; True makes it fail.
    """

    def __init__(self, *, clock: Clock, fail_barriers: Callable[[], bool] = lambda: False) -> None:
        self.clock = clock
        self.fail_barriers = fail_barriers
        self._sessions: dict[str, SessionSnapshot] = {}
        self._adopted: dict[str, tuple[SessionText, int]] = {}  # with the number of its events
        self._open: set[str] = set()

    async def open(self, session_id: str) -> MemorySession:
        """Open a session for writing, new or existing."""
        session_id = canonical_id(session_id)
        if session_id in self._open:
            raise StoreError(
                StoreErrorCode.SESSION_LOCKED, "the session is open already", where=_WHERE
            )
        kept = self._sessions.get(session_id)
        header = kept.header if kept else new_header(session_id, self.clock.now())
        self._open.add(session_id)
        return MemorySession(self, header, list(kept.events) if kept else [])

    async def read(self, session_id: str) -> SessionSnapshot:
        """Read what is durable of a session."""
        session_id = canonical_id(session_id)
        if session_id not in self._sessions:
            raise StoreError(
                StoreErrorCode.SESSION_NOT_FOUND, "there is no such session", where=_WHERE
            )
        return self._sessions[session_id]

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        """Make a child of what is durable of the parent."""
        encode_id(child_id)
        text = await self.export(parent_id)
        length = len((await self.read(parent_id)).events)
        child = forked(text, length, child_id, self.clock.now())
        await self.adopt(child)
        return child.header

    async def export(self, session_id: str) -> SessionText:
        """The text that a file of this session would hold."""
        kept = await self.read(session_id)
        new = (SessionText(kept.header, header_line(kept.header), b""), 0)
        text, length = self._adopted.get(canonical_id(session_id), new)
        lines = b"".join(map(event_line, kept.events[length:]))
        return SessionText(kept.header, text.header_line, text.lines + lines)

    async def adopt(self, text: SessionText) -> None:
        """Keep a session that has its text already."""
        image = read_text(text, _WHERE)
        session_id = canonical_id(image.header.id)
        if session_id in self._sessions or session_id in self._open:
            raise StoreError(StoreErrorCode.SESSION_EXISTS, "there is such a session", where=_WHERE)
        self._adopted[session_id] = (text, len(image.events))
        self.keep(image.header, image.events)

    async def close(self) -> None:
        """Nothing to give back."""

    async def session_ids(self) -> list[str]:
        """The ids of all sessions that hold something durable, sorted."""
        return sorted(self._sessions)

    def keep(self, header: SessionHeader, events: list[SessionEvent]) -> None:
        """Make a session's events durable in place of what was kept of it."""
        self._sessions[header.id] = SessionSnapshot(header, tuple(events), _WHERE)

    def release(self, session_id: str) -> None:
        """Let a session be opened again."""
        self._open.discard(session_id)
