"""The life of each reminder of one log: created, due, queued, dispatched or deleted."""

from collections import Counter, deque
from enum import StrEnum, unique
from io import BytesIO
from itertools import chain
from typing import BinaryIO, Final

from attrs import define, evolve, field, frozen

from schedule_adapters.doctor.decoders import Decoder, fastest_decoder
from schedule_adapters.doctor.source import LogSource
from schedule_adapters.events import INPUT_QUEUED
from schedule_adapters.stores.log_format import (
    BadLine,
    check_following,
    parse_events,
    parse_header,
)
from schedule_core.decoder import decode_change
from schedule_core.errors import ScheduleLogError
from schedule_core.fold import Schedules
from schedule_core.instants import Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.records import ScheduleChange, ScheduleCreateChange, ScheduleId
from schedule_core.text import safe_integer

DEFAULT_LANES: Final = 50


@unique
class End(StrEnum):
    """How a reminder ended, if it did."""

    ACTIVE = "active"
    DISPATCHED = "dispatched"
    DELETED = "deleted"


@frozen
class Lane:
    """The life of one reminder; times are those of its events, in ms since the epoch.

    Attributes:
        number: its place in the order of the creates, from 0.
        created: when its create was recorded.
        due: its target.
        queued: when its message was queued; None if it was not, or no event says so.
        ended: when its dispatch or delete was recorded; None while it is active.
    """

    number: int
    id: ScheduleId
    prompt: str
    created: int
    due: Instant
    queued: int | None = None
    ended: int | None = None
    end: End = End.ACTIVE

    def late_ms(self, now: Instant) -> int:
        """How long after its target it came, or is still to come; negative if before it."""
        return self.settled(now) - self.due

    def settled(self, now: Instant) -> int:
        """When it was queued, or ended, or else now."""
        if self.queued is not None:
            return self.queued
        return now if self.ended is None else self.ended


@frozen
class Timeline:
    """The reminders of one session that are shown, and how many there were.

    Attributes:
        lanes: in the order of the creates; of many the active ones that are due first, and
            those that ended last.
        counts: of all reminders, by their end.
        note: why the log was not read to its end; None if it was.
    """

    session: str
    lanes: tuple[Lane, ...]
    counts: dict[End, int]
    note: str | None = None

    @property
    def hidden(self) -> int:
        """How many reminders are not among the lanes."""
        return sum(self.counts.values()) - len(self.lanes)


def read_timeline(source: BinaryIO, *, limit: int = DEFAULT_LANES) -> Timeline:
    """Read a log once, up to its first fault, as every reader does.

    Args:
        source: the bytes, compressed or not; need not be seekable.
        limit: how many reminders to keep.

    Raises:
        BadLine: it does not begin with the header of a session.
        StoreError: the log is of an unknown version, a frame is damaged, or the package that
            reads compressed logs is missing.
        OSError: the source cannot be read.
    """
    blocks = iter(LogSource(source).blocks())
    first, newline, rest = next(blocks, b"").partition(b"\n")
    if not newline:
        raise BadLine("the header is missing or cut off")
    header = parse_header(first, "")
    boundary = safe_integer(header.seed_length)
    if boundary is None or boundary < 0:
        return Timeline(header.id, (), {}, "the fork boundary is not a count of events")
    reading = _Reading(_Lives(limit), boundary)
    note = None
    try:
        for block in chain([rest] if rest else [], blocks):
            reading.take(block)
    except (BadLine, ScheduleLogError) as fault:
        # Whether it is a torn tail or damage is the doctor's business.
        note = f"line {reading.line}: {fault}; nothing from there on is shown"
    return Timeline(header.id, reading.lives.shown(), dict(reading.lives.counts), note)


@define
class _Reading:
    """How far a log was read.

    Attributes:
        line: the number of the last line that was looked at.
    """

    lives: "_Lives"
    boundary: int
    line: int = 1
    _seq: int = 0  # the number that the next event should have
    _decoder: Decoder = field(factory=fastest_decoder)

    def take(self, block: bytes) -> None:
        """Read whole lines; those that say nothing of reminders are only counted.

        Raises:
            BadLine, ScheduleLogError: the first fault; `line` is where it is.
        """
        read = self._decoder.read_block(block, self._seq) if block.endswith(b"\n") else None
        matters = None if read is None else {*read[2], *(row[0] - self._seq for row in read[1])}
        for index, line in enumerate(BytesIO(block)):  # splits at newlines only, and keeps them
            self.line += 1
            if matters is None or index in matters:
                self._take_exactly(line)
            else:
                self._seq += 1

    def _take_exactly(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            raise BadLine("the line has no newline at its end")
        events = parse_events(line[:-1])
        check_following(events, self._seq)
        for event in events:
            if event.seq >= self.boundary:
                self.lives.take(event)
        self._seq += len(events)


@define
class _Lives:
    """The lanes so far; of those that ended, only the last ones are kept."""

    limit: int
    counts: Counter[End] = field(factory=Counter)
    _schedules: Schedules = field(factory=Schedules)
    _active: dict[ScheduleId, Lane] = field(factory=dict)
    _ended: deque[Lane] = field(init=False)
    _created: int = 0

    def __attrs_post_init__(self) -> None:
        self._ended = deque(maxlen=self.limit)

    def take(self, event: SessionEvent) -> None:
        """Take one event.

        Raises:
            ScheduleLogError: no reader takes it.
        """
        if event.type == SCHEDULE_EVENT_TYPE:
            self._change(decode_change(event.data), event.time)
        elif event.type == INPUT_QUEUED.name and isinstance(event.data, dict):
            named = event.data.get("scheduleId")
            lane = self._active.get(ScheduleId(named)) if isinstance(named, str) else None
            if lane is not None and lane.queued is None:
                self._active[lane.id] = evolve(lane, queued=event.time)

    def shown(self) -> tuple[Lane, ...]:
        """The lanes to show."""
        active = sorted(self._active.values(), key=lambda lane: lane.due)[: self.limit]
        surplus = max(len(active) + len(self._ended) - self.limit, 0)
        return tuple(sorted([*active, *list(self._ended)[surplus:]], key=lambda lane: lane.number))

    def _change(self, change: ScheduleChange, time: int) -> None:
        self._schedules.evolve(change)
        if isinstance(change, ScheduleCreateChange):
            record = change.schedule
            lane = Lane(self._created, record.id, record.prompt, time, record.scheduled_at)
            self._active[record.id] = lane
            self._created += 1
            self.counts[End.ACTIVE] += 1
            return
        end = End.DISPATCHED if change.operation == "dispatch" else End.DELETED
        self._ended.append(evolve(self._active.pop(change.id), ended=time, end=end))
        self.counts[End.ACTIVE] -= 1
        self.counts[end] += 1
