"""What the doctor says: each code once, what it says twice of nothing, and what it costs."""

import io
import sys
import tracemalloc
from typing import Any

import pytest

from schedule_adapters.doctor.decoders import ExactDecoder, fastest_decoder
from schedule_adapters.doctor.findings import EXPLANATIONS, Finding, FindingCode, Severity
from schedule_adapters.doctor.report import MAX_FINDINGS
from schedule_adapters.doctor.scan import scan
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_core.instants import Instant
from tests.adapters.doctor.log_world import (
    FAST,
    TIME,
    agrees,
    both,
    change,
    checkpoint,
    codes,
    create,
    delete,
    dispatch,
    exact,
    header,
    line,
    queued,
)

AT = {"id": "a", "kind": "at", "prompt": "tea", "scheduledAt": "2027-01-01T00:00:00.000Z"}


def creating(**members: Any) -> dict[str, Any]:
    """The data of a create, some members of the record changed."""
    return {"version": 1, "operation": "create", "schedule": AT | members}


ERRORS = {
    "bad_header": b'{"type":"session"}\n' + line(0),
    "unsupported_log": header().replace(b'"version":0', b'"version":9'),
    "not_json": header() + b"nonsense\n" + line(1),
    "not_utf8": header() + b'"\xff"\n' + line(1),
    "nul_run": header() + b"\0" * 99 + b"\n" + line(1),
    "glued_lines": header() + b'{"type":"x","se' + line(0) + line(1),
    "bad_envelope": header() + b'{"type":"x","seq":0,"data":1}\n' + line(1),
    "seq_gap": header() + line(0) + line(2) + line(3),
    "seq_repeat": header() + line(0) + line(0) + line(1),
    "seed_length_out_of_range": header(seed_length=2, parent="p") + line(0),
    "wrong_type": header() + change(0, 7),
    "missing_field": header() + change(0, {"version": 1}),
    "extra_field": header() + change(0, creating(everySeconds=9)),
    "unknown_version": header() + change(0, creating() | {"version": 2}),
    "unknown_operation": header() + change(0, {"version": 1, "operation": "snooze"}),
    "unknown_kind": header() + change(0, creating(kind="cron")),
    "untrimmed_text": header() + change(0, creating(prompt=" tea")),
    "invalid_delay": header() + change(0, creating(kind="after", afterSeconds=0)),
    "non_canonical_instant": header() + change(0, creating(scheduledAt="2027-01-01T00:00:00Z")),
    "id_reused": header() + create(0) + delete(1) + create(2),
    "inactive_id": header() + create(0) + delete(1) + delete(2),
    "parent_id_touched": header(seed_length=1, parent="p") + create(0) + delete(1),
    "torn_tail": header() + line(0) + b'{"type":"x"',
}


@pytest.mark.parametrize("code", ERRORS)
def test_each_fault_has_its_code(code: str) -> None:
    """And is named once, with its place."""
    if code not in {"bad_header", "unsupported_log"}:
        agrees(ERRORS[code])
    report = both(ERRORS[code])

    assert codes(report) == [code]
    [finding] = report.findings
    assert finding.severity is Severity.ERROR
    assert report.first_fault == finding
    assert finding.offset is not None
    assert ERRORS[code][: finding.offset].count(b"\n") == finding.line - 1


WARNINGS = {
    "dispatched_early": header() + create(0, at=TIME + 5) + dispatch(1, time=TIME + 4),
    "after_target_mismatch": header()
    + change(0, creating(kind="after", afterSeconds=60)),
    "overdue_at_end": header() + create(0, at=TIME),
    "followup_without_dispatch": header() + create(0, at=TIME + 9) + queued(1),
    "dispatch_without_followup": header() + create(0) + create(1, "b") + queued(2)
    + dispatch(3) + dispatch(4, "b"),
}  # fmt: skip


@pytest.mark.parametrize("code", WARNINGS)
def test_each_oddity_has_its_code(code: str) -> None:
    report = both(WARNINGS[code], now=TIME)

    assert codes(report) == [code]
    assert report.is_sound
    assert report.findings[0].severity is Severity.WARNING


def test_every_code_is_shown_somewhere() -> None:
    """All but the one of a compressed log, which has a test of its own, and the tail's."""
    shown = {*ERRORS, *WARNINGS, "damaged_frame", "unsaved_tail"}

    assert set(FindingCode) == shown == set(EXPLANATIONS)
    for explanation in EXPLANATIONS.values():
        assert explanation.sentence.endswith(".")
        assert explanation.meaning.endswith(".")


def test_finding_names_line_byte_event_and_reminder() -> None:
    before = header() + line(0) + create(1) + delete(2)

    [finding] = both(before + delete(3) + line(4)).findings

    assert finding == Finding(
        FindingCode.INACTIVE_ID,
        line=5,
        offset=len(before),
        seq=3,
        id="schedule-1",
        message="delete of an id that is not active",
    )


