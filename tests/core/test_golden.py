"""The golden rows (`tests/golden/README.md`), each one a test of its own.

Run one kind with `-k`, for instance `-k "local and overlap_middle"`.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from schedule_core.decoder import (
    decode_change_json,
    encode_change_json,
    encode_record,
    view_json,
)
from schedule_core.errors import ScheduleInputError, ScheduleLogError
from schedule_core.fold import fold_log
from schedule_core.framing import render_reminder
from schedule_core.instants import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    format_instant,
    parse_instant,
)
from schedule_core.normalizer import new_record, resolve_at
from schedule_core.ports import SessionEvent
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleId,
    ScheduleRecord,
    view,
)
from schedule_core.zones import find_zone

Row = dict[str, Any]

GOLDEN: Final = Path(__file__).parents[1] / "golden"

FOLLOWED: Final = {"zone_case", "icu_only_name", "julian_calendar", "tzdata_version"}
"""Categories of disagreement in which `right` decides; the last with our pinned tzdata."""

WRONG_ROWS: Final = {
    ("Europe/London", "00:00:00"): "0001-01-01T00:01:15.000Z",
    ("Europe/London", "00:00:00.001"): "0001-01-01T00:01:15.001Z",
    ("America/New_York", "00:00:00"): "0001-01-01T04:56:02.000Z",
    ("America/New_York", "00:00:00.001"): "0001-01-01T04:56:02.001Z",
    ("Pacific/Kiritimati", "00:00:00"): "0001-01-01T10:29:20.000Z",
    ("Pacific/Kiritimati", "00:00:00.001"): "0001-01-01T10:29:20.001Z",
    ("Pacific/Kiritimati", "23:59:59.999"): "0001-01-02T10:29:19.999Z",
}
"""Rows of 0001-01-01 whose instant is not the asked local time, by zone and time: our answer."""


def _rows(name: str) -> list[Row]:
    lines = (GOLDEN / name).read_bytes().rstrip(b"\n").split(b"\n")
    return [json.loads(line) for line in lines]


def _each(name: str, wanted: Callable[[Row], bool] = lambda _: True) -> pytest.MarkDecorator:
    """One test a row, named after its tag and line."""
    return pytest.mark.parametrize(
        "row",
        [
            pytest.param(row, id=f"{row['tag']}-line{line}")
            for line, row in enumerate(_rows(name), 1)
            if wanted(row)
        ],
    )


def _is_wrong(row: Row) -> bool:
    return row["at"]["date"] == "0001-01-01" and (
        (row["at"]["time_zone"], row["at"]["time"]) in WRONG_ROWS
    )


def _number(value: Any) -> Any:
    """The value, with `{"$number": ...}` as the float that JSON cannot write."""
    if isinstance(value, dict) and value.keys() == {"$number"}:
        return float(value["$number"])
    return value


def _outcome(act: Callable[[], object]) -> Row:
    try:
        return {"ok": act()}
    except ScheduleInputError as error:
        return {"error": error.code.value}


def _expected(row: Row) -> Row:
    return {name: row[name] for name in ("ok", "error") if name in row}


def _resolved(row: Row) -> Row:
    return _outcome(lambda: format_instant(resolve_at(row["at"], _number(row["now"]))))


def _record(stored: Row) -> ScheduleRecord:
    """The record as it stands in the row; framing rows hold prompts no decoder would take."""
    schedule_id, prompt = ScheduleId(stored["id"]), Prompt(stored["prompt"])
    target = parse_instant(stored["scheduledAt"])
    if stored["kind"] == "at":
        return AtScheduleRecord(schedule_id, prompt, target)
    return AfterScheduleRecord(schedule_id, prompt, DelaySeconds(stored["afterSeconds"]), target)


@_each("instants.jsonl")
def test_instant(row: Row) -> None:
    assert _expected(row) == _resolved(row)


@_each("local.jsonl")
def test_local(row: Row) -> None:
    assert _expected(row) == _resolved(row)


@_each(
    "local_disagreements.jsonl",
    lambda row: row["category"] in FOLLOWED and not _is_wrong(row),
)
def test_local_disagreement(row: Row) -> None:
    assert row[row["right"]] == _resolved(row)


@_each("local_disagreements.jsonl", _is_wrong)
def test_row_that_does_not_map_back(row: Row) -> None:
    """The row's instant is another local time in that zone; ours is the one asked for."""
    name, clock = row["at"]["time_zone"], row["at"]["time"]

    assert row["right"] == "python"
    assert _asked_ms(clock) != _local_ms(row["python"]["ok"], name)
    assert _asked_ms(clock) == _local_ms(WRONG_ROWS[name, clock], name)
    assert {"ok": WRONG_ROWS[name, clock]} == _resolved(row)


