"""The picture of a log: what is in it, where it stands, and that it always can be drawn."""

import io
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.doctor.axis import day_and_clock, make_axis, ticks
from schedule_adapters.doctor.cells import cells, fit
from schedule_adapters.doctor.timeline import End, Lane, Timeline, read_timeline
from schedule_adapters.doctor.timeline_svg import timeline_svg
from schedule_adapters.doctor.timeline_text import timeline_lines
from schedule_adapters.doctor.timeline_words import moments_of, outcome, short_duration
from schedule_core.instants import DAY_MS, MAX_INSTANT, MIN_INSTANT, Instant
from schedule_core.records import Prompt, ScheduleId
from schedule_core.text import MAX_SAFE_INTEGER
from tests.adapters.doctor_cli.demo_logs import (
    HOUR,
    MIN,
    MORNING,
    NOW,
    DemoLog,
    S,
    damaged,
    fork,
    odd,
    sound_day,
    torn,
)
from tests.adapters.doctor_cli.pictures import timeline

ORIGINAL = Path(__file__).parents[2] / "golden" / "original_logs"
ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "Pacific/Apia"])
TIMES = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | st.integers(0, 10 * DAY_MS)
LANES = st.builds(
    Lane,
    number=st.integers(0, 9),
    id=st.from_type(ScheduleId),
    prompt=st.from_type(Prompt),
    created=TIMES,
    due=st.from_type(Instant),
    queued=st.none() | TIMES,
    ended=TIMES,
    end=st.sampled_from([End.DISPATCHED, End.DELETED]),
) | st.builds(
    Lane,
    number=st.integers(0, 9),
    id=st.from_type(ScheduleId),
    prompt=st.from_type(Prompt),
    created=TIMES,
    due=st.from_type(Instant) | st.integers(0, DAY_MS).map(Instant),
    queued=st.none() | TIMES,
)
TIMELINES = st.builds(
    Timeline,
    session=st.text(min_size=1),
    lanes=st.lists(LANES, max_size=6).map(tuple),
    counts=st.just({End.ACTIVE: 3}),
    note=st.none() | st.text(),
)


def read(log: DemoLog | bytes, **options: Any) -> Timeline:
    return read_timeline(io.BytesIO(log if isinstance(log, bytes) else log.text), **options)


def drawn(shown: Timeline, width: int = 80, zone: str | None = None) -> list[str]:
    lines = timeline_lines(shown, zone, NOW, width)
    return ["".join(text for text, _ in line) for line in lines]


def test_lane_holds_every_moment_of_a_life() -> None:
    first, second, third, fourth, fifth, _ = read(sound_day()).lanes
    assert (MORNING + 5 * MIN, MORNING + 25 * MIN) == (first.created, first.due)
    assert (MORNING + 25 * MIN + 300, MORNING + 25 * MIN + 302) == (first.queued, first.ended)
    assert ["on time", "on time", "7 min late", "deleted", "in 1 h"] == [
        outcome(lane, NOW) for lane in (first, second, third, fourth, fifth)
    ]


def test_what_somebody_should_look_at_is_said() -> None:
    lanes = read(odd().queue("schedule-1", 3 * HOUR)).lanes
    assert ["queued only", "10 min early", "on time"] == [outcome(lane, NOW) for lane in lanes]
    assert "overdue 6 h" == outcome(read(odd()).lanes[0], NOW)


def test_picture_ends_where_readers_end() -> None:
    """A torn tail, damage, a bad boundary: a note, and what was before it."""
    cases = (
        (torn().text[:-1], 1, "line 4: the line has no newline at its end"),
        (damaged().text, 1, "line 3: unknown_kind"),
        (sound_day().text.replace(b'"seq":2,', b'"seq":3,'), 1, "line 4: seq 3 leaves a gap"),
        (DemoLog("x", {"seedLength": -1}).create("a", "b", 0).text, 0, "the fork boundary"),
    )
    for text, count, note in cases:
        shown = read(text)
        assert count == len(shown.lanes)
        assert (shown.note or "").startswith(note)
        assert any(note in line for line in drawn(shown, 200))


