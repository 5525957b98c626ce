"""What a fork is, as text; every store makes one alike."""

from typing import Final

from schedule_adapters.sessions import SessionHeader, SessionText
from schedule_adapters.stores.folder_names import canonical_id
from schedule_adapters.stores.log_format import END_SEED, event_line, header_line
from schedule_core.instants import Instant
from schedule_core.ports import SessionEvent

NEW_EXTRA: Final[dict[str, object]] = {"delegationDepth": 0}
"""What the original writes into each header beside the members that have a meaning here."""


def new_header(session_id: str, now: Instant) -> SessionHeader:
    """The header of a session that begins now."""
    return SessionHeader(session_id, now, extra=dict(NEW_EXTRA))


def forked(parent: SessionText, length: int, child_id: str, now: Instant) -> SessionText:
    """The child that begins with all `length` events of a parent, byte for byte.

    It inherits the history, not the reminders: its `seedLength` says so.

    Raises:
        StoreError: `invalid_session_id`.
    """
    header = SessionHeader(
        id=canonical_id(child_id),
        created_at=now,
        parent=parent.header.id,
        seed_length=length,
        cwd=parent.header.cwd,  # the child lies in the same project, which it gave its name
        extra=dict(NEW_EXTRA),
    )
    end = event_line(SessionEvent(END_SEED, {}, seq=length, time=now))
    return SessionText(header, header_line(header), parent.lines + end)
