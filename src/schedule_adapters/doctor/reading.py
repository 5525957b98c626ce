"""The lines of one log taken one after the other, and everything that is wrong with them.

Blocks of lines are decoded by a fast decoder; whatever is not plain is read again by the exact
readers (`stores.log_format`, `schedule_core.decoder`), which alone decide what is wrong.
"""

from bisect import bisect_left

from attrs import frozen

from schedule_adapters.doctor.cursor import Cursor
from schedule_adapters.doctor.decoders import ChangeRow, Decoder, change_row
from schedule_adapters.doctor.findings import Finding, FindingCode
from schedule_adapters.doctor.history import History, Place
from schedule_adapters.doctor.report import Findings
from schedule_adapters.events import INPUT_QUEUED
from schedule_adapters.sessions import SessionHeader, StoreError
from schedule_adapters.stores.log_format import (
    BadLine,
    LineFault,
    check_following,
    glued_events,
    parse_events,
    parse_header,
)
from schedule_adapters.stores.log_image import TailJudge, TornTail
from schedule_core.decoder import decode_change
from schedule_core.errors import ScheduleLogError
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.records import ScheduleId
from schedule_core.text import safe_integer


@frozen
class Tally:
    """What was counted before the first bad line, for the case that it is a torn tail."""

    events: int
    changes: int
    findings: Findings


