"""A local time is the instant that maps back to it, in every zone of the wheel.

The oracle shares nothing with `zoneinfo`: it reads the zone files and their POSIX footers
itself, only ever asks "what is the local time of this instant", and finds the instant of a
local time by trying every offset that the zone has ever had. (`dateutil.tz.tzfile` cannot
serve: it reads only the first, 32-bit block of a zone file, which is empty in the wheel.)
"""

import json
import os
import re
import struct
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

import schedule_core
from schedule_core.errors import ErrorCode, ScheduleInputError
from schedule_core.instants import (
    MAX_INSTANT,
    MIN_INSTANT,
    SECOND_MS,
    Instant,
    format_instant,
    parse_instant,
)
from schedule_core.normalizer import resolve_at
from schedule_core.zones import (
    canonical_zone_name,
    find_zone,
    zone_data_version,
    zone_names,
)

LONG_AGO: Final = MIN_INSTANT - 1
"""A clock before every target, so that only the calendar is judged."""
LAST_YEAR: Final = 2037
"""Every transition up to the end of this year is tried, and those of `LATER_YEARS`."""
LATER_YEARS: Final = (2038, 2039, 2050, 2100, 2400, 9998)

# --- the oracle ------------------------------------------------------------------------

_EPOCH_DAY: Final = 719_162  # 1970-01-01, counted from 0001-01-01
_DAY_S: Final = 86_400
_RULE_DATE = r",M(\d+)[.](\d)[.](\d)(?:/([-+]?[\d:]+))?"
_FOOTER = re.compile(
    rf"(?:<.+?>|[A-Za-z]+)([-+]?[\d:]+)"
    rf"(?:(?:<.+?>|[A-Za-z]+)([-+]?[\d:]+)?{_RULE_DATE}{_RULE_DATE})?"
)


@frozen
class Yearly:
    """The summer-time rule of a POSIX footer: from when to when, and the two offsets."""

    standard_s: int
    summer_s: int
    start: tuple[int, int, int, int]  # month, week, weekday (0 is Sunday), seconds of the day
    end: tuple[int, int, int, int]

    def changes(self, year: int) -> list[tuple[int, int]]:
        """The year's (second, offset from then on), in order."""
        return sorted(
            (
                (_second_of(year, self.start) - self.standard_s, self.summer_s),
                (_second_of(year, self.end) - self.summer_s, self.standard_s),
            )
        )


