"""Lives of sessions: a model that knows what must come out, and the bytes that go in."""

import io
import json
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field
from hypothesis import strategies as st

from schedule_adapters.doctor import fast_lines, native_lines
from schedule_adapters.doctor.decoders import Decoder, ExactDecoder
from schedule_adapters.doctor.findings import (
    CODES_OF_FAULTS,
    EXPLANATIONS,
    FindingCode,
    Severity,
)
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.doctor.scan import scan
from schedule_adapters.events import CHECKPOINT, INPUT_QUEUED
from schedule_adapters.sessions import SessionHeader, StoreError
from schedule_adapters.stores.log_format import event_line, header_line
from schedule_adapters.stores.log_image import read_log
from schedule_core.decoder import encode_change
from schedule_core.errors import ScheduleLogError
from schedule_core.fold import LogFold
from schedule_core.instants import MAX_INSTANT, MIN_INSTANT, Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
)

_ABOUT_EVENTS: Final = (frozenset(CODES_OF_FAULTS.values()) - {FindingCode.NOT_JSON}) | {
    code
    for code, explanation in EXPLANATIONS.items()
    if explanation.severity is Severity.WARNING or code is FindingCode.PARENT_ID_TOUCHED
}
TIME: Final = Instant(1_796_000_000_000)


def fast(log: bytes, now: Instant | None = None) -> LogReport:
    """What the doctor says by default."""
    return scan(io.BytesIO(log), now=now)


FAST: Final[dict[str, Decoder]] = {"native": native_lines, "msgspec": fast_lines}
"""Every fast decoder there is."""


def exact(log: bytes, now: Instant | None = None) -> LogReport:
    """What the doctor says without a fast decoder."""
    return scan(io.BytesIO(log), now=now, decoder=ExactDecoder())


def both(log: bytes, now: Instant | None = None) -> LogReport:
    """What it says, however it reads, in one block and in many."""
    report = exact(log, now)
    for decoder in FAST.values():
        assert report == scan(io.BytesIO(log), now=now, decoder=decoder)
        assert report == scan(_Drip(log), now=now, decoder=decoder)
    return report


class _Drip(io.BytesIO):
    """A source that gives few lines at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(300 if size is None or size > 300 else size)


def codes(report: LogReport) -> list[str]:
    """The codes of all findings."""
    return [finding.code.value for finding in report.findings]


def header(**members: Any) -> bytes:
    """A first line."""
    given: dict[str, Any] = {"id": "one", "created_at": TIME} | members
    return header_line(SessionHeader(**given))


def line(seq: int, event_type: str = "x", data: Any = None, time: int = TIME) -> bytes:
    """One event's line."""
    return event_line(SessionEvent(event_type, data, seq=seq, time=time))


def change(seq: int, data: Any, time: int = TIME) -> bytes:
    """One schedule event's line, whatever its data."""
    return line(seq, SCHEDULE_EVENT_TYPE, data, time)


def create(seq: int, schedule_id: str = "schedule-1", at: int = TIME, time: int = TIME) -> bytes:
    """The line of a create."""
    record = AtScheduleRecord(ScheduleId(schedule_id), Prompt("tea"), Instant(at))
    return change(seq, encode_change(ScheduleCreateChange(record)), time)


def dispatch(seq: int, schedule_id: str = "schedule-1", time: int = TIME) -> bytes:
    """The line of a dispatch."""
    return change(seq, encode_change(ScheduleDispatchChange(ScheduleId(schedule_id))), time)


def delete(seq: int, schedule_id: str = "schedule-1") -> bytes:
    """The line of a delete."""
    return change(seq, encode_change(ScheduleDeleteChange(ScheduleId(schedule_id))))


def checkpoint(seq: int, durable: int) -> bytes:
    """The first line of a batch."""
    return line(seq, CHECKPOINT.name, {"durable": durable})


def queued(seq: int, schedule_id: str = "schedule-1") -> bytes:
    """The line of a reminder's message that entered the inbox."""
    data = {"source": "reminder", "text": "tea", "scheduleId": schedule_id}
    return line(seq, INPUT_QUEUED.name, data)


