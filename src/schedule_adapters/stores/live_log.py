"""The live log of one open session: what is appended, what is pending, what is durable.

Every store shares it; a store adds how a batch becomes durable. Nothing here does I/O.
"""

from collections.abc import Callable

from schedule_adapters.events import CHECKPOINT
from schedule_adapters.sessions import SessionHeader, StoreError, StoreErrorCode
from schedule_adapters.stores.log_format import event_line, parse_events
from schedule_core.decoder import encode_change
from schedule_core.ports import SCHEDULE_EVENT_TYPE, Clock, SessionEvent
from schedule_core.records import ScheduleChange


class LiveLog:
    """The part of `Session` that no store does differently.

    A batch is what one flush writes. Its first event is a checkpoint that names the last
    event known durable when the batch began: that is how a reader tells a torn tail, which
    was never committed, from corruption (design decision 10).

    Attributes:
        checks: asked in turn before an event is added; one that raises keeps it out.
    """

    def __init__(self, header: SessionHeader, events: list[SessionEvent], clock: Clock) -> None:
        self.checks: list[Callable[[SessionEvent], None]] = []
        self._header = header
        self._events = events
        self._clock = clock
        self._durable = len(events)  # how many of them are known durable
        self._lines: list[bytes] = []  # the text of every event after those
        self._batch_open = False  # whether the next event joins the batch of the last one
        self._closed = False

    @property
    def header(self) -> SessionHeader:
        """The header, as it is or as the first write will make it."""
        return self._header

    @property
    def seed_length(self) -> object:
        """What the header says, unjudged."""
        return self._header.seed_length

    @property
    def length(self) -> int:
        """How many events are live."""
        return len(self._events)

    def events_from(self, position: int) -> list[SessionEvent]:
        """The live events from index `position` on."""
        return self._events[position:]

    def append_change(self, change: ScheduleChange) -> None:
        """Add one schedule event; raises as `append`."""
        self.append(SCHEDULE_EVENT_TYPE, encode_change(change))

    def append(self, event_type: str, data: object) -> SessionEvent:
        """Add one event; its data is what a reader of the log will get, not the caller's object.

        Raises:
            TypeError: data that JSON cannot hold, or nested too deeply to be read again.
            StoreError: `session_closed`.
            Exception: what a check raised; nothing was added.
        """
        if self._closed:
            raise StoreError(StoreErrorCode.SESSION_CLOSED, "the session is closed")
        now = self._clock.now()
        seq, stored = len(self._events), []
        if not self._batch_open:
            durable = {"durable": self._durable - 1}
            checkpoint = SessionEvent(CHECKPOINT.name, durable, seq=seq, time=now)
            stored.append((event_line(checkpoint), checkpoint))
            seq += 1
        stored.append(_stored(SessionEvent(event_type, data, seq=seq, time=now)))
        for check in self.checks:
            check(stored[-1][1])
        for line, event in stored:
            self._lines.append(line)
            self._events.append(event)
        self._batch_open = True
        return self._events[-1]

    def _take_batch(self) -> tuple[bytes, int]:
        """End the batch; gives all pending lines and how many events are live with them."""
        self._batch_open = False
        return b"".join(self._lines), len(self._events)

    def _mark_durable(self, length: int) -> None:
        """Take note that the first `length` events are durable."""
        del self._lines[: length - self._durable]
        self._durable = length


def _stored(event: SessionEvent) -> tuple[bytes, SessionEvent]:
    """The line of an event, and the event that a reader of that line will get."""
    try:
        line = event_line(event)
        [read_back] = parse_events(line)
    except (ValueError, RecursionError) as error:
        raise TypeError("the data is not JSON that can be read again") from error
    return line, read_back
