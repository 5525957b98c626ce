"""From a selector (`after_seconds` or `at`) to one instant, and to a new record.

Every refusal is a code for the model; the order of the checks is part of the contract
(`spec/package.md`, absolute-time input; the order as in the conformance rows).
"""

import re
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from dateutil.tz import enfold

from schedule_core.errors import ErrorCode, ScheduleInputError
from schedule_core.instants import (
    HOUR_MS,
    MAX_INSTANT,
    MIN_INSTANT,
    MINUTE_MS,
    SECOND_MS,
    Instant,
    from_calendar,
    time_of_day_ms,
)
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleId,
    ScheduleRecord,
)
from schedule_core.text import safe_integer, trim
from schedule_core.zones import find_zone

_DATE: Final = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
_TIME: Final = "([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.]([0-9]{1,3}))?"
_OFFSET: Final = "(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
_LOCAL_DATE = re.compile(_DATE)
_LOCAL_TIME = re.compile(_TIME)
_RFC_3339 = re.compile(f"(?P<date>{_DATE})T(?P<time>{_TIME})(?P<offset>{_OFFSET})")
_NUMERIC_OFFSET = re.compile(_OFFSET)
_MAX_OFFSET_HOUR: Final = 23
_MAX_OFFSET_MINUTE: Final = 59
_MIN_SCRIPT_DATE: Final = -8_640_000_000_000_000
"""ECMA-262 time values end here; the original fails below it with an error not its own."""
_LOCAL_KEYS: Final = {"date", "time", "time_zone"}
_MILLISECOND: Final = timedelta(milliseconds=1)


def new_record(
    schedule_id: str,
    prompt: str,
    *,
    after_seconds: object = None,
    at: object = None,
    now: float,
) -> ScheduleRecord:
    """Make the record of a new reminder.

    Args:
        schedule_id: passed through unchecked; the owner takes it from `Schedules.next_id`.
        prompt: the reminder text; trimmed here.
        after_seconds: a positive safe integer, if the reminder is made from a delay.
        at: an RFC 3339 string with an offset, or `{date, time, time_zone}`, if it is
            made from a point in time. Exactly one of the two counts.
        now: the wall clock, milliseconds since the epoch.

    Raises:
        ScheduleInputError: `invalid_prompt`, `invalid_selector` (both selectors),
            `invalid_rule`, `invalid_time_zone`, `time_out_of_range` or `not_future`.
    """
    text = Prompt(trim(prompt))
    if not text:
        raise ScheduleInputError(ErrorCode.INVALID_PROMPT, "prompt is empty")
    if after_seconds is not None and at is not None:
        raise ScheduleInputError(ErrorCode.INVALID_SELECTOR, "give after_seconds or at, not both")
    if after_seconds is None:
        return AtScheduleRecord(ScheduleId(schedule_id), text, resolve_at(at, now))
    seconds = check_delay(after_seconds)
    target = _target_after(seconds, now)
    return AfterScheduleRecord(ScheduleId(schedule_id), text, seconds, target)


def check_delay(after_seconds: object) -> DelaySeconds:
    """Read a delay.

    Raises:
        ScheduleInputError: `invalid_rule`, for anything but a positive safe integer.
    """
    seconds = safe_integer(after_seconds)
    if seconds is None or seconds < 1:
        raise _invalid_rule("after_seconds is not a positive integer of seconds")
    return DelaySeconds(seconds)


def resolve_at(selector: object, now: float) -> Instant:
    """Resolve an absolute selector to its instant, which must be later than `now`.

    Raises:
        ScheduleInputError: `invalid_rule` (shape, calendar, offset, a local time inside a
            gap), `invalid_time_zone`, `time_out_of_range` or `not_future`.
    """
    match selector:
        case str():
            return _future(_rfc_3339(selector), now)
        case dict():
            return _future(_local(selector), now)
        case _:
            raise _invalid_rule("at is neither text nor an object")


def _target_after(seconds: DelaySeconds, now: float) -> Instant:
    target = _checked_now(now) + seconds * SECOND_MS
    if target < _MIN_SCRIPT_DATE:
        raise ScheduleInputError(ErrorCode.INTERNAL_ERROR, "the clock is out of range")
    return _in_range(target)