@define
class Life:
    """One session's events, and what they come to."""

    events: list[tuple[str, Any]] = field(factory=list)
    active: dict[ScheduleId, ScheduleRecord] = field(factory=dict)
    seen: list[ScheduleId] = field(factory=list)
    dispatched: int = 0
    deleted: int = 0
    seed_length: int = 0

    def take(self, change: ScheduleChange) -> None:
        """Add a change that is valid now."""
        self.events.append((SCHEDULE_EVENT_TYPE, encode_change(change)))
        if isinstance(change, ScheduleCreateChange):
            self.active[change.schedule.id] = change.schedule
            self.seen.append(change.schedule.id)
            return
        del self.active[change.id]
        if isinstance(change, ScheduleDispatchChange):
            self.dispatched += 1
        else:
            self.deleted += 1

    def fork(self) -> None:
        """Everything so far becomes the parent's."""
        self.seed_length = len(self.events)
        self.active, self.seen, self.dispatched, self.deleted = {}, [], 0, 0

    def log(self) -> bytes:
        """The file."""
        parent = "parent" if self.seed_length else None
        lines = [header(seed_length=self.seed_length, parent=parent)]
        lines += [line(seq, *event) for seq, event in enumerate(self.events)]
        return b"".join(lines)

    def check(self, report: LogReport) -> None:
        """Compare."""
        assert len(self.events) == report.events
        assert tuple(self.active.values()) == report.active
        assert tuple(self.seen) == report.seen
        assert (self.dispatched, self.deleted) == (report.dispatched, report.deleted)
        assert report.first_fault is None


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.from_type(str),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_type(str), inner, max_size=3)
    ),
    max_leaves=5,
)
_instants = st.integers(MIN_INSTANT, MAX_INSTANT).map(Instant)
_foreign_types = st.sampled_from(["x", "assistant/chunk", "turn/start", "log/checkpoint"]) | (
    st.from_type(str).filter(lambda text: text != SCHEDULE_EVENT_TYPE)
)


@st.composite
def lives(draw: Callable[..., Any]) -> Life:
    """Any valid life: creates of both kinds, deletes, dispatches, foreign events, a fork."""
    life = Life()
    for step in draw(st.lists(st.sampled_from("cccdtffx"), max_size=12)):
        match step:
            case "c":
                name = draw(st.from_type(ScheduleId))
                if name in life.seen:
                    continue
                prompt, at = draw(st.from_type(Prompt)), draw(_instants)
                delay = draw(st.none() | st.from_type(DelaySeconds))
                record: ScheduleRecord = (
                    AtScheduleRecord(name, prompt, at)
                    if delay is None
                    else AfterScheduleRecord(name, prompt, delay, at)
                )
                life.take(ScheduleCreateChange(record))
            case "d" | "t" if life.active:
                name = draw(st.sampled_from(sorted(life.active)))
                kind = ScheduleDeleteChange if step == "d" else ScheduleDispatchChange
                life.take(kind(name))
            case "f":
                life.events.append((draw(_foreign_types), draw(json_values)))
            case "x" if life.seed_length == 0:
                life.fork()
    return life


def rewritten(log: bytes, seq: int, **members: Any) -> bytes:
    """The log with members of one event's line replaced by other JSON values."""
    lines = log.splitlines(keepends=True)
    event = json.loads(lines[seq + 1]) | members
    lines[seq + 1] = json.dumps(event).encode() + b"\n"
    return b"".join(lines)


def agrees(log: bytes) -> LogReport:
    """The report, after comparing it with what the store and the fold say of the same bytes."""
    report = both(log)
    try:
        image = read_log(log, "f")
    except StoreError as error:
        damage = [f for f in report.findings if f.code not in _ABOUT_EVENTS]
        assert (error.line or 1, error.offset or 0) == (damage[0].line, damage[0].offset)  # noqa: PT017 - either way is a result
        assert report.torn is None
        return report
    assert image.torn == report.torn
    assert (image.header, len(image.events)) == (report.header, report.events)
    errors = [
        f
        for f in report.findings
        if f.severity is Severity.ERROR and f.code is not FindingCode.TORN_TAIL
    ]
    fold = LogFold(image.header.seed_length)
    try:
        fold.advance(image.events)
        fold.check_boundary()
    except ScheduleLogError as error:
        assert error.position == errors[0].seq  # noqa: PT017 - as above
        assert errors[0].code in {*CODES_OF_FAULTS.values(), FindingCode.PARENT_ID_TOUCHED}
    else:
        assert errors == []
    assert (fold.schedules.active, fold.schedules.seen) == (report.active, report.seen)
    return report