@pytest.mark.parametrize(
    "log", [sound_day(), fork(), damaged(), torn()], ids=lambda log: log.session
)
def test_picture_is_the_same_without_the_fast_decoder(
    log: DemoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(log)
    monkeypatch.setitem(sys.modules, "schedule_adapters.doctor.fast_lines", None)
    assert expected == read(log)


def test_fork_shows_its_own_reminders_only() -> None:
    assert ["schedule-2"] == [lane.id for lane in read(fork()).lanes]


@pytest.mark.parametrize(
    "file", sorted(ORIGINAL.glob("*-[0-9].jsonl*")), ids=lambda file: file.name
)
def test_every_log_of_the_original_can_be_drawn(file: Path, tmp_path: Path) -> None:
    """A thousand times wider gaps than the shortest: the order stays, and it is said."""
    picture = tmp_path / "picture.svg"
    done = timeline(str(file), now="2027-01-01T00:00:00.000Z")
    assert (0, "") == (done.code, done.err)
    if file.name.startswith("basic"):
        rows = [line for line in done.out.splitlines() if line.startswith("schedule-")]
        assert [True, True, True] == [
            bool(re.search(pattern, row))
            for pattern, row in zip(("◆╍+✓", "●━+◇", "✗┈+◇ +deleted"), rows, strict=True)
        ]
        assert "times in UTC; long quiet stretches are shortened\n" in done.out
    assert 0 == timeline(str(file), "--svg", str(picture)).code
    ET.parse(picture)  # noqa: S314 - our own file


def test_no_reminder_and_one() -> None:
    assert ["empty", "no reminders", "times in UTC"] == drawn(read(DemoLog("empty")))
    one = drawn(read(DemoLog("one").create("schedule-1", "tea", 12 * HOUR)))
    [row] = [line for line in one if line.startswith("schedule-1")]
    assert re.fullmatch("schedule-1 tea +  ●━+◇  in 3 h", row)


def test_of_many_reminders_the_ones_that_matter_are_shown() -> None:
    """Active ones first, then those that ended last; the rest is counted."""
    log = DemoLog("many").create("early", "still active", 12 * HOUR)
    for number in range(2_000):
        log.create(f"n{number}", "one of many", HOUR).deliver(f"n{number}", HOUR + number * S)
    shown = read(log, limit=5)
    assert ["early", "n1996", "n1997", "n1998", "n1999"] == [lane.id for lane in shown.lanes]
    assert 1_996 == shown.hidden
    lines = drawn(shown)
    assert "2001 reminders: 1 active, 2000 dispatched" == lines[1]
    assert "1996 reminders not shown" in lines
    active = DemoLog("all active")
    for number in range(10):
        active.create(f"n{number}", "later", (20 - number) * HOUR)
    assert ["n7", "n8", "n9"] == [lane.id for lane in read(active, limit=3).lanes]


@given(shown=TIMELINES, zone=ZONES, width=st.integers(0, 240))
def test_any_life_can_be_drawn(shown: Timeline, zone: str | None, width: int) -> None:
    """The SVG is well-formed XML, no line is wider than the terminal, no text is more than text."""
    root = ET.fromstring(timeline_svg(shown, zone, NOW))  # noqa: S314 - what is tested
    groups = root.findall("{http://www.w3.org/2000/svg}g")
    assert len(shown.lanes) == len(groups)
    for element in root.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(element.get(name, 0)) <= 1_080
    for line in drawn(shown, width, zone):
        assert cells(line) <= max(width, 60) or line.count(" ") == 0
        assert "\x1b" not in line
        assert "\n" not in line


@given(moments=st.lists(TIMES, max_size=12), zone=ZONES, width=st.floats(0.05, 0.6))
def test_axis_keeps_the_order_and_its_labels_apart(
    moments: list[int], zone: str | None, width: float
) -> None:
    axis = make_axis(moments)
    places = [axis.place(moment) for moment in sorted(moments)]
    assert sorted(places) == places
    assert all(0 <= place <= 1 for place in places)
    assert (0.0, 1.0) == (axis.place(axis.moments[0]), axis.place(axis.moments[-1]))
    labels = ticks(axis, zone, width)
    starts = [tick.start for tick in labels]
    assert labels
    assert all(after - before >= width for before, after in pairwise(starts))
    assert all(0 <= start <= 1 for start in starts)


def test_line_is_to_scale_unless_moments_would_fall_together() -> None:
    """Evenly spread moments, however many; a second and a year are not."""
    assert make_axis(range(0, 10_000_000, 1_000)).is_to_scale
    assert make_axis([0, DAY_MS]).is_to_scale
    axis = make_axis([0, 5 * S, 365 * DAY_MS])
    assert not axis.is_to_scale
    assert 0.05 < axis.place(5 * S) < 0.5


def test_round_times_label_a_line_to_scale() -> None:
    axis = make_axis([MORNING + 7 * MIN, MORNING + 3 * HOUR])
    assert [("2030-03-01", "10:00"), ("", "11:00")] == [
        (tick.day, tick.clock) for tick in ticks(axis, None, 0.3)
    ]
    india = ticks(axis, "Asia/Kolkata", 0.3)
    assert ["15:00", "16:00"] == [tick.clock for tick in india]


def test_moment_beyond_the_calendar_has_words_too() -> None:
    assert ("", "9.01e+12 s") == day_and_clock(MAX_SAFE_INTEGER, None)
    assert ("0001-01-01", "00:00:00") == day_and_clock(MIN_INSTANT, "America/New_York")
    assert ("9999-12-31", "23:59:59") == day_and_clock(MAX_INSTANT, None)


def test_overdue_reaches_to_now() -> None:
    lane = Lane(0, ScheduleId("a"), "b", 0, Instant(10))
    assert [0, 10, 500] == moments_of(lane, Instant(500))
    assert [0, 10] == moments_of(lane, Instant(5))


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 s"), (999, "0 s"), (4_000, "4 s"), (-61_000, "1 min 1 s"), (3_600_000, "1 h"),
     (90_061_000, "1 d 1 h"), (400 * DAY_MS, "1 y 35 d"), (2**53, "285,616 y")],
)  # fmt: skip
def test_short_duration(milliseconds: int, text: str) -> None:
    assert text == short_duration(milliseconds)


@given(text=st.text(), width=st.integers(1, 40))
def test_fitted_text_takes_exactly_its_cells(text: str, width: int) -> None:
    assert width == cells(fit(text, width))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"hello\n", "this is not a session log; its first line is no header of a session"),
        (b"", "this is not a session log; its first line is no header of a session"),
        (b'{"type":"session","version":3,"id":"a","createdAt":0}\n', "only log version 0 is known"),
        (b"\x28\xb5\x2f\xfdrubbish", "the compressed frame at byte 0 is damaged"),
        (None, "there is no such file or folder"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_line(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)
    done = timeline(str(path))
    assert (2, "", f"session-schedule: {path}: {reason}\n") == (done.code, done.out, done.err)


def test_folder_stands_for_its_only_log(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(sound_day().text)
    assert "6 reminders" in timeline(str(tmp_path)).out
    (tmp_path / "b.jsonl").write_bytes(sound_day().text)
    assert "name one of the 2 logs in this folder" in timeline(str(tmp_path)).err


def test_standard_input_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sound_day().text)))
    assert timeline("-").out.startswith("garden\n6 reminders")
