"""One canonical text for each instant, and only that text is read."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_core.instants import (
    MAX_INSTANT,
    MIN_INSTANT,
    Instant,
    format_instant,
    from_calendar,
    parse_instant,
    time_of_day_ms,
)


@given(instant=st.from_type(Instant))
def test_text_of_an_instant_reads_back(instant: Instant) -> None:
    assert instant == parse_instant(format_instant(instant))


@given(instant=st.from_type(Instant))
def test_text_agrees_with_the_calendar_of_the_standard_library(instant: Instant) -> None:
    there = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)

    assert there.isoformat(timespec="milliseconds") == format_instant(instant).replace(
        "Z", "+00:00"
    )


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (MIN_INSTANT, "0001-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (MAX_INSTANT, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_edges_of_the_calendar(instant: int, text: str) -> None:
    assert text == format_instant(Instant(instant))
    assert instant == parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2027-01-01T00:00:00Z",
        "2027-01-01T00:00:00.0Z",
        "2027-01-01T00:00:00.0000Z",
        "2027-01-01T00:00:00.000",
        "2027-01-01T00:00:00.000z",
        "2027-01-01t00:00:00.000Z",
        "2027-01-01 00:00:00.000Z",
        "2027-01-01T00:00:00,000Z",
        "2027-01-01T00:00:00.000+00:00",
        "2027-01-01T00:00:00.000Z\n",
        " 2027-01-01T00:00:00.000Z",
        "+002027-01-01T00:00:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "2027-02-29T00:00:00.000Z",
        "2027-13-01T00:00:00.000Z",
        "2027-01-01T24:00:00.000Z",
        "2027-01-01T00:60:00.000Z",
        "2027-01-01T00:00:60.000Z",
        "202\u0667-01-01T00:00:00.000Z",
    ],
    ids=ascii,
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_instant(text)


@given(text=st.text("0123456789-:.TZ", min_size=20, max_size=26))
def test_whatever_is_read_is_canonical(text: str) -> None:
    try:
        instant = parse_instant(text)
    except ValueError:
        return
    assert text == format_instant(instant)


def test_calendar_and_clock_add_up() -> None:
    assert 86_399_999 == time_of_day_ms(23, 59, 59, 999)
    assert 86_399_999 == from_calendar(date(1970, 1, 1), 86_399_999)
    assert -86_400_000 == from_calendar(date(1969, 12, 31), 0)