def _future(target: int, now: float) -> Instant:
    instant = _in_range(target)
    if instant <= _checked_now(now):
        raise ScheduleInputError(ErrorCode.NOT_FUTURE, "the time has already passed")
    return instant


def _in_range(target: int) -> Instant:
    if not MIN_INSTANT <= target <= MAX_INSTANT:
        raise ScheduleInputError(
            ErrorCode.TIME_OUT_OF_RANGE, "the time is outside the years 0001 to 9999"
        )
    return Instant(target)


def _checked_now(now: float) -> int:
    milliseconds = safe_integer(now)
    if milliseconds is None:
        raise ScheduleInputError(
            ErrorCode.TIME_OUT_OF_RANGE, "the clock gives no whole millisecond"
        )
    return milliseconds


def _rfc_3339(text: str) -> int:
    found = _RFC_3339.fullmatch(text)
    if found is None:
        raise _invalid_rule("at is not YYYY-MM-DDTHH:MM:SS[.mmm] with Z or an offset ±HH:MM")
    local = from_calendar(_date(found["date"]), _time_ms(found["time"]))
    return local - _offset_ms(found["offset"])


def _offset_ms(text: str) -> int:
    found = _NUMERIC_OFFSET.fullmatch(text)
    assert found is not None, "the caller matched the same pattern"
    sign, hour, minute = found.groups(default="0")
    if int(hour) > _MAX_OFFSET_HOUR or int(minute) > _MAX_OFFSET_MINUTE or text == "-00:00":
        raise _invalid_rule("at has an impossible offset")
    size = int(hour) * HOUR_MS + int(minute) * MINUTE_MS
    return -size if sign == "-" else size


def _local(selector: dict[object, object]) -> int:
    if selector.keys() != _LOCAL_KEYS:
        raise _invalid_rule("at needs exactly date, time and time_zone")
    day, clock, zone_name = selector["date"], selector["time"], selector["time_zone"]
    if not isinstance(day, str) or not isinstance(clock, str):
        raise _invalid_rule("date and time are not text")
    if not isinstance(zone_name, str):
        raise _invalid_zone()
    local_date, of_day_ms = _date(day), _time_ms(clock)
    zone = find_zone(zone_name)
    if zone is None:
        raise _invalid_zone()
    return from_calendar(local_date, of_day_ms) - _zone_offset_ms(local_date, of_day_ms, zone)


def _zone_offset_ms(day: date, of_day_ms: int, zone: tzinfo) -> int:
    """The offset of a local time; in an overlap the earlier instant's, in a gap none.

    PEP 495: read with fold 0 a time near a change has the offset before it, with fold 1
    the one after it. The earlier instant of an overlap is the one before the change.
    """
    local = datetime(day.year, day.month, day.day) + of_day_ms * _MILLISECOND  # noqa: DTZ001 - a wall clock
    before = zone.utcoffset(enfold(local, fold=0))
    after = zone.utcoffset(enfold(local, fold=1))
    assert before is not None
    assert after is not None
    if before < after:
        raise _invalid_rule("the local time is skipped by a clock change in that zone")
    return before // _MILLISECOND


def _date(text: str) -> date:
    found = _LOCAL_DATE.fullmatch(text)
    try:
        return date(*map(int, found.groups() if found else ()))
    except (TypeError, ValueError):
        raise _invalid_rule("the date is not a day YYYY-MM-DD of the calendar") from None


def _time_ms(text: str) -> int:
    found = _LOCAL_TIME.fullmatch(text)
    if found is None:
        raise _invalid_rule("the time is not HH:MM:SS[.mmm]")
    hour, minute, second, fraction = found.groups(default="")
    try:
        return time_of_day_ms(int(hour), int(minute), int(second), int(fraction.ljust(3, "0")))
    except ValueError:
        raise _invalid_rule("there is no such time of day") from None


def _invalid_rule(message: str) -> ScheduleInputError:
    return ScheduleInputError(ErrorCode.INVALID_RULE, message)


def _invalid_zone() -> ScheduleInputError:
    return ScheduleInputError(
        ErrorCode.INVALID_TIME_ZONE, "time_zone is not UTC or an IANA name such as Europe/Berlin"
    )
