"""Every refusal has its fixed words: they reach the model or the host, and are never reworded."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from schedule_core.decide import Limits, confirm
from schedule_core.decoder import decode_change, decode_change_json
from schedule_core.errors import ErrorCode, LogFault, ScheduleInputError, ScheduleLogError
from schedule_core.fold import Schedules, fold_log
from schedule_core.instants import MAX_INSTANT, parse_instant
from schedule_core.normalizer import new_record
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.records import (
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
)
from schedule_core.text import json_text, parse_json
from schedule_core.tools import parse_request

NOW: Final = 1_800_000_000_000
DELAYED: Final[dict[str, Any]] = {
    "id": "a",
    "kind": "after",
    "prompt": "tea",
    "afterSeconds": 60,
    "scheduledAt": "2027-01-15T08:01:00.000Z",
}
CREATE: Final[dict[str, Any]] = {"version": 1, "operation": "create", "schedule": DELAYED}
DELETE: Final[dict[str, Any]] = {"version": 1, "operation": "delete", "id": "a"}
LOCAL: Final = {"date": "2027-03-28", "time": "02:30:00", "time_zone": "Europe/Berlin"}
SMALL: Final = Limits(prompt_bytes=3)

NO_ZONE: Final = "time_zone is not UTC or an IANA name such as Europe/Berlin"
NO_DAY: Final = "the date is not a day YYYY-MM-DD of the calendar"
NO_FORM: Final = "at is not YYYY-MM-DDTHH:MM:SS[.mmm] with Z or an offset ±HH:MM"
OUT_OF_RANGE: Final = "the time is outside the years 0001 to 9999"
NO_CLOCK: Final = "the clock gives no whole millisecond"
TOO_MANY: Final = "give prompt and exactly one of after_seconds and at, and nothing else"

BAD_AT: Final[list[tuple[object, ErrorCode, str]]] = [
    (7, ErrorCode.INVALID_RULE, "at is neither text nor an object"),
    ("tomorrow", ErrorCode.INVALID_RULE, NO_FORM),
    ("2027-13-01T00:00:00Z", ErrorCode.INVALID_RULE, NO_DAY),
    ("2027-02-01T24:00:00Z", ErrorCode.INVALID_RULE, "there is no such time of day"),
    ("2027-02-01T00:00:00+24:00", ErrorCode.INVALID_RULE, "at has an impossible offset"),
    ("2027-01-01T00:00:00Z", ErrorCode.NOT_FUTURE, "the time has already passed"),
    ("0001-01-01T00:00:00+00:01", ErrorCode.TIME_OUT_OF_RANGE, OUT_OF_RANGE),
    ({}, ErrorCode.INVALID_RULE, "at needs exactly date, time and time_zone"),
    (LOCAL | {"date": 7}, ErrorCode.INVALID_RULE, "date and time are not text"),
    (LOCAL | {"time": 7}, ErrorCode.INVALID_RULE, "date and time are not text"),
    (LOCAL | {"date": "1.1.2027"}, ErrorCode.INVALID_RULE, NO_DAY),
    (LOCAL | {"time": "2:30"}, ErrorCode.INVALID_RULE, "the time is not HH:MM:SS[.mmm]"),
    (LOCAL | {"time_zone": 7}, ErrorCode.INVALID_TIME_ZONE, NO_ZONE),
    (LOCAL | {"time_zone": "CEST"}, ErrorCode.INVALID_TIME_ZONE, NO_ZONE),
    (LOCAL, ErrorCode.INVALID_RULE, "the local time is skipped by a clock change in that zone"),
]

BAD_RECORD: Final[list[tuple[dict[str, Any], ErrorCode, str]]] = [
    ({"prompt": " "}, ErrorCode.INVALID_PROMPT, "prompt is empty"),
    ({"at": "x"}, ErrorCode.INVALID_SELECTOR, "give after_seconds or at, not both"),
    (
        {"after_seconds": 0},
        ErrorCode.INVALID_RULE,
        "after_seconds is not a positive integer of seconds",
    ),
    ({"after_seconds": MAX_INSTANT}, ErrorCode.TIME_OUT_OF_RANGE, OUT_OF_RANGE),
    ({"now": 0.5}, ErrorCode.TIME_OUT_OF_RANGE, NO_CLOCK),
    ({"now": -8_640_000_000_060_000}, ErrorCode.TIME_OUT_OF_RANGE, OUT_OF_RANGE),
    ({"now": -8_640_000_000_060_001}, ErrorCode.INTERNAL_ERROR, "the clock is out of range"),
    ({"now": -9e15}, ErrorCode.INTERNAL_ERROR, "the clock is out of range"),
]

BAD_CALL: Final[list[tuple[Any, object, ErrorCode, str]]] = [
    ("schedule_delete", {"id": " a"}, ErrorCode.INVALID_RULE, "id is empty or padded"),
    ("schedule_delete", {}, ErrorCode.INVALID_RULE, "id is empty or padded"),
    ("schedule_create", {"prompt": "tea"}, ErrorCode.INVALID_SELECTOR, TOO_MANY),
    ("schedule_create", {"after_seconds": 1}, ErrorCode.INVALID_PROMPT, "prompt is empty"),
    (
        "schedule_create",
        {"prompt": "long", "after_seconds": 1},
        ErrorCode.INVALID_PROMPT,
        "prompt is longer than 3 bytes",
    ),
]

BAD_CHANGE: Final[list[tuple[object, LogFault, str]]] = [
    ([], LogFault.WRONG_TYPE, "the change is not an object"),
    ({}, LogFault.MISSING_FIELD, "version is missing"),
    (DELETE | {"version": 2}, LogFault.UNKNOWN_VERSION, "version is not 1"),
    ({"version": 1}, LogFault.MISSING_FIELD, "operation is missing"),
    (
        DELETE | {"operation": "update"},
        LogFault.UNKNOWN_OPERATION,
        "operation is not one of create, delete, dispatch",
    ),
    (
        DELETE | {"operation": []},
        LogFault.UNKNOWN_OPERATION,
        "operation is not one of create, delete, dispatch",
    ),
    (DELETE | {"why": 1, "who": 2}, LogFault.EXTRA_FIELD, "2 unexpected fields"),
    ({"version": 1, "operation": "delete"}, LogFault.MISSING_FIELD, "id is missing"),
    (DELETE | {"id": 7}, LogFault.WRONG_TYPE, "id is not text"),
    (DELETE | {"id": ""}, LogFault.UNTRIMMED_TEXT, "id is empty or padded"),
    (CREATE | {"schedule": 7}, LogFault.WRONG_TYPE, "schedule is not an object"),
    (CREATE | {"schedule": {}}, LogFault.MISSING_FIELD, "kind is missing"),
    (CREATE | {"schedule": {"kind": "at"}}, LogFault.MISSING_FIELD, "id is missing"),
    (
        CREATE | {"schedule": DELAYED | {"kind": "cron"}},
        LogFault.UNKNOWN_KIND,
        "kind is not one of after, at",
    ),
    (CREATE | {"schedule": DELAYED | {"prompt": 7}}, LogFault.WRONG_TYPE, "prompt is not text"),
    (
        CREATE | {"schedule": DELAYED | {"prompt": "tea "}},
        LogFault.UNTRIMMED_TEXT,
        "prompt is empty or padded",
    ),
    (
        CREATE | {"schedule": DELAYED | {"afterSeconds": 0}},
        LogFault.INVALID_DELAY,
        "afterSeconds is not a positive integer",
    ),
    (
        CREATE | {"schedule": DELAYED | {"scheduledAt": 7}},
        LogFault.NON_CANONICAL_INSTANT,
        "scheduledAt is not a canonical instant",
    ),
]


@pytest.mark.parametrize(("at", "code", "message"), BAD_AT)
def test_a_refused_point_in_time(at: object, code: ErrorCode, message: str) -> None:
    with pytest.raises(ScheduleInputError) as caught:
        new_record("a", "tea", at=at, now=NOW)
    assert (code, message) == (caught.value.code, caught.value.message)


@pytest.mark.parametrize(("part", "code", "message"), BAD_RECORD)
def test_a_refused_reminder(part: dict[str, Any], code: ErrorCode, message: str) -> None:
    arguments: dict[str, Any] = {"prompt": "tea", "after_seconds": 60, "now": NOW} | part
    with pytest.raises(ScheduleInputError) as caught:
        new_record("a", **arguments)
    assert (code, message) == (caught.value.code, caught.value.message)


@pytest.mark.parametrize(("tool", "arguments", "code", "message"), BAD_CALL)
def test_a_refused_call(tool: Any, arguments: object, code: ErrorCode, message: str) -> None:
    with pytest.raises(ScheduleInputError) as caught:
        parse_request(tool, arguments, SMALL)
    assert (code, message) == (caught.value.code, caught.value.message)


@pytest.mark.parametrize(("payload", "fault", "detail"), BAD_CHANGE)
def test_a_refused_change(payload: object, fault: LogFault, detail: str) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        decode_change(payload)
    assert (fault, detail, None) == (
        caught.value.fault,
        caught.value.detail,
        caught.value.position,
    )


def test_a_change_that_is_not_json() -> None:
    with pytest.raises(ScheduleLogError) as caught:
        decode_change_json("{")
    assert (LogFault.NOT_JSON, "the change is not JSON") == (
        caught.value.fault,
        caught.value.detail,
    )


@pytest.mark.parametrize(
    ("payloads", "fault", "detail"),
    [
        ([CREATE, CREATE], LogFault.REUSED_ID, "create of an id used before"),
        ([DELETE], LogFault.INACTIVE_ID, "delete of an id that is not active"),
        (
            [DELETE | {"operation": "dispatch"}],
            LogFault.INACTIVE_ID,
            "dispatch of an id that is not active",
        ),
    ],
)
def test_a_refused_log(payloads: list[object], fault: LogFault, detail: str) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        fold_log([SessionEvent(SCHEDULE_EVENT_TYPE, payload) for payload in payloads])
    assert (fault, detail) == (caught.value.fault, caught.value.detail)


@pytest.mark.parametrize("change", [ScheduleDeleteChange, ScheduleDispatchChange])
def test_a_checked_change_is_refused_in_the_same_words(
    change: Callable[[ScheduleId], ScheduleDeleteChange | ScheduleDispatchChange],
) -> None:
    refused = change(ScheduleId("a"))
    with pytest.raises(ScheduleLogError) as caught:
        Schedules().check(refused)
    assert f"{refused.operation} of an id that is not active" == caught.value.detail


@pytest.mark.parametrize("boundary", [-1, 1, "0"])
def test_a_refused_fork_boundary(boundary: object) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        fold_log([], boundary)
    assert (LogFault.INVALID_SEED_LENGTH, "seedLength is not a count of events in this log") == (
        caught.value.fault,
        caught.value.detail,
    )


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda: parse_json("[" * 100_000), ValueError, "nested too deeply"),
        (lambda: parse_json("NaN"), ValueError, "NaN is not JSON"),
        (lambda: parse_json("-Infinity"), ValueError, "-Infinity is not JSON"),
        (lambda: json_text({1}), TypeError, "JSON cannot hold a set"),
        (lambda: json_text({1: 2}), TypeError, "a JSON object has text keys only"),
        (
            lambda: parse_instant("2027-01-15T08:00:00Z"),
            ValueError,
            "not the canonical form YYYY-MM-DDTHH:MM:SS.mmmZ",
        ),
        (
            lambda: parse_instant("2027-01-15 08:00:00.000Z"),
            ValueError,
            "not the canonical form YYYY-MM-DDTHH:MM:SS.mmmZ",
        ),
        (lambda: parse_instant("2027-01-15T24:00:00.000Z"), ValueError, "no such time of day"),
        (
            lambda: confirm(ScheduleDispatchChange(ScheduleId("a")), None),
            AssertionError,
            "no management call dispatches",
        ),
    ],
)
def test_a_refused_value(
    action: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        action()
    assert message == str(caught.value)
