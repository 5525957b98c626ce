"""The bytes of one log file as header, events and a torn tail, or as corruption. No I/O.

The rule that matters most: which bad line is the tail of a write that was never committed,
and which one is damage that nobody may cut away (design decision 10).
"""

from collections.abc import Iterable

from attrs import define, frozen

from schedule_adapters.events import CHECKPOINT
from schedule_adapters.sessions import SessionHeader, SessionText, StoreError, StoreErrorCode
from schedule_adapters.stores.log_format import (
    BadLine,
    check_following,
    glued_events,
    parse_events,
    parse_header,
)
from schedule_core.ports import SessionEvent
from schedule_core.text import safe_integer


@frozen
class TornTail:
    """The bad line that ends the readable part of a log, and why; it was never committed."""

    line: int
    offset: int
    reason: str


@frozen
class LogImage:
    """What the bytes of one file say.

    Attributes:
        events: those before the torn tail, if there is one.
        header_size: bytes of the header line, its newline included.
        size: bytes of the header and of the events; what follows is the torn tail.
        torn: the first line of that tail.
    """

    header: SessionHeader
    events: list[SessionEvent]
    header_size: int
    size: int
    torn: TornTail | None


def read_log(image: bytes, where: str) -> LogImage:
    """Read the bytes of a whole file, and judge its first bad line.

    Damage at or below what a later checkpoint calls durable is corruption. So is damage
    before other events in a log without any checkpoint: nothing proves that those were
    not committed. Everything else is a torn tail. A last line without its newline is torn
    even if it parses: its end may be missing.

    Raises:
        StoreError: `corrupt_log` with the place of the bad line, or `unsupported_log`.
    """
    first, *lines = image.split(b"\n")
    if not lines:
        raise _corrupt(TornTail(1, 0, "the header is missing or cut off"), where)
    rest = lines.pop()
    try:
        header = parse_header(first, where)
    except BadLine as bad:
        raise _corrupt(TornTail(1, 0, str(bad)), where) from None

    events: list[SessionEvent] = []
    header_size = size = len(first) + 1
    judge = TailJudge()
    for number, line in enumerate(lines, 2):
        try:
            found = parse_events(line)
            if judge.torn is None:
                check_following(found, len(events))
                events += found
        except BadLine as bad:
            judge.bad_line(TornTail(number, size, str(bad)), len(events), line)
        else:
            judge.readable(found)
        if judge.torn is None:
            size += len(line) + 1
    if rest:
        end = TornTail(len(lines) + 2, size, "the line has no newline at its end")
        judge.bad_line(end, len(events))
    if judge.torn is not None and judge.is_corruption:
        raise _corrupt(judge.torn, where)
    return LogImage(header, events, header_size, size, judge.torn)


def read_text(text: SessionText, where: str) -> LogImage:
    """Read a log that is to be taken over whole.

    Raises:
        StoreError: `corrupt_log`, a torn tail included, or `unsupported_log`.
    """
    image = read_log(text.header_line + text.lines, where)
    if image.torn is not None:
        raise _corrupt(image.torn, where)
    return image


@define
class TailJudge:
    """Tells a torn tail from corruption while a log is read once; it keeps no event.

    Told of each line in turn, in either of two ways. What `read_log` says of a log is said
    here, so that every reader draws the same line.

    Attributes:
        torn: the first bad line, once there is one.
        is_followed: whether a line that can be read stands behind it. Once that is known,
            only checkpoints can still tell something.
    """

    torn: TornTail | None = None
    is_followed: bool = False
    _length: int = 0  # how many events stand before it
    _has_checkpoints: bool = False  # before it or behind it
    _durable: int = -1  # the highest seq that a checkpoint behind it calls durable

    @property
    def is_corruption(self) -> bool:
        """Whether the bad line was committed, judged by what was read so far."""
        if self._has_checkpoints:
            return self._durable >= self._length
        return self.is_followed

    def readable(self, events: Iterable[SessionEvent]) -> None:
        """Take note of a line that can be read."""
        self.is_followed = self.torn is not None
        self._checkpoints(events)

    def bad_line(self, bad: TornTail, length: int, line: bytes = b"") -> None:
        """Take note of a line that cannot be read or does not follow `length` events.

        A checkpoint at its end counts: with the newline before it lost, it still tells what
        was durable.
        """
        if self.torn is None:
            self.torn, self._length = bad, length
        self._checkpoints(glued_events(line))

    def _checkpoints(self, events: Iterable[SessionEvent]) -> None:
        for event in events:
            durable = _durable(event)
            if durable is not None:
                self._has_checkpoints = True
                if self.torn is not None:
                    self._durable = max(self._durable, durable)


def _durable(event: SessionEvent) -> int | None:
    """The seq that a checkpoint calls durable; None for any other event."""
    if event.type != CHECKPOINT.name or not isinstance(event.data, dict):
        return None
    durable = safe_integer(event.data.get("durable"))
    # It was written before its batch was, so it cannot speak of itself or of what follows.
    return durable if durable is not None and durable < event.seq else None


def _corrupt(bad: TornTail, where: str) -> StoreError:
    return StoreError(
        StoreErrorCode.CORRUPT_LOG, bad.reason, where=where, line=bad.line, offset=bad.offset
    )