class Reading:
    """One scan under way.

    Attributes:
        is_over: once reading on makes no sense.
        header: of the log, once it was read and understood.
        at: where the reader stands.
        judge: of the first bad line: torn tail or corruption.
        history: of the schedule events.
        findings: all, those in what may be a torn tail included.
        before: what was counted before the first bad line, once there is one.
        unsaved: the finding that an unfinished last line is whole but for its newline.
        is_packed: whether some line stands for several events.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.is_over = False
        self._decoder = decoder
        self.header: SessionHeader | None = None
        self.judge = TailJudge()
        self.history = History(self._report_event)
        self.findings = Findings()
        self.before: Tally | None = None
        self.unsaved: Finding | None = None
        self.is_packed = False
        self.at = Cursor()
        self._next: int | None = 0  # number of the next event; None: any, for lines were lost
        self._earlier = 0  # how many were read before the current run of numbers
        self._run = 0  # the first number of that run
        self._fresh = 0  # below it, numbers stand for events that were read before

    def take(self, block: bytes) -> None:
        """Read one block of lines; the last one of a log may end in an unfinished line."""
        if self.at.before == 0:
            block = self._take_header(block)
        end = block.rfind(b"\n") + 1
        if end > 0 and not self.is_over:
            self._take_lines(block if end == len(block) else block[:end])
        if end < len(block) and not self.is_over:
            self._take_unfinished(block[end:])

    def _take_header(self, block: bytes) -> bytes:
        """Read the first line; gives what follows it."""
        line, newline, rest = block.partition(b"\n")
        self.at.enter(block)
        try:
            header = self.header = parse_header(line if newline else b"", "")
        except StoreError as error:
            self.end_at(FindingCode.UNSUPPORTED_LOG, error.message)
        except BadLine as bad:
            self.history.stop()
            self._add(FindingCode.BAD_HEADER, str(bad))
            if _is_event(line):
                return block
        else:
            self._set_boundary(header.seed_length)
        self.at.leave(1, len(line) + len(newline))
        return rest

    def _set_boundary(self, seed_length: object) -> None:
        boundary = safe_integer(seed_length)
        self.history.boundary = None if boundary is None or boundary < 0 else boundary
        if self.history.boundary is None:
            self.history.stop()
            self._add(FindingCode.SEED_LENGTH_OUT_OF_RANGE, "seedLength is not a count")

    def _take_lines(self, block: bytes) -> None:
        self.at.enter(block)
        first = self._plain_seq()
        read = None if first < 0 else self._decoder.read_block(block, first)
        if read is None:
            count = len(self.at.lines) - 1
            self._take_each(range(count))
        else:
            count, changes, odd = read
            if odd or first < self._fresh:
                self._take_odd(first, count, changes, odd)
            else:
                self.history.take(changes, self.at.line - first)
                self._next = first + count
        self.at.leave(count, len(block))

    def _take_odd(self, first: int, count: int, changes: list[ChangeRow], odd: list[int]) -> None:
        """Take a block of which some lines are for the exact readers, in order."""
        line = self.at.before + 1
        taken = 0
        for index in odd:
            seq = first + index
            plain = bisect_left(changes, (seq,), taken)
            self._take_fresh(changes[taken:plain], line - first)
            taken = plain
            self._next = seq
            self.at.index = index
            self._read_exactly()
            if self._plain_seq() != seq + 1:  # a fault, or what it leads to: no more is plain
                self._take_each(range(index + 1, count))
                return
        self._take_fresh(changes[taken:], line - first)
        self._next = first + count

    def _take_fresh(self, changes: list[ChangeRow], offset: int) -> None:
        self.history.take([row for row in changes if row[0] >= self._fresh], offset)

    def _take_each(self, indices: range) -> None:
        """Take these lines of the block one by one."""
        lines = self.at.lines
        for index in indices:
            self.at.index = index
            seq = self._plain_seq()
            if seq >= 0 and self._decoder.read_line(lines[index], seq):
                self._next = seq + 1
            else:
                self._read_exactly()

    def _plain_seq(self) -> int:
        """The number that lets a plain envelope pass; -1 if the next line is read exactly."""
        if self._next is None or (self.judge.torn is not None and not self.judge.is_followed):
            return -1
        return self._next

    def _read_exactly(self) -> None:
        """Read the current line; what is wrong with it is said here and nowhere else."""
        line = self.at.lines[self.at.index]
        try:
            events = parse_events(line)
        except BadLine as bad:
            self._bad_line(bad, _code(bad, line), line)
            return
        is_first_damage = False
        if self._next is not None:
            expected = self._next
            try:
                check_following(events, expected)
            except BadLine as bad:
                is_first_damage = self.judge.torn is None
                self._bad_line(bad, FindingCode(bad.fault), line, events[0].seq)
                if bad.fault is LineFault.SEQ_REPEAT:
                    if not is_first_damage:
                        self.judge.readable(events)
                    return
        if not is_first_damage:
            self.judge.readable(events)
        if self._next is None:
            self._run = events[0].seq
        self.is_packed |= len(events) > 1
        for event in events:
            self._take_event(event)
        self._next = events[-1].seq + 1

    def _take_event(self, event: SessionEvent) -> None:
        if event.seq < self._fresh:
            return
        place = (self.at.line, event.seq)
        if event.type == SCHEDULE_EVENT_TYPE:
            try:
                change = decode_change(event.data)
            except ScheduleLogError as error:
                self.history.refuse(error, place, _id_of(event.data))
            else:
                row = change_row(change, event.seq, event.time)
                self.history.take([row], self.at.line - event.seq)
        elif event.type == INPUT_QUEUED.name:
            self.history.queue(_id_of(event.data), place)

    def _take_unfinished(self, rest: bytes) -> None:
        self.at.enter(rest)
        if self.judge.torn is None:
            bad = BadLine("the line has no newline at its end")
            if self._next is not None and _is_event(rest, self._next):
                message = "a whole event but for its newline"
                self.unsaved = self.at.finding(FindingCode.UNSAVED_TAIL, message, self._next)
            self._note_damage(bad, b"")
        self.at.leave(1, len(rest))

    def _bad_line(
        self, bad: BadLine, code: FindingCode, line: bytes, seq: int | None = None
    ) -> None:
        self._note_damage(bad, line)
        self._add(code, str(bad), seq)
        if self._next is not None:
            self._fresh = max(self._fresh, self._next)
            self._earlier += self._next - self._run
            self._next = None

    def _note_damage(self, bad: BadLine, line: bytes) -> None:
        """Keep what was found before the first damage: it is all, if that is a torn tail."""
        if self.judge.torn is None:
            self.before = Tally(self.events, self.history.changes, self.findings.copy())
            self.history.stop()
        place = TornTail(self.at.line, self.at.offset, str(bad))
        self.judge.bad_line(place, self._next or 0, line)

    # What is found, and where.

    @property
    def events(self) -> int:
        """How many were read so far."""
        return self._earlier + (0 if self._next is None else self._next - self._run)

    def _add(
        self,
        code: FindingCode,
        message: str,
        seq: int | None = None,
        schedule_id: ScheduleId | None = None,
    ) -> None:
        if self.findings.has_room(code):
            self.findings.listed.append(self.at.finding(code, message, seq, schedule_id))

    def _report_event(
        self, place: Place, code: FindingCode, schedule_id: ScheduleId | None, message: str
    ) -> None:
        line, seq = place
        self.at.index = line - self.at.before - 1
        self._add(code, message, seq, schedule_id)

    def end_at(self, code: FindingCode, message: str) -> None:
        """Read no further, for this reason."""
        self.at.enter(b"")
        self.history.stop()
        self._add(code, message)
        self.is_over = True


def _is_event(line: bytes, seq: int | None = None) -> bool:
    """Tell whether a line is an event, or the events of a packed row, from that number on."""
    try:
        events = parse_events(line)
    except BadLine:
        return False
    return seq is None or events[0].seq == seq


def _code(bad: BadLine, line: bytes) -> FindingCode:
    """What is wrong with a line; if it ends in a whole event, that was glued to other text."""
    if bad.fault is LineFault.NOT_JSON and glued_events(line):
        return FindingCode.GLUED_LINES
    return FindingCode(bad.fault)


def _id_of(data: object) -> ScheduleId | None:
    """The reminder that an event speaks of, wherever its data names one."""
    if not isinstance(data, dict):
        return None
    schedule = data.get("schedule")
    inner = schedule.get("id") if isinstance(schedule, dict) else None
    found = data.get("id", data.get("scheduleId", inner))
    return ScheduleId(found) if isinstance(found, str) else None