def test_every_disagreement_is_followed_or_named() -> None:
    """No row is left out but the five that say nothing, and the seven named ones exist."""
    rows = _rows("local_disagreements.jsonl")

    assert {"backzone_build"} == {row["category"] for row in rows} - FOLLOWED
    assert {"any"} == {row["right"] for row in rows if row["category"] not in FOLLOWED}
    assert len(WRONG_ROWS) == sum(map(_is_wrong, rows))


@_each("decode.jsonl")
def test_decode(row: Row) -> None:
    try:
        actual = {"ok": encode_change_json(decode_change_json(row["raw"]))}
    except ScheduleLogError:
        actual = {}
    assert _expected(row) == actual


@_each("fold.jsonl")
def test_fold(row: Row) -> None:
    events = [SessionEvent(event.get("type"), event.get("data")) for event in row["events"]]
    expected = {name: row[name] for name in row.keys() - {"tag", "events", "seedLength"}}
    actual: Row
    boundary = {"seed_length": _number(row["seedLength"])} if "seedLength" in row else {}
    try:
        schedules = fold_log(events, **boundary)
        actual = {
            "active": [record.id for record in schedules.active],
            "seenIds": list(schedules.seen),
            "nextId": schedules.next_id(),
        }
    except ScheduleLogError as error:
        actual = {"error": error.code.value}
        if error.position is not None:
            actual["failedIndex"] = error.position
    assert expected == actual


@_each("create.jsonl")
def test_create(row: Row) -> None:
    selector = {name: _number(row[name]) for name in ("after_seconds", "at") if name in row}

    actual = _outcome(
        lambda: encode_record(
            new_record(row["id"], row["prompt"], now=_number(row["now"]), **selector)
        )
    )

    assert _expected(row) == actual
    if "ok" in row:
        assert list(row["ok"]) == list(actual["ok"]), "keys in the original's order"


@_each("view.jsonl")
def test_view(row: Row) -> None:
    actual = view_json(view(_record(row["record"]), _number(row["now"])))

    assert row["ok"] == actual
    assert list(row["ok"]) == list(actual), "keys in the original's order"


@_each("framing.jsonl")
def test_framing(row: Row) -> None:
    actual = render_reminder(_record(row["record"]))

    assert row["framing"] == actual
    assert row["bytes"] == len(actual.encode())
    assert row["sha256"] == hashlib.sha256(actual.encode()).hexdigest()


def _asked_ms(clock: str) -> int:
    """The time of 0001-01-01 that was asked for, in milliseconds since 0001-01-01T00:00."""
    hour, minute, second = clock.split(":")
    return int(hour) * HOUR_MS + int(minute) * MINUTE_MS + round(float(second) * SECOND_MS)


def _local_ms(instant: str, zone_name: str) -> int:
    """The local time of an instant, in milliseconds since 0001-01-01T00:00.

    The zones concerned have one offset in all of the year 1, so the middle of the year
    tells it, far from the edge of the calendar where arithmetic overflows.
    """
    zone = find_zone(zone_name)
    assert zone is not None
    offset = zone.utcoffset(datetime(1, 7, 1))  # noqa: DTZ001 - the wall clock of that zone
    assert offset is not None
    utc_ms = int(instant[8:10]) * DAY_MS - DAY_MS + _asked_ms(instant[11:23])
    return utc_ms + offset // timedelta(milliseconds=1)
