"""A shared store's server, reduced to what the lease promises: one row and one statement each.

The PostgreSQL store promises the same with a row lock and a conditional insert. Here every
method is one transaction: it happens as a whole, at one moment of the server's own clock.
"""

from typing import Final

from attrs import define, field

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.testing.simulation.timeline import Timeline
from schedule_core import SessionEvent

LEASE_S: Final = 60.0
"""How long a lease lasts on the server's clock, unless it is renewed."""


@define
class _Row:
    """One session: its events, and who may add to them until when."""

    created_at: int
    events: list[SessionEvent] = field(factory=list)
    token: int = 0
    ends_at_s: float = 0.0


class LeaseServer:
    """The sessions of all owners; nothing is lost here, only on the way."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._rows: dict[str, _Row] = {}

    def acquire(self, session_id: str, now: int) -> tuple[int, int, list[SessionEvent]]:
        """Take the lease, if nobody has it: a new token, when it was made, the events.

        Raises:
            StoreError: `session_locked`.
        """
        row = self._rows.setdefault(session_id, _Row(now))
        if self._is_held(row):
            raise StoreError(StoreErrorCode.SESSION_LOCKED, "somebody has the lease")
        row.token += 1
        self._extend(row)
        return row.token, row.created_at, list(row.events)

    def renew(self, session_id: str, token: int) -> None:
        """Extend the lease of that token, even one that ran out, if nobody took it.

        Raises:
            StoreError: `session_taken_over`.
        """
        self._extend(self._row_of(session_id, token))

    def append(self, session_id: str, token: int, events: list[SessionEvent]) -> None:
        """Add events at their seqs; those that stand there already are left as they are.

        Raises:
            StoreError: `session_taken_over`; nothing was added.
        """
        row = self._row_of(session_id, token)
        known = [event for event in events if event.seq < len(row.events)]
        if row.events[events[0].seq :][: len(known)] != known:
            raise StoreError(StoreErrorCode.CORRUPT_LOG, "other events stand there")
        assert events[0].seq <= len(row.events), "no gap"
        row.events += events[len(known) :]
        self._extend(row)

    def release(self, session_id: str, token: int) -> None:
        """Give the lease of that token back; any other is left alone."""
        row = self._rows[session_id]
        if row.token == token:
            row.ends_at_s = self._timeline.elapsed_s

    def _row_of(self, session_id: str, token: int) -> _Row:
        row = self._rows[session_id]
        if row.token != token:
            raise StoreError(StoreErrorCode.SESSION_TAKEN_OVER, "another owner has the session")
        return row

    def _is_held(self, row: _Row) -> bool:
        return self._timeline.elapsed_s < row.ends_at_s

    def _extend(self, row: _Row) -> None:
        row.ends_at_s = self._timeline.elapsed_s + LEASE_S
