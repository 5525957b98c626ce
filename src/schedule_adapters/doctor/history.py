"""The schedule events of one log: the fold that every reader makes, and what is odd in it.

Readers stop at the first fault. The doctor goes on, to name what else is wrong, without
naming twice what follows from one fault: a change that cannot be taken is passed over, and
after damage a transition of an id that was never seen says nothing.
"""

from collections.abc import Callable, Iterator
from typing import Final

from attrs import define, field, frozen

from schedule_adapters.doctor.decoders import ChangeRow
from schedule_adapters.doctor.findings import CODES_OF_FAULTS, Finding, FindingCode
from schedule_core.errors import ScheduleLogError
from schedule_core.fold import Lifetimes
from schedule_core.instants import SECOND_MS, Instant, format_instant
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleId,
    ScheduleRecord,
)

CLOCK_TOLERANCE_MS: Final = 5 * SECOND_MS
"""A create's event is stamped after its target was computed; the clock may step in between."""

Place = tuple[int, int]
"""The line and the seq of an event."""
Report = Callable[[Place, FindingCode, ScheduleId | None, str], None]
"""Takes what is wrong with an event: its place, code, reminder, message."""


_Open = tuple[ChangeRow, int]
"""An active reminder's create, and what to add to its seq to get its line."""


@frozen
class Outcome:
    """What readers get: the state before the first fault.

    Attributes:
        created: where each active reminder was created.
        queued: where the message of an active reminder was queued, if it was.
    """

    active: tuple[ScheduleRecord, ...]
    seen: tuple[ScheduleId, ...]
    dispatched: int
    deleted: int
    created: dict[ScheduleId, Place]
    queued: dict[ScheduleId, Place]

    def open_matters(self, now: Instant | None) -> Iterator[Finding]:
        """What only the end of the log shows: what is overdue at `now`, or half done."""
        for record in self.active:
            if now is not None and record.scheduled_at <= now:
                yield _end_finding(
                    FindingCode.OVERDUE_AT_END,
                    self.created[record.id],
                    record.id,
                    f"it was due at {format_instant(record.scheduled_at)}",
                )
        for schedule_id, place in self.queued.items():
            yield _end_finding(
                FindingCode.FOLLOWUP_WITHOUT_DISPATCH,
                place,
                schedule_id,
                "queued here, and still active at the end",
            )


