"""Time as one type: whole milliseconds since 1970-01-01T00:00:00Z.

Nothing aware-local is ever subtracted or compared, and `fromisoformat` is never used on
input: both are well-known sources of reminders that fire an hour off.
"""

import re
from datetime import date
from functools import lru_cache
from typing import Final, NewType

Instant = NewType("Instant", int)
"""Milliseconds since the epoch, UTC, in `MIN_INSTANT..MAX_INSTANT`."""

MIN_INSTANT: Final = Instant(-62_135_596_800_000)
"""0001-01-01T00:00:00.000Z, the first instant with a four-digit year that a log can hold."""
MAX_INSTANT: Final = Instant(253_402_300_799_999)
"""9999-12-31T23:59:59.999Z, the last one."""

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

_MINUTE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")
_OF_MINUTE = re.compile(":[0-5][0-9][.][0-9]{3}Z")
_NOT_CANONICAL: Final = "not the canonical form YYYY-MM-DDTHH:MM:SS.mmmZ"


def from_calendar(day: date, of_day_ms: int) -> int:
    """Milliseconds since the epoch of a UTC calendar day and the milliseconds into it."""
    return (day.toordinal() - _EPOCH_DAY) * DAY_MS + of_day_ms


def time_of_day_ms(hour: int, minute: int, second: int, millisecond: int) -> int:
    """Milliseconds since midnight.

    Raises:
        ValueError: there is no such time of day; hour 24 and second 60 do not exist
            (they are valid RFC 3339 in places, but not in version 1).
    """
    if hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004 - the clock's own numbers
        raise ValueError("no such time of day")
    return hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + millisecond


def parse_instant(text: str) -> Instant:
    """Read the canonical 24-character form, and only that (`spec/schedule.md`, durable records).

    Raises:
        ValueError: another form, or no such day or time.
    """
    # Not `Instant(...)`: it gives its argument, and the call would cost a fifth of all this.
    return _minute_start(text[:16]) + _of_minute(text[16:])  # type: ignore[return-value]


@lru_cache(maxsize=8_192)  # a big log asks a million times, for few minutes
def _minute_start(text: str) -> int:
    if _MINUTE.fullmatch(text) is None:
        raise ValueError(_NOT_CANONICAL)
    year, month, day, hour, minute = map(
        int, (text[:4], text[5:7], text[8:10], text[11:13], text[14:16])
    )
    return from_calendar(date(year, month, day), time_of_day_ms(hour, minute, 0, 0))


@lru_cache(maxsize=MINUTE_MS)  # there are no more
def _of_minute(text: str) -> int:
    if _OF_MINUTE.fullmatch(text) is None:
        raise ValueError(_NOT_CANONICAL)
    return int(text[1:3] + text[4:7])


def format_instant(instant: Instant) -> str:
    """Write the canonical 24-character form: four-digit year, three fraction digits, Z."""
    days, of_day = divmod(instant, DAY_MS)
    day = date.fromordinal(_EPOCH_DAY + days)
    seconds, millisecond = divmod(of_day, SECOND_MS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{day.isoformat()}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"
