"""From events to state: which reminders are active, and which ids were ever used.

The log is the only authority; everything here can be thrown away and read again
(`spec/schedule.md`, durable changes and replay).
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from attrs import define, field

from schedule_core.decoder import decode_change
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.instants import Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent, SessionLog
from schedule_core.records import (
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
)
from schedule_core.text import safe_integer

_Record = TypeVar("_Record")


@define
class Lifetimes(Generic[_Record]):
    """Which ids are active, each with its record, and which were ever used."""

    _active: dict[ScheduleId, _Record] = field(factory=dict)
    _seen: dict[ScheduleId, None] = field(factory=dict)

    @property
    def active(self) -> tuple[_Record, ...]:
        """The active reminders, in the order of their creates."""
        return tuple(self._active.values())

    @property
    def seen(self) -> tuple[ScheduleId, ...]:
        """Every id that a create ever used, in the order of the creates."""
        return tuple(self._seen)

    def get(self, schedule_id: ScheduleId) -> _Record | None:
        """The active reminder of that id, if there is one."""
        return self._active.get(schedule_id)

    def has_seen(self, schedule_id: ScheduleId) -> bool:
        """Tell whether a create ever used that id."""
        return schedule_id in self._seen

    def create(self, schedule_id: ScheduleId, record: _Record) -> None:
        """Make a reminder active.

        Raises:
            ScheduleLogError: the id was used before; the state is as before.
        """
        if schedule_id in self._seen:
            raise _reused()
        self._seen[schedule_id] = None
        self._active[schedule_id] = record

    def end(self, schedule_id: ScheduleId) -> _Record | None:
        """Take a reminder out of the active ones; None if it is not one of them."""
        return self._active.pop(schedule_id, None)


@define
class Schedules(Lifetimes[ScheduleRecord]):
    """The state that a log folds to; it changes only through `evolve`."""

    @property
    def active_count(self) -> int:
        """How many reminders are active."""
        return len(self._active)

    def next_id(self) -> ScheduleId:
        """The id for the next create: the count of seen ids plus one, and up past collisions."""
        number = len(self._seen) + 1
        while (candidate := ScheduleId(f"schedule-{number}")) in self._seen:
            number += 1
        return candidate

    def earliest(self) -> ScheduleRecord | None:
        """The active reminder with the smallest target; of equal ones the earlier create."""
        return min(self._active.values(), key=lambda record: record.scheduled_at, default=None)

    def next_target(self, after: Instant) -> Instant | None:
        """The smallest target later than `after`, itself not included."""
        later = (r.scheduled_at for r in self._active.values() if r.scheduled_at > after)
        return min(later, default=None)

    def check(self, change: ScheduleChange) -> None:
        """Refuse what `evolve` would refuse; changes nothing.

        Raises:
            ScheduleLogError: an id used again, or a transition of an inactive one.
        """
        if isinstance(change, ScheduleCreateChange):
            if change.schedule.id in self._seen:
                raise _reused()
        elif change.id not in self._active:
            raise _inactive(change)

    def evolve(self, change: ScheduleChange) -> None:
        """Take one change.

        Raises:
            ScheduleLogError: as `check`; the state is as before.
        """
        if isinstance(change, ScheduleCreateChange):
            self.create(change.schedule.id, change.schedule)
        elif self.end(change.id) is None:
            raise _inactive(change)


@define
class LogFold:
    """The fold of one growing log: each event is read once, so a look costs the new suffix.

    Attributes:
        schedules: the state after the events read so far.
        position: how many events were read.
        has_schedule_events: whether one of them was a schedule event, the events that
            a fork took over included.
    """

    seed_length: object = 0
    schedules: Schedules = field(factory=Schedules)
    position: int = 0
    has_schedule_events: bool = False
    _last: SessionEvent | None = None
    """The last event read: finding it again proves that the log only grew."""

    def advance(self, events: Iterable[SessionEvent]) -> None:
        """Read the events that follow the ones read so far.

        Raises:
            ScheduleLogError: with the position of the first bad event, which stays
                unread; so the next call that offers it raises again.
        """
        boundary = self._boundary()
        for event in events:
            if event.type == SCHEDULE_EVENT_TYPE:
                self.has_schedule_events = True
                if self.position >= boundary:
                    self._take(event)
            self.position += 1
            self._last = event

    def catch_up(self, log: SessionLog) -> Schedules:
        """Read what is new in the log; all of it, if the log was replaced or shortened.

        Raises:
            ScheduleLogError: the log is not a valid one; with the position of the first
                bad event, or without one if the fork boundary itself is bad.
        """
        events = iter(log.events_from(max(self.position - 1, 0)))
        grown = self._last is None or next(events, None) == self._last
        if not grown or self.seed_length != log.seed_length:
            self.__init__(log.seed_length)  # type: ignore[misc] # starting over is the point
            events = iter(log.events_from(0))
        self.advance(events)
        self.check_boundary()
        return self.schedules

    def check_boundary(self) -> None:
        """Refuse a fork boundary beyond the end of the log.

        Raises:
            ScheduleLogError: without a position; it belongs to no event.
        """
        if self.position < self._boundary():
            raise _bad_boundary()

    def _boundary(self) -> int:
        boundary = safe_integer(self.seed_length)
        if boundary is None or boundary < 0:
            raise _bad_boundary()
        return boundary

    def _take(self, event: SessionEvent) -> None:
        try:
            self.schedules.evolve(decode_change(event.data))
        except ScheduleLogError as error:
            raise error.at(self.position) from None


def fold_log(events: Iterable[SessionEvent], seed_length: object = 0) -> Schedules:
    """Fold a whole log; a fork only from its boundary on, so it inherits no reminder.

    Args:
        events: the log from its first event on; only types and data matter.
        seed_length: how many leading events are the parent's, 0..len(events).

    Raises:
        ScheduleLogError: as `LogFold`.
    """
    fold = LogFold(seed_length)
    fold.advance(events)
    fold.check_boundary()
    return fold.schedules


def _reused() -> ScheduleLogError:
    return ScheduleLogError(LogFault.REUSED_ID, "create of an id used before")


def _inactive(change: ScheduleDeleteChange | ScheduleDispatchChange) -> ScheduleLogError:
    detail = f"{change.operation} of an id that is not active"
    return ScheduleLogError(LogFault.INACTIVE_ID, detail)


def _bad_boundary() -> ScheduleLogError:
    return ScheduleLogError(
        LogFault.INVALID_SEED_LENGTH, "seedLength is not a count of events in this log"
    )
