"""Sessions in memory, for tests and examples: the same contract, gone with the store."""

from collections.abc import Callable

from schedule_adapters.sessions import (
    SessionHeader,
    SessionSnapshot,
    StoreError,
    StoreErrorCode,
)
from schedule_adapters.stores.folder_names import canonical_id
from schedule_adapters.stores.live_log import LiveLog
from schedule_adapters.stores.log_format import END_SEED
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
        self._open: set[str] = set()

    async def open(self, session_id: str) -> MemorySession:
        """Open a session for writing, new or existing."""
        session_id = canonical_id(session_id)
        if session_id in self._open:
            raise StoreError(
                StoreErrorCode.SESSION_LOCKED, "the session is open already", where=_WHERE
            )
        kept = self._sessions.get(session_id)
        header = kept.header if kept else SessionHeader(session_id, self.clock.now())
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
        parent = await self.read(parent_id)
        child_id = canonical_id(child_id)
        if child_id in self._sessions or child_id in self._open:
            raise StoreError(StoreErrorCode.SESSION_EXISTS, "there is such a session", where=_WHERE)
        now, length = self.clock.now(), len(parent.events)
        header = SessionHeader(
            child_id, now, parent=parent.header.id, seed_length=length, cwd=parent.header.cwd
        )
        end = SessionEvent(END_SEED, {}, seq=length, time=now)
        self.keep(header, [*parent.events, end])
        return header

    async def session_ids(self) -> list[str]:
        """The ids of all sessions that hold something durable, sorted."""
        return sorted(self._sessions)

    def keep(self, header: SessionHeader, events: list[SessionEvent]) -> None:
        """Make a session's events durable in place of what was kept of it."""
        self._sessions[header.id] = SessionSnapshot(header, tuple(events), _WHERE)

    def release(self, session_id: str) -> None:
        """Let a session be opened again."""
        self._open.discard(session_id)