def test_state_is_the_one_before_the_first_fault() -> None:
    """What every reader gets; what follows is only searched for further faults."""
    log = header() + create(0) + create(1, "b") + change(2, 7) + dispatch(3) + create(4, "c")
    report = agrees(log)

    assert [record.id for record in report.active] == ["schedule-1", "b"]
    assert report.seen == ("schedule-1", "b")
    assert (report.dispatched, report.deleted, report.events, report.changes) == (0, 0, 5, 5)


def test_what_follows_from_a_fault_is_not_a_fault() -> None:
    """A bad create is passed over; that its id is dispatched later is no news."""
    assert codes(both(header() + change(0, creating(prompt="")) + dispatch(1, "a"))) == [
        "untrimmed_text"
    ]
    assert codes(both(header() + line(0) + b"bad\n" + dispatch(2) + line(3))) == ["not_json"]


def test_further_faults_are_named_too() -> None:
    log = header() + create(0) + b"bad\n" + create(2) + line(3) + line(5) + change(6, 1) + line(7)

    assert [(f.code, f.seq) for f in agrees(log).findings] == [
        ("not_json", None),
        ("id_reused", 2),
        ("seq_gap", 5),
        ("wrong_type", 6),
    ]


def test_repeated_block_is_one_fault() -> None:
    """The changes in it were taken already; they are not reused ids."""
    block = create(0) + create(1, "b") + delete(2)
    report = agrees(header() + block + block + delete(3, "b") + line(4))

    assert codes(report) == ["seq_repeat"]


def test_torn_tail_hides_what_lies_in_it() -> None:
    """Nothing in it was committed, so nothing in it is a fault."""
    log = header() + checkpoint(0, -1) + create(1) + b"\0\0\n" + change(3, 7) + delete(4, "z")
    report = agrees(log)

    assert codes(report) == ["torn_tail"]
    assert report.events == 2
    assert report.findings[0].offset == report.torn.offset if report.torn else None


def test_bad_line_below_a_checkpoint_is_not_a_torn_tail() -> None:
    log = header() + checkpoint(0, -1) + b"\0\0\n" + checkpoint(2, 1) + line(3)

    assert codes(agrees(log)) == ["nul_run"]
    assert agrees(log).torn is None


def test_checkpoint_glued_to_a_durable_line_still_tells() -> None:
    """A lost newline must not make what is durable look torn."""
    log = header() + checkpoint(0, -1) + create(1).strip() + checkpoint(2, 1) + line(3)

    assert codes(agrees(log)) == ["glued_lines"]


def test_whole_event_without_its_newline_is_a_torn_tail_and_said_so() -> None:
    report = agrees(header() + create(0) + delete(1)[:-1])

    assert codes(report) == ["torn_tail", "unsaved_tail"]
    assert len(report.active) == 1


def test_fork_does_not_look_into_what_it_inherited() -> None:
    """Bad events of the parent are nobody's fault here; its ids may be used again."""
    log = header(seed_length=2, parent="p") + create(0) + change(1, 7) + create(2) + dispatch(3)
    report = agrees(log)

    assert report.first_fault is None
    assert (report.changes, report.seen, report.dispatched) == (2, ("schedule-1",), 1)


@pytest.mark.parametrize("seed_length", [-1, 1.5, True, None, "2"])
def test_unusable_boundary_lets_no_reminder_be_seen(seed_length: object) -> None:
    log = header(seed_length=seed_length, parent="p") + create(0) + change(1, 7)

    report = both(log)

    assert codes(report) == ["seed_length_out_of_range"]
    assert (report.active, report.seen) == ((), ())


def test_clock_may_be_read_a_moment_before_the_event() -> None:
    record = {"id": "a", "kind": "after", "prompt": "tea", "afterSeconds": 60}
    data = creating(**record, scheduledAt="2026-11-30T01:00:00.000Z")
    due = 1_796_000_400_000

    for late, expected in ((0, []), (5_000, []), (5_001, ["after_target_mismatch"])):
        log = header() + change(0, data, time=due - 60_000 + late)
        assert codes(both(log)) == expected


def test_overdue_needs_a_now_and_is_told_with_the_create() -> None:
    log = header() + line(0) + create(1, at=TIME) + create(2, "b", at=TIME + 1)

    assert both(log).findings == ()
    [finding] = both(log, now=TIME).findings
    assert (finding.line, finding.offset, finding.seq, finding.id) == (3, None, 1, "schedule-1")


def test_log_of_another_inbox_is_not_asked_for_messages() -> None:
    """Only a log with queued messages can lack one; and only from the first one on."""
    assert codes(both(header() + create(0) + dispatch(1))) == []
    log = header() + create(0) + dispatch(1) + create(2, "b") + queued(3, "b") + dispatch(4, "b")
    assert codes(both(log)) == []