@frozen
class Oracle:
    """One zone file, read from instants to local times only."""

    seconds: tuple[int, ...]
    offsets: tuple[int, ...]  # from each of `seconds` on
    first_s: int  # the offset before the first transition
    footer: int | Yearly
    every_offset: frozenset[int] = field(repr=False)

    def offset_at(self, second: int) -> int:
        """The offset, in seconds, in force at an instant."""
        if self.seconds and second < self.seconds[-1]:
            place = bisect_right(self.seconds, second)
            return self.offsets[place - 1] if place else self.first_s
        if isinstance(self.footer, int):
            return self.footer
        year = _year_of(second)
        place = bisect_right(_changes_around(self.footer, year), (second, _DAY_S))
        return _changes_around(self.footer, year)[place - 1][1]

    def instant_of(self, local_ms: int) -> int | None:
        """The earliest instant with that local time; None if no instant has it."""
        return min(
            (
                local_ms - offset * SECOND_MS
                for offset in self.every_offset
                if self.offset_at(local_ms // SECOND_MS - offset) == offset
            ),
            default=None,
        )

    def transitions(self) -> Iterator[tuple[int, int, int]]:
        """Every (second, offset before, offset after) that the tests look at."""
        steps = [(-(2**62), self.first_s), *zip(self.seconds, self.offsets, strict=True)]
        if isinstance(self.footer, Yearly):
            first_year = _year_of(self.seconds[-1]) if self.seconds else 1
            for year in (*range(first_year, LAST_YEAR + 1), *LATER_YEARS):
                for second, offset in self.footer.changes(year):
                    if second > steps[-1][0]:
                        steps.append((second, offset))
        yield from (
            (second, self.offset_at(second - 1), after) for _, (second, after) in pairwise(steps)
        )


def read_zone(data: bytes) -> Oracle:
    """Read the 64-bit block and the footer of a zone file (RFC 8536)."""
    start = 44 + _block_size(struct.unpack_from(">6l", data, 20), 4)  # the 32-bit block
    counts = struct.unpack_from(">6l", data, start + 20)
    _, _, leaps, count, types, _ = counts
    assert leaps == 0, "the wheel's zones know no leap seconds"
    body = start + 44
    seconds = struct.unpack_from(f">{count}q", data, body)
    kinds = data[body + 8 * count : body + 9 * count]
    kind_offsets = [
        struct.unpack_from(">l", data, body + 9 * count + 6 * kind)[0] for kind in range(types)
    ]
    footer = _footer(data[body + _block_size(counts, 8) :].decode("ascii").strip("\n"))
    last = {footer} if isinstance(footer, int) else {footer.standard_s, footer.summer_s}
    return Oracle(
        seconds,
        tuple(kind_offsets[kind] for kind in kinds),
        kind_offsets[0],
        footer,
        frozenset({*kind_offsets, *last}),
    )


def _block_size(counts: tuple[int, ...], time_size: int) -> int:
    ut_flags, standard_flags, leaps, times, types, letters = counts
    return (
        times * (time_size + 1)
        + types * 6
        + letters
        + leaps * (time_size + 4)
        + standard_flags
        + ut_flags
    )


def _footer(text: str) -> int | Yearly:
    found = _FOOTER.fullmatch(text)
    assert found is not None, text
    standard, summer, *dates = found.groups()
    standard_s = -_clock_s(standard)
    if dates[0] is None:
        return standard_s
    summer_s = standard_s + 3600 if summer is None else -_clock_s(summer)
    start, end = (
        (int(month), int(week), int(weekday), _clock_s(clock or "2"))
        for month, week, weekday, clock in (dates[:4], dates[4:])
    )
    return Yearly(standard_s, summer_s, start, end)


def _clock_s(text: str) -> int:
    hours, minutes, seconds, *_ = [*map(int, text.strip("+-").split(":")), 0, 0]
    return (-1 if text[0] == "-" else 1) * (hours * 3600 + minutes * 60 + seconds)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_before(year: int) -> int:
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400


@cache
def _second_of(year: int, rule: tuple[int, int, int, int]) -> int:
    """The local second of a rule such as "last Sunday of March, two o'clock"."""
    month, week, weekday, clock = rule
    lengths = (31, 29 if _is_leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    first = _days_before(year) + sum(lengths[: month - 1])
    day = (weekday - 1 - first) % 7 + 7 * (week - 1)  # 0001-01-01 was a Monday
    if day >= lengths[month - 1]:
        day -= 7
    return (first + day - _EPOCH_DAY) * _DAY_S + clock


def _year_of(second: int) -> int:
    day = second // _DAY_S + _EPOCH_DAY
    year = day * 400 // 146_097 + 1
    while _days_before(year) > day:
        year -= 1
    while _days_before(year + 1) <= day:
        year += 1
    return year


@cache
def _changes_around(rule: Yearly, year: int) -> list[tuple[int, int]]:
    return [change for near in (year - 1, year, year + 1) for change in rule.changes(near)]


# --- what the tests share ----------------------------------------------------------------


def _zone_bytes(name: str) -> bytes:
    return files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


@cache
def _twins() -> dict[bytes, list[str]]:
    """The wheel's names by the bytes of their files: links are the same zone again."""
    groups: dict[bytes, list[str]] = {}
    for name in sorted(zone_names().values()):
        groups.setdefault(_zone_bytes(name), []).append(name)
    return groups


@cache
def _oracle(name: str) -> Oracle:
    return read_zone(_zone_bytes(name))


def _at(local_ms: int, zone_name: str) -> dict[str, str]:
    text = format_instant(Instant(local_ms))
    return {"date": text[:10], "time": text[11:23], "time_zone": zone_name}


def _answer(local_ms: int, zone_name: str) -> int | str:
    try:
        return resolve_at(_at(local_ms, zone_name), LONG_AGO)
    except ScheduleInputError as error:
        return error.code.value


def _oracle_answer(local_ms: int, zone: Oracle) -> int | str:
    instant = zone.instant_of(local_ms)
    if instant is None:
        return ErrorCode.INVALID_RULE.value
    if not MIN_INSTANT <= instant <= MAX_INSTANT:
        return ErrorCode.TIME_OUT_OF_RANGE.value
    return instant


def _points(zone: Oracle) -> Iterator[int]:
    """Local times around each transition: before, first, middle, last and after."""
    for second, before, after in zone.transitions():
        first = (second + min(before, after)) * SECOND_MS
        end = (second + max(before, after)) * SECOND_MS
        yield from (first - 1, first, (first + end) // 2, end - 1, end)


# --- the tests -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [names[0] for names in _twins().values()])
def test_local_time_is_the_earliest_instant_that_maps_back(name: str) -> None:
    """Around every change of offset; a time that nothing maps back to is refused."""
    zone = _oracle(name)

    different = [
        (_at(local_ms, name), _oracle_answer(local_ms, zone), _answer(local_ms, name))
        for local_ms in _points(zone)
        if _oracle_answer(local_ms, zone) != _answer(local_ms, name)
    ]

    assert [] == different


def test_oracle_meets_gaps_and_overlaps_of_every_kind() -> None:
    """The proof above is not empty: it crosses thousands of both, from seconds to a day wide."""
    widths = [
        after - before
        for names in _twins().values()
        for _, before, after in _oracle(names[0]).transitions()
    ]

    assert len(widths) > 24_000
    assert sum(width > 0 for width in widths) > 10_000
    assert sum(width < 0 for width in widths) > 10_000
    assert {1800, 3600, 7200, _DAY_S, -1800, -3600, -7200, -_DAY_S} <= set(widths)


@given(
    name=st.sampled_from(sorted(zone_names().values())),
    local_ms=st.integers(MIN_INSTANT, MAX_INSTANT)
    | st.integers(-4_000_000_000_000, 4_000_000_000_000),
)
def test_any_local_time_of_any_zone_agrees_with_the_oracle(name: str, local_ms: int) -> None:
    assert _oracle_answer(local_ms, _oracle(name)) == _answer(local_ms, name)


def test_every_name_of_a_zone_gives_the_same_answers() -> None:
    """A link is read from its own file, so each name is asked; twins have equal bytes."""
    different = [
        (name, local_ms)
        for names in _twins().values()
        for name in names
        for local_ms in (0, 1_121_430_896_789, 1_799_930_096_000, 250_000_000_000_000)
        if _oracle_answer(local_ms, _oracle(names[0])) != _answer(local_ms, name)
    ]

    assert [] == different


@pytest.mark.parametrize(
    ("day", "clock", "zone_name", "expected"),
    [
        pytest.param("2026-05-06", "10:00:00", "America/Chicago", "2026-05-06T15:00:00.000Z"),
        pytest.param("2026-03-29", "01:59:59.999", "Europe/Berlin", "2026-03-29T00:59:59.999Z"),
        pytest.param("2026-03-29", "02:00:00", "Europe/Berlin", "invalid_rule"),
        pytest.param("2026-03-29", "02:30:00", "Europe/Berlin", "invalid_rule"),
        pytest.param("2026-03-29", "02:59:59.999", "Europe/Berlin", "invalid_rule"),
        pytest.param("2026-03-29", "03:00:00", "Europe/Berlin", "2026-03-29T01:00:00.000Z"),
        pytest.param("2026-10-25", "02:30:00", "Europe/Berlin", "2026-10-25T00:30:00.000Z"),
        pytest.param("2026-10-25", "03:00:00", "Europe/Berlin", "2026-10-25T02:00:00.000Z"),
        # A gap of two hours, of half an hour, of a whole day; a summer time below zero.
        pytest.param("2027-03-28", "02:59:59", "Antarctica/Troll", "invalid_rule"),
        pytest.param("2027-10-03", "02:15:00", "Australia/Lord_Howe", "invalid_rule"),
        pytest.param("2011-12-30", "12:00:00", "Pacific/Apia", "invalid_rule"),
        pytest.param("2027-10-31", "01:30:00", "Europe/Dublin", "2027-10-31T00:30:00.000Z"),
        # Old and new spelling of one place.
        pytest.param("2027-07-01", "12:00:00", "Europe/Kyiv", "2027-07-01T09:00:00.000Z"),
        pytest.param("2027-07-01", "12:00:00", "Europe/Kiev", "2027-07-01T09:00:00.000Z"),
        # Offsets that are no whole minutes, and both ends of the calendar.
        pytest.param("1800-01-01", "00:00:00", "Europe/Berlin", "1799-12-31T23:06:32.000Z"),
        pytest.param("0001-01-01", "00:00:00", "Asia/Tokyo", "time_out_of_range"),
        pytest.param("0001-01-01", "00:00:00", "UTC", "0001-01-01T00:00:00.000Z"),
        pytest.param("9999-12-31", "23:59:59.999", "UTC", "9999-12-31T23:59:59.999Z"),
        pytest.param("9999-12-31", "23:59:59.999", "America/New_York", "time_out_of_range"),
        pytest.param("9999-12-31", "23:59:59.999", "Asia/Tokyo", "9999-12-31T14:59:59.999Z"),
    ],
)
def test_known_local_times(day: str, clock: str, zone_name: str, expected: str) -> None:
    selector = {"date": day, "time": clock, "time_zone": zone_name}
    try:
        actual = format_instant(resolve_at(selector, LONG_AGO))
    except ScheduleInputError as error:
        actual = error.code.value
    assert expected == actual


@given(instant=st.from_type(Instant), offset_min=st.integers(-1439, 1439))
def test_offset_form_is_the_written_time_minus_its_offset(
    instant: Instant, offset_min: int
) -> None:
    """Whatever offset an instant is written with, the same instant comes back."""
    written = instant + offset_min * 60_000
    if not MIN_INSTANT <= written <= MAX_INSTANT:
        return
    sign = "-" if offset_min < 0 else "+"
    hours, minutes = divmod(abs(offset_min), 60)
    text = f"{format_instant(Instant(written))[:-1]}{sign}{hours:02}:{minutes:02}"

    assert instant == resolve_at(text, instant - 1)


@pytest.mark.parametrize(
    ("at", "code"),
    [
        pytest.param("2030-05-06T10:00:00", "invalid_rule", id="no offset"),
        pytest.param("2030-05-06T10:00:00+0100", "invalid_rule", id="no colon"),
        pytest.param("2030-05-06T10:00:00+01", "invalid_rule", id="no minutes"),
        pytest.param("2030-05-06T10:00:00+01:00:00", "invalid_rule", id="offset seconds"),
        pytest.param("2030-05-06T10:00:00-00:00", "invalid_rule", id="unknown offset"),
        pytest.param("2030-05-06T10:00:00+24:00", "invalid_rule", id="offset hour"),
        pytest.param("2030-05-06T10:00:00+00:60", "invalid_rule", id="offset minute"),
        pytest.param("2030-05-06T24:00:00Z", "invalid_rule", id="hour 24"),
        pytest.param("2030-05-06T23:59:60Z", "invalid_rule", id="leap second"),
        pytest.param("2030-05-06T10:60:00Z", "invalid_rule", id="minute 60"),
        pytest.param("2026-02-31T00:00:00Z", "invalid_rule", id="31 February"),
        pytest.param("2027-02-29T00:00:00Z", "invalid_rule", id="no leap year"),
        pytest.param("2100-02-29T00:00:00Z", "invalid_rule", id="no leap century"),
        pytest.param("0000-01-01T00:00:00Z", "invalid_rule", id="year 0"),
        pytest.param("2030-W05-1T00:00:00Z", "invalid_rule", id="week date"),
        pytest.param("2030-05-06T10:00:00,5Z", "invalid_rule", id="comma"),
        pytest.param("2030-05-06T10:00:00.Z", "invalid_rule", id="empty fraction"),
        pytest.param("2030-05-06T10:00:00Z\n", "invalid_rule", id="final newline"),
        pytest.param("٢030-05-06T10:00:00Z", "invalid_rule", id="digit that is not ASCII"),
        pytest.param("0001-01-01T00:00:00+00:01", "time_out_of_range", id="before year 1"),
        pytest.param("9999-12-31T23:59:59-00:01", "time_out_of_range", id="after year 9999"),
        pytest.param("2027-01-01T00:00:00Z", "not_future", id="now itself"),
        pytest.param("2026-12-31T23:59:59.999Z", "not_future", id="a millisecond ago"),
        pytest.param({}, "invalid_rule", id="no keys"),
        pytest.param({"date": "2030-01-01", "time": "00:00:00"}, "invalid_rule", id="no zone"),
        pytest.param(
            {"date": "2030-01-01", "time": 0, "time_zone": "Nowhere"}, "invalid_rule", id="types"
        ),
        pytest.param(
            {"date": "2030-01-01", "time": "00:00", "time_zone": "UTC"}, "invalid_rule", id="short"
        ),
        pytest.param(
            {"date": "bad", "time": "bad", "time_zone": 5}, "invalid_time_zone", id="zone type"
        ),
        pytest.param(
            {"date": "2030-13-01", "time": "00:00:00", "time_zone": "Nowhere"},
            "invalid_rule",
            id="calendar before zone",
        ),
        pytest.param(None, "invalid_rule", id="null"),
        pytest.param(5, "invalid_rule", id="number"),
        pytest.param(["2030-01-01T00:00:00Z"], "invalid_rule", id="list"),
    ],
)
def test_refused_selectors(at: object, code: str) -> None:
    now = parse_instant("2027-01-01T00:00:00.000Z")

    with pytest.raises(ScheduleInputError) as refusal:
        resolve_at(at, now)

    assert code == refusal.value.code


@given(at=st.text() | st.dictionaries(st.sampled_from(["date", "time", "time_zone"]), st.text()))
def test_any_selector_gives_an_instant_or_a_code(at: object) -> None:
    """Nothing else escapes, whatever the text; and a refusal never quotes it."""
    try:
        resolve_at(at, LONG_AGO)
    except ScheduleInputError as refusal:
        assert refusal.message.replace("±", "").isascii()  # noqa: PT017 - nothing else may come out


# --- zone names ----------------------------------------------------------------------------


def test_pinned_data_is_in_use() -> None:
    assert "2026f" == zone_data_version()


def test_every_listed_name_with_a_slash_is_a_zone() -> None:
    listed = files("tzdata").joinpath("zones").read_text("ascii").split()

    assert {name for name in listed if "/" in name} == set(zone_names().values())
    assert len(zone_names()) == len(set(zone_names().values())), "no two differ in case alone"


@pytest.mark.parametrize("case", [str.lower, str.upper, str.swapcase, str.title])
def test_any_letter_case_finds_the_zone(case: Callable[[str], str]) -> None:
    names = list(zone_names().values())

    assert names == [canonical_zone_name(case(name)) for name in names]
    assert all(find_zone(case(name)) is find_zone(name) for name in names)


HOSTILE: Final = (
    *("", ".", "..", "/", "//", "/etc/passwd", "../etc/passwd", "../../../../../etc/passwd"),
    *("Europe", "Europe/", "/Europe/Berlin", "Europe//Berlin", "Europe/./Berlin"),
    *("Europe/Berlin/", "Europe/../Europe/Berlin", "Europe\\Berlin", "C:/Windows/win.ini"),
    *("Europe/Berlin\0", "Europe/Berlin\n", " Europe/Berlin", "Europe/Nowhere"),
    *("posix/Europe/Berlin", "right/Europe/Berlin", "posixrules", "localtime", "Factory"),
    *("EST", "GB", "GMT", "utc", "Utc", "Z", "+01:00", "UTC+1", "zones", "tzdata.zi"),
    *("\ud800/x", "Europe/\u212aiev", "Europe/K\u0131ev", "\uff25urope/Berlin"),
    *("a" * 300, "a/" * 5_000, "Europe/" + "x" * 300, "US/Pacific-New", "SystemV/EST5EDT"),
)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_other_text_is_no_zone(name: str) -> None:
    assert find_zone(name) is None
    with pytest.raises(ScheduleInputError) as refusal:
        resolve_at({"date": "2030-01-01", "time": "00:00:00", "time_zone": name}, LONG_AGO)
    assert ErrorCode.INVALID_TIME_ZONE == refusal.value.code


_WATCHED = """
import json, sys
from schedule_core.zones import find_zone, zone_names
zone_names()
opened = []
sys.addaudithook(lambda name, args: opened.append(args[0]) if name == "open" else None)
found = [find_zone(name) is not None for name in json.loads(sys.argv[1])]
before = list(map(str, opened))
find_zone("europe/BERLIN")
print(json.dumps({"found": found, "before": before, "after": list(map(str, opened))}))
"""


def _run(source: str, *arguments: str, **environment: str) -> str:
    """Run Python in a process of its own that sees this very package."""
    package = Path(schedule_core.__file__).parents[1]
    done = subprocess.run(  # noqa: S603 - our own text, our own interpreter
        [sys.executable, "-c", source, *arguments],
        env={**os.environ, "PYTHONPATH": str(package), **environment},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout


def test_unlisted_name_never_touches_the_file_system() -> None:
    """Only a listed name opens a file, and that file is its own in the wheel."""
    names = [name for name in HOSTILE if "\0" not in name]

    seen = json.loads(_run(_WATCHED, json.dumps(names)))

    assert [] == seen["before"]
    assert [False] * len(names) == seen["found"]
    assert ["Berlin"] == [Path(name).name for name in seen["after"]]


_ON_THIS_MACHINE = """
import json, sys, time
from datetime import datetime
from zoneinfo import ZoneInfo
from schedule_core.instants import format_instant
from schedule_core.normalizer import resolve_at
machine = ZoneInfo("Europe/Berlin").utcoffset(datetime(2027, 7, 1)).total_seconds()
answers = [format_instant(resolve_at(at, 0)) for at in json.loads(sys.argv[1])]
print(json.dumps({"machine": machine, "local": time.timezone, "answers": answers}))
"""


def test_answers_do_not_depend_on_the_machine(tmp_path: Path) -> None:
    """Poisoned zone files and another local zone change what the machine says, not us."""
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(_zone_bytes("Etc/UTC"))
    (tmp_path / "UTC").write_bytes(_zone_bytes("Asia/Tokyo"))
    selectors = [
        {"date": "2027-07-01", "time": "12:00:00", "time_zone": "Europe/Berlin"},
        {"date": "2027-07-01", "time": "12:00:00", "time_zone": "UTC"},
        "2027-07-01T12:00:00+02:00",
    ]

    seen = json.loads(
        _run(_ON_THIS_MACHINE, json.dumps(selectors), PYTHONTZPATH=str(tmp_path), TZ="Asia/Tokyo")
    )

    assert 0 == seen["machine"], "the poison works"
    assert -32_400 == seen["local"]
    assert [
        "2027-07-01T10:00:00.000Z",
        "2027-07-01T12:00:00.000Z",
        "2027-07-01T10:00:00.000Z",
    ] == seen["answers"]


def test_utc_needs_no_file() -> None:
    assert UTC is find_zone("UTC")


def test_zone_is_loaded_once() -> None:
    assert find_zone("Europe/Berlin") is find_zone("EUROPE/berlin")
    assert isinstance(find_zone("Europe/Berlin"), ZoneInfo)


def test_zone_knows_its_canonical_name() -> None:
    assert "Europe/Berlin" == str(find_zone("EUROPE/berlin"))
