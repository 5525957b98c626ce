"""A session that says how much of it is durable, for those who show only what is."""

from collections.abc import Callable, Iterable

from schedule_adapters.sessions import Session, SessionHeader, SessionOpener
from schedule_core import ScheduleChange, SessionEvent


class WatchedSession:
    """A session like the one it wraps; `changed` is called after each barrier.

    Attributes:
        durable: how many events are known durable; the rest might be gone after a crash.
        saved: whether the last barrier passed.
    """

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self._session = session
        self._changed = changed
        self.durable = session.length  # an opened log holds nothing that is pending
        self.saved = True

    @property
    def header(self) -> SessionHeader:
        """As the wrapped one."""
        return self._session.header

    @property
    def seed_length(self) -> object:
        """As the wrapped one."""
        return self._session.seed_length

    @property
    def length(self) -> int:
        """As the wrapped one."""
        return self._session.length

    def events_from(self, position: int) -> Iterable[SessionEvent]:
        """As the wrapped one."""
        return self._session.events_from(position)

    def append(self, event_type: str, data: object) -> SessionEvent:
        """As the wrapped one."""
        return self._session.append(event_type, data)

    def append_change(self, change: ScheduleChange) -> None:
        """As the wrapped one."""
        self._session.append_change(change)

    async def barrier(self) -> None:
        """As the wrapped one; then what became durable is known."""
        length = self._session.length
        try:
            await self._session.barrier()
        except Exception:
            self.saved = False
            raise
        else:
            self.durable = max(self.durable, length)
            self.saved = True
        finally:
            self._changed()

    async def close(self) -> None:
        """As the wrapped one."""
        await self._session.close()


class WatchedStore:
    """Opens the sessions of a store as `WatchedSession`s."""

    def __init__(self, store: SessionOpener, changed: Callable[[], None]) -> None:
        self._store = store
        self._changed = changed

    async def open(self, session_id: str) -> WatchedSession:
        """As the wrapped one."""
        return WatchedSession(await self._store.open(session_id), self._changed)