def test_findings_are_bounded_and_errors_are_never_crowded_out() -> None:
    early = [
        create(seq, f"r{seq}", at=TIME + 9) + dispatch(seq + 1, f"r{seq}")
        for seq in range(0, 2 * MAX_FINDINGS + 20, 2)
    ]
    log = header() + b"".join(early) + change(2 * MAX_FINDINGS + 20, 7)
    report = both(log)

    assert codes(report) == ["dispatched_early"] * MAX_FINDINGS + ["wrong_type"]
    assert report.unlisted == 10
    assert report.first_fault == report.findings[-1]


@pytest.mark.parametrize("log", [b"", b"\n", header()[:-1], b"\0" * 40, b"{}\n", b"\n" * 9])
def test_no_header_no_log(log: bytes) -> None:
    assert codes(both(log))[0] == "bad_header"


def test_events_without_a_header_are_still_looked_at() -> None:
    assert codes(both(line(0) + change(1, 7))) == ["bad_header", "wrong_type"]


class Pipe(io.BytesIO):
    """A source that gives few bytes at a time and cannot seek; makes its content as it goes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._head = header()
        self._seq = 0
        self._size = size
        self.given = 0

    def read(self, size: int | None = -1) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        while not data and self._seq < self._size:
            data = b"".join(line(seq) for seq in range(self._seq, self._seq + 100))
            self._seq += 100
            data, self._head = data[:size], data[size:]
        self.given += len(data)
        return data


@pytest.mark.parametrize("decoder", [ExactDecoder(), *FAST.values()])
def test_memory_does_not_grow_with_the_log(decoder: Any) -> None:
    source = Pipe(40_000)
    scan(Pipe(1_000), decoder=decoder)
    tracemalloc.start()
    try:
        report = scan(source, decoder=decoder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (report.events, report.size) == (40_000, source.given)
    assert peak < source.given / 4


@pytest.mark.parametrize("size", [63, 64, 65, 8_191, 70_000, 200_000])
def test_lines_of_any_length_and_blocks_that_cut_anywhere(size: int) -> None:
    log = header() + create(0) + line(1, data="é" * size) + line(2, data=["x" * size]) + delete(3)
    report = agrees(log)

    assert (report.first_fault, report.deleted) == (None, 1)


def test_prompt_never_enters_a_finding() -> None:
    """A log is somebody's conversation."""
    canary = "xyzzy"
    log = header() + change(0, creating(prompt=f" {canary}")) + f"{canary}\n".encode() + line(9)

    assert canary not in repr(both(log).findings)


class TestCompressed:
    """Concatenated Zstandard frames."""

    zstandard = pytest.importorskip("zstandard")

    def log(self, *batches: bytes) -> list[bytes]:
        """One frame each."""
        return [self.zstandard.ZstdCompressor().compress(batch) for batch in batches]

    def test_frames_are_one_log(self) -> None:
        frames = self.log(header(), create(0) + create(1, "b"), delete(2))
        report = both(b"".join(frames))

        assert (report.format, report.events, report.findings) == ("zstd", 3, ())

    def test_incomplete_last_frame_is_a_torn_tail(self) -> None:
        first, second, third = self.log(header(), create(0), delete(1))
        for size in range(1, len(third)):
            report = both(first + second + third[:size])

            assert codes(report) == ["torn_tail"]
            assert report.torn_frame == len(first + second)
            assert len(report.active) == 1

    def test_damaged_frame_is_a_fault(self) -> None:
        first, second, third = self.log(header(), create(0), delete(1))
        report = both(first + second + b"\1" + third)

        assert codes(report) == ["damaged_frame"]
        assert report.findings[0].line == 3

    def test_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "zstandard", None)

        with pytest.raises(StoreError) as caught:
            exact(b"".join(self.log(header())))
        assert caught.value.code == StoreErrorCode.UNSUPPORTED_LOG


def test_each_decoder_stands_in_for_a_faster_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code if it was built, else msgspec if it is installed, else the exact readers."""
    log = header() + create(0)
    chosen = [fastest_decoder()]
    for missing, module in (
        ("schedule_adapters.doctor._plain_lines", "native"),
        ("msgspec", "fast"),
    ):
        monkeypatch.setitem(sys.modules, missing, None)
        monkeypatch.delitem(sys.modules, f"schedule_adapters.doctor.{module}_lines", raising=False)
        chosen.append(fastest_decoder())
        assert scan(io.BytesIO(log), now=Instant(TIME)).events == 1

    assert [getattr(decoder, "__name__", type(decoder).__name__) for decoder in chosen] == [
        "schedule_adapters.doctor.native_lines",
        "schedule_adapters.doctor.fast_lines",
        "ExactDecoder",
    ]