@define
class History:
    """The schedule events of one log, taken one by one.

    Attributes:
        boundary: how many leading events belong to the parent; None if nobody can tell, and
            then no event is the session's own.
        changes: how many schedule events of the session's own there were, good or bad.
    """

    report: Report
    boundary: int | None = 0
    changes: int = 0
    _lifetimes: Lifetimes[_Open] = field(factory=Lifetimes)
    _inherited: set[ScheduleId] = field(factory=set)  # created before the boundary
    _queued: dict[ScheduleId, Place] = field(factory=dict)  # active, and its message queued
    _inbox_in_log: bool = False  # once the log holds a queued message
    _dispatched: int = 0
    _deleted: int = 0
    _stopped: Outcome | None = None  # set at the first fault

    def owns(self, seq: int) -> bool:
        """Tell whether the event of that number is the session's own."""
        return self.boundary is not None and seq >= self.boundary

    def stop(self) -> None:
        """Take note of a fault: readers get what there is now. The first call counts."""
        if self._stopped is None:
            self._stopped = self.outcome

    @property
    def outcome(self) -> Outcome:
        """What readers get of what was read so far."""
        if self._stopped is not None:
            return self._stopped
        records = [_core_record(row) for row, _ in self._lifetimes.active]
        places = [(row[0] + offset, row[0]) for row, offset in self._lifetimes.active]
        return Outcome(
            tuple(records),
            self._lifetimes.seen,
            self._dispatched,
            self._deleted,
            {record.id: place for record, place in zip(records, places, strict=True)},
            dict(self._queued),
        )

    def take(self, changes: list[ChangeRow], offset: int) -> None:
        """Take schedule events.

        Args:
            changes: in their order.
            offset: what to add to the seq of an event to get its line.
        """
        # A log may hold millions: what is called for each of them is looked up once.
        create, end, queued = self._lifetimes.create, self._lifetimes.end, self._queued
        own = self._own(changes)
        self.changes += len(own)
        for row in own:
            seq, time, operation, schedule_id, due, delay, _ = row
            if operation == "create":
                try:
                    create(schedule_id, (row, offset))
                except ScheduleLogError as error:
                    code = CODES_OF_FAULTS[error.fault]
                    self._fault((seq + offset, seq), code, schedule_id, error.detail)
                    continue
                if delay is not None:
                    late = time + delay * SECOND_MS - due
                    if not -CLOCK_TOLERANCE_MS <= late <= CLOCK_TOLERANCE_MS:
                        self._mismatch((seq + offset, seq), schedule_id, late)
                continue
            ended = end(schedule_id)
            if ended is None:
                self._inactive(operation, (seq + offset, seq), schedule_id)
                continue
            if operation == "delete":
                self._deleted += 1
            else:
                self._dispatched += 1
                early = ended[0][4] - time
                if early > 0 or self._inbox_in_log:
                    self._check_dispatch((seq + offset, seq), schedule_id, early)
            if queued:
                queued.pop(schedule_id, None)

    def _own(self, changes: list[ChangeRow]) -> list[ChangeRow]:
        """Those of the session itself; of its parent's, only the ids are kept."""
        if not changes or self.owns(changes[0][0]):
            return changes  # numbers only rise
        parents = [row for row in changes if not self.owns(row[0])]
        self._inherited |= {row[3] for row in parents if row[2] == "create"}
        return changes[len(parents) :]

    def _check_dispatch(self, place: Place, schedule_id: ScheduleId, early: int) -> None:
        if early > 0:
            message = f"{early} ms before its target"
            self.report(place, FindingCode.DISPATCHED_EARLY, schedule_id, message)
        # Another program that kept the log before us names no messages up to our first.
        if self._inbox_in_log and schedule_id not in self._queued:
            message = "no input/queued event names it"
            self.report(place, FindingCode.DISPATCH_WITHOUT_FOLLOWUP, schedule_id, message)

    def refuse(self, error: ScheduleLogError, place: Place, schedule_id: ScheduleId | None) -> None:
        """Take note of a schedule event that the decoder refused."""
        if self.owns(place[1]):
            self.changes += 1
            self._fault(place, CODES_OF_FAULTS[error.fault], schedule_id, error.detail)

    def queue(self, schedule_id: ScheduleId | None, place: Place) -> None:
        """Take note of a queued message: that of a reminder, or a user's (None)."""
        if not self.owns(place[1]):
            return
        self._inbox_in_log = True
        if schedule_id is not None and self._lifetimes.get(schedule_id) is not None:
            self._queued[schedule_id] = place

    def _mismatch(self, place: Place, schedule_id: ScheduleId, late: int) -> None:
        side = "earlier" if late > 0 else "later"
        message = f"the target is {abs(late)} ms {side} than creation plus delay"
        self.report(place, FindingCode.AFTER_TARGET_MISMATCH, schedule_id, message)

    def _inactive(self, operation: str, place: Place, schedule_id: ScheduleId) -> None:
        detail = f"{operation} of an id that is not active"
        if self._lifetimes.has_seen(schedule_id):
            self._fault(place, FindingCode.INACTIVE_ID, schedule_id, detail)
        elif schedule_id in self._inherited:
            detail = f"{operation} of an id that only the parent created"
            self._fault(place, FindingCode.PARENT_ID_TOUCHED, schedule_id, detail)
        elif self._stopped is None:  # else its create may be what was lost
            self._fault(place, FindingCode.INACTIVE_ID, schedule_id, detail)

    def _fault(
        self, place: Place, code: FindingCode, schedule_id: ScheduleId | None, detail: str
    ) -> None:
        self.stop()
        self.report(place, code, schedule_id, detail)


def _core_record(row: ChangeRow) -> ScheduleRecord:
    """The record that a create made."""
    _, _, _, schedule_id, due, delay, prompt = row
    if delay is None:
        return AtScheduleRecord(schedule_id, Prompt(prompt), due)
    return AfterScheduleRecord(schedule_id, Prompt(prompt), DelaySeconds(delay), due)


def _end_finding(code: FindingCode, place: Place, schedule_id: ScheduleId, text: str) -> Finding:
    line, seq = place
    return Finding(code, line, None, seq, schedule_id, text)
