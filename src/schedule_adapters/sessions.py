"""What every session store gives: sessions that are logs, with one live owner each."""

from collections.abc import Iterable
from enum import StrEnum, unique
from typing import Protocol

from attrs import field, frozen

from schedule_core.ports import Persistence, SessionEvent, SessionLog


@unique
class StoreErrorCode(StrEnum):
    """The closed set of reasons why a session cannot be opened, read or written."""

    INVALID_SESSION_ID = "invalid_session_id"
    SESSION_NOT_FOUND = "session_not_found"
    SESSION_EXISTS = "session_exists"
    SESSION_LOCKED = "session_locked"
    CORRUPT_LOG = "corrupt_log"
    UNSUPPORTED_LOG = "unsupported_log"
    WRITE_FAILED = "write_failed"
    SESSION_CLOSED = "session_closed"
    SESSION_TAKEN_OVER = "session_taken_over"
    """Another owner has the session by now; this one writes nothing in it any more."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The file system, or the database, does not let the store do its work at all."""


class StoreError(Exception):
    """A session store refused, or could not do, what it was asked for.

    Attributes:
        code: one of the closed set.
        message: what happened and what to do, one lower-case sentence; no log content.
        where: the file, or whatever the store keeps the session in.
        line: 1-based line of the fault in that file, where there is one.
        offset: 0-based byte offset of that line.
    """

    def __init__(
        self,
        code: StoreErrorCode,
        message: str,
        *,
        where: str | None = None,
        line: int | None = None,
        offset: int | None = None,
    ) -> None:
        place = "" if where is None else f"{where}: "
        if line is not None:
            place = f"{place}line {line} (byte {offset}): "
        super().__init__(f"{place}{message}")
        self.code = code
        self.message = message
        self.where = where
        self.line = line
        self.offset = offset


@frozen
class SessionHeader:
    """The first line of a session log.

    Attributes:
        id: the session's id, not empty.
        created_at: milliseconds since the epoch.
        parent: the session this one was forked from.
        seed_length: how many leading events were taken over from it; whatever the file
            holds, unjudged: the fold refuses what is not a count.
        cwd: the working directory that the session belongs to, if any.
        extra: further members of the header, kept as they are.
    """

    id: str
    created_at: int
    parent: str | None = None
    seed_length: object = 0
    cwd: str | None = None
    extra: dict[str, object] = field(factory=dict)


class Session(SessionLog, Persistence, Protocol):
    """One open session: its live log, its barrier, and the exclusive right to write it."""

    @property
    def header(self) -> SessionHeader:
        """The header, as it is or as the first write will make it."""
        ...

    @property
    def length(self) -> int:
        """How many events the live log holds."""
        ...

    def append(self, event_type: str, data: object) -> SessionEvent:
        """Add one event of this project's own; live at once, durable after a barrier.

        Every type except `schedule/change` is written as ignorable, so that readers that
        do not know it pass over it.

        Raises:
            TypeError: data that JSON cannot hold; nothing was added.
            StoreError: `session_closed`; nothing was added.
        """
        ...

    async def close(self) -> None:
        """Give up the right to write; writes nothing, waits for a flush under way.

        What was appended since the last barrier is lost, as it would be in a crash.
        """
        ...


@frozen
class SessionSnapshot:
    """A session as it was at one moment, read without the right to write it."""

    header: SessionHeader
    events: tuple[SessionEvent, ...]
    where: str


@frozen
class SessionText:
    """A session as the bytes of its log, to be moved between stores without changing one.

    Attributes:
        header: what the first line says.
        header_line: the first line, with its newline.
        lines: every other line, each with its newline; no torn tail.
    """

    header: SessionHeader
    header_line: bytes
    lines: bytes


class SessionOpener(Protocol):
    """The part of a store that a conversation needs."""

    async def open(self, session_id: str) -> Session:
        """Open a session for writing, new or existing; one live owner at a time.

        Raises:
            StoreError: `session_locked`, `corrupt_log`, `unsupported_log`,
                `invalid_session_id`, `store_unavailable`.
        """
        ...


class SessionStore(SessionOpener, Protocol):
    """A place where sessions live."""

    async def read(self, session_id: str) -> SessionSnapshot:
        """Read a session, open elsewhere or not.

        Raises:
            StoreError: `session_not_found`, `corrupt_log`, `unsupported_log`,
                `invalid_session_id`, `store_unavailable`.
        """
        ...

    async def fork(self, parent_id: str, child_id: str) -> SessionHeader:
        """Make a new session that begins with all events of another one.

        The child inherits the history, not the reminders: its `seedLength` says so.

        Raises:
            StoreError: as `read`, or `session_exists`, `write_failed`.
        """
        ...

    async def export(self, session_id: str) -> SessionText:
        """Read a session's log as text.

        Raises:
            StoreError: as `read`.
        """
        ...

    async def adopt(self, text: SessionText) -> None:
        """Make a new session of a whole log; durable, byte for byte, when this returns.

        Raises:
            StoreError: `session_exists`, `corrupt_log`, `write_failed`,
                `invalid_session_id`, `store_unavailable`.
        """
        ...

    async def session_ids(self) -> Iterable[str]:
        """The ids of all sessions, sorted."""
        ...

    async def close(self) -> None:
        """Give back what the store itself holds, after the sessions that it opened."""
        ...
