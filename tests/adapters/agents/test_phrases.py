"""What the demo model's parser understands, and what it asks instead of guessing."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.agents.phrases import (
    AskDay,
    AskZone,
    CancelIntent,
    CreateIntent,
    Greeting,
    Help,
    ListIntent,
    NamesZone,
    NeedsId,
    NeedsText,
    NeedsTime,
    Recurring,
    Unknown,
    parse,
)
from schedule_adapters.agents.spoken_times import Delay, Timestamp, WallClock
from schedule_core.instants import Instant, parse_instant
from tests.adapters.agents.agent_world import NOW

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("phrase", "seconds"),
    [
        ("in 90 seconds", 90),
        ("in a minute", 60),
        ("in one minute", 60),
        ("in half a minute", 30),
        ("in an hour", 3600),
        ("in half an hour", 1800),
        ("in a half hour", 1800),
        ("in a quarter of an hour", 900),
        ("in three quarters of an hour", 2700),
        ("in an hour and a half", 5400),
        ("in one and a half hours", 5400),
        ("in two and a half hours", 9000),
        ("in an hour and a half minute", 3630),
        ("in 1.5 hours", 5400),
        ("in 1,5 hours", 5400),
        ("in 2h 30m", 9000),
        ("in 2h30m", 9000),
        ("in 2h30", 9000),
        ("in an hour and twenty minutes", 4800),
        ("in an hour, 20 minutes and 5 seconds", 4805),
        ("in twenty-five minutes", 1500),
        ("in a couple of hours", 7200),
        ("in two days", 172_800),
        ("in a day and a half", 129_600),
        ("in a week", 604_800),
        ("in about 5 min", 300),
        ("in 5 minutes' time", 300),
        ("in an hour's time", 3600),
        ("after 10 minutes", 600),
        ("10 minutes from now", 600),
        ("IN 10 MINUTES", 600),
        ("in 0 seconds", 0),
        ("in 0.5 seconds", 1),
    ],
)
@pytest.mark.parametrize(
    "sentence",
    [
        "remind me {} to stretch",
        "remind me to stretch {}",
        "{} remind me to stretch",
        "Please remind me {}: stretch",
        "can you remind me to stretch {}, please?",
        "set a reminder to stretch {}.",
    ],
)
def test_a_delay_is_read_exactly_wherever_it_stands(
    sentence: str, phrase: str, seconds: int
) -> None:
    intent = parse(sentence.format(phrase), now=NOW, zone=None)
    assert CreateIntent("stretch", Delay(seconds)) == intent


_UNITS = [
    (1, ["second", "seconds", "sec", "secs", "s"]),
    (60, ["minute", "minutes", "min", "mins", "m"]),
    (3600, ["hour", "hours", "hr", "hrs", "h"]),
    (86_400, ["day", "days", "d"]),
    (604_800, ["week", "weeks", "w"]),
]
_NUMBERS = [
    *((str(number), Fraction(number)) for number in (1, 2, 7, 30, 45, 90, 1000)),
    ("1.5", Fraction(3, 2)),
    ("2.25", Fraction(9, 4)),
    ("two", Fraction(2)),
    ("eleven", Fraction(11)),
    ("thirty-one", Fraction(31)),
    ("forty two", Fraction(42)),
    ("an", Fraction(1)),
    ("a", Fraction(1)),
]


@st.composite
def _spoken_durations(draw: st.DrawFn) -> tuple[str, int]:
    """A duration in some spelling, and how many seconds it is, rounded up."""
    text, total = "", Fraction(0)
    for index in range(draw(st.integers(1, 4))):
        number, amount = draw(st.sampled_from(_NUMBERS))
        size, names = draw(st.sampled_from(_UNITS))
        name = draw(st.sampled_from(names))
        half = draw(st.sampled_from(["", "", " and a half"]))
        gap = draw(st.sampled_from(["", " "])) if number[0].isdigit() and not half else " "
        join = draw(st.sampled_from([" ", " and ", ", ", ", and "])) if index else ""
        after = half if draw(st.booleans()) else ""
        before = "" if after else half
        text += f"{join}{number}{before}{gap}{name}{after}"
        total += (amount + (Fraction(1, 2) if half else 0)) * size
    return text, -(-total.numerator // total.denominator)


@given(_spoken_durations())
def test_any_duration_is_the_exact_number_of_seconds(spoken: tuple[str, int]) -> None:
    text, seconds = spoken
    expected = CreateIntent("stretch", Delay(seconds))
    assert expected == parse(f"remind me in {text} to stretch", now=NOW, zone=None)
    assert expected == parse(f"remind me to stretch in {text}", now=NOW, zone=None)


@given(
    st.from_regex(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?"
        r"([Zz]|[+-][0-9]{2}:[0-9]{2})",
        fullmatch=True,
    ),
    st.sampled_from([None, BERLIN]),
)
def test_a_text_in_rfc_3339_form_is_passed_on_untouched(text: str, zone: str | None) -> None:
    """Other parsers turn 2030-01-01T09:00:00+01:00 into today, 20:30."""
    expected = CreateIntent("stretch", Timestamp(text))
    assert expected == parse(f"remind me at {text} to stretch", now=NOW, zone=zone)
    assert expected == parse(f"remind me to stretch at {text}", now=NOW, zone=zone)


@pytest.mark.parametrize(
    ("phrase", "day", "time"),
    [
        ("at 9", "2026-12-01", "09:00:00"),
        ("at 20", "2026-11-30", "20:00:00"),
        ("at nine", "2026-12-01", "09:00:00"),
        ("at 9 o'clock", "2026-12-01", "09:00:00"),
        ("at 9.30", "2026-12-01", "09:30:00"),
        ("at 9:30 pm", "2026-11-30", "21:30:00"),
        ("at 9pm", "2026-11-30", "21:00:00"),
        ("at 9 p.m.", "2026-11-30", "21:00:00"),
        ("at 12am", "2026-12-01", "00:00:00"),
        ("at 12pm", "2026-12-01", "12:00:00"),
        ("at 09:30:15", "2026-12-01", "09:30:15"),
        ("at noon", "2026-12-01", "12:00:00"),
        ("at midnight", "2026-12-01", "00:00:00"),
        ("at half past nine", "2026-12-01", "09:30:00"),
        ("at quarter to 9 pm", "2026-11-30", "20:45:00"),
        ("at 7 in the morning", "2026-12-01", "07:00:00"),
        ("at 8 in the evening", "2026-11-30", "20:00:00"),
        ("today at 21:00", "2026-11-30", "21:00:00"),
        ("today at 9", "2026-11-30", "09:00:00"),
        ("tonight at 8", "2026-11-30", "20:00:00"),
        ("tonight at 20:00", "2026-11-30", "20:00:00"),
        ("tonight at midnight", "2026-12-01", "00:00:00"),
        ("tonight at 1", "2026-12-01", "01:00:00"),
        ("this evening at 8", "2026-11-30", "20:00:00"),
        ("tomorrow at 9am", "2026-12-01", "09:00:00"),
        ("tomorrow 9am", "2026-12-01", "09:00:00"),
        ("9am tomorrow", "2026-12-01", "09:00:00"),
        ("tomorrow at 14:30", "2026-12-01", "14:30:00"),
        ("tomorrow evening at 7", "2026-12-01", "19:00:00"),
        ("the day after tomorrow at 9", "2026-12-02", "09:00:00"),
        ("in two days at 9", "2026-12-02", "09:00:00"),
        ("on Friday at 14:30", "2026-12-04", "14:30:00"),
        ("on fri at 14:30", "2026-12-04", "14:30:00"),
        ("Friday at 2pm", "2026-12-04", "14:00:00"),
        ("on Monday at 20:00", "2026-11-30", "20:00:00"),
        ("on Monday at 19:00", "2026-12-07", "19:00:00"),
        ("next Monday at noon", "2026-12-07", "12:00:00"),
        ("next Monday at 23:00", "2026-12-07", "23:00:00"),
        ("on 2027-03-01 at 10:00", "2027-03-01", "10:00:00"),
        ("on 2027-03-01 10:00", "2027-03-01", "10:00:00"),
        ("at 2027-03-01T10:00:00.250", "2027-03-01", "10:00:00.250"),
        ("on 2027-02-30 at 10:00", "2027-02-30", "10:00:00"),
        ("on March 3 at 9am", "2027-03-03", "09:00:00"),
        ("on Mar 3rd at 9am", "2027-03-03", "09:00:00"),
        ("on the 3rd of March at 9am", "2027-03-03", "09:00:00"),
        ("on 3 March 2028 at 9am", "2028-03-03", "09:00:00"),
        ("on March 3, 2028 at 9am", "2028-03-03", "09:00:00"),
        ("on November 30 at 18:00", "2027-11-30", "18:00:00"),
        ("on November 30 at 20:00", "2026-11-30", "20:00:00"),
        ("on Feb 29 at 9", "2028-02-29", "09:00:00"),
        ("on Feb 30 at 9", "2026-02-30", "09:00:00"),
        ("on the 15th at 9", "2026-12-15", "09:00:00"),
        ("on the 31st at 9", "2026-12-31", "09:00:00"),
        ("on the 32nd at 9", "2026-12-32", "09:00:00"),
        ("in three months", "2027-02-28", "19:00:00"),
        ("in half a year", "2027-05-30", "19:00:00"),
        ("in a year at 9", "2027-11-30", "09:00:00"),
    ],
)
@pytest.mark.parametrize("sentence", ["remind me {} to stretch", "remind me to stretch {}"])
def test_a_local_time_stays_date_time_and_zone(
    sentence: str, phrase: str, day: str, time: str
) -> None:
    intent = parse(sentence.format(phrase), now=NOW, zone=BERLIN)
    assert CreateIntent("stretch", WallClock(day, time, BERLIN)) == intent


@pytest.mark.parametrize(
    ("words", "zone"),
    [
        ("Europe/Paris", "Europe/Paris"),
        ("europe/paris", "Europe/Paris"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("Berlin time", "Europe/Berlin"),
        ("new york time", "America/New_York"),
        ("Mexico City time", "America/Mexico_City"),
        ("in Tokyo time", "Asia/Tokyo"),
        ("in Tokyo", "Asia/Tokyo"),
        ("Tokyo", "Asia/Tokyo"),
        ("UTC", "UTC"),
        ("GMT", "UTC"),
        ("UTC+2", "Etc/GMT-2"),
        ("-05:00", "Etc/GMT+5"),
        ("local time", "Europe/Berlin"),
    ],
)
@pytest.mark.parametrize(
    "sentence", ["remind me at 9am {} to stretch", "remind me to stretch at 9am {}"]
)
def test_a_named_zone_or_city_is_the_zone(sentence: str, words: str, zone: str) -> None:
    intent = parse(sentence.format(words), now=NOW, zone=BERLIN)
    assert isinstance(intent, CreateIntent)
    assert isinstance(intent.when, WallClock)
    assert ("stretch", "09:00:00", zone) == (intent.prompt, intent.when.time, intent.when.time_zone)


def test_the_day_is_counted_in_the_zone_that_is_meant() -> None:
    """At 18:00 UTC it is already tomorrow in Auckland."""
    intent = parse("remind me at 9am Auckland time to x", now=NOW, zone=None)
    assert CreateIntent("x", WallClock("2026-12-01", "09:00:00", "Pacific/Auckland")) == intent


@pytest.mark.parametrize(
    "phrase",
    ["at 9", "tomorrow at 9am", "on Friday at 14:30", "on 2027-03-01 at 10:00", "in two months"],
)
@pytest.mark.parametrize("sentence", ["remind me {} to stretch", "remind me to stretch {}"])
def test_a_local_time_without_a_known_zone_is_asked_about(sentence: str, phrase: str) -> None:
    assert AskZone("stretch", phrase) == parse(sentence.format(phrase), now=NOW, zone=None)


@pytest.mark.parametrize(
    ("place", "candidates"),
    [
        ("pacific time", ("Canada/Pacific", "US/Pacific")),
        ("Springfield time", ()),
        ("Europe/Atlantis", ()),
        ("PST", ()),
        ("UTC+5:30", ()),
    ],
)
def test_an_unclear_place_is_asked_about_even_when_a_zone_is_known(
    place: str, candidates: tuple[str, ...]
) -> None:
    intent = parse(f"remind me at 9am {place} to stretch", now=NOW, zone=BERLIN)
    name = place.removesuffix(" time")
    assert AskZone("stretch", f"at 9am {place}", name, candidates) == intent


@pytest.mark.parametrize("day", ["3/4", "3/4/2027", "1.3.2027", "3-4"])
def test_a_day_with_two_readings_is_asked_about(day: str) -> None:
    """Read on, `pay on 3/4 at 9am` would be a reminder for the next nine o'clock."""
    assert AskDay("pay", day) == parse(f"remind me to pay on {day} at 9am", now=NOW, zone=BERLIN)
    assert AskDay("pay", day) == parse(f"remind me on {day} at 9am to pay", now=NOW, zone=BERLIN)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("remind me to stretch", NeedsTime("stretch")),
        ("remind me", NeedsTime("")),
        ("remind me tomorrow to stretch", NeedsTime("stretch", "tomorrow")),
        ("remind me to call home on Friday", NeedsTime("call home", "on Friday")),
        ("remind me to read John 3:16 tomorrow", NeedsTime("read John 3:16", "tomorrow")),
        ("remind me at 25 to stretch", NeedsTime("at 25 to stretch")),
        ("remind me at 09:00+01:00 to x", NeedsTime("at 09:00+01:00 to x")),
        ("remind me in an document to eat", NeedsTime("in an document to eat")),
        ("remind me in 5 to 10 minutes", NeedsTime("in 5 to 10 minutes")),
        ("remind me in 5 minutes", NeedsText("in 5 minutes")),
        ("remind me at 2030-01-01T09:00:00Z.", NeedsText("at 2030-01-01T09:00:00Z")),
        ("remind me every day at 9 to eat", Recurring()),
        ("remind me to eat every day at 9", Recurring()),
        ("every Monday at 9 remind me to eat", Recurring()),
        ("remind me daily to eat", Recurring()),
    ],
)
def test_what_is_missing_is_asked_for(sentence: str, expected: object) -> None:
    assert expected == parse(sentence, now=NOW, zone=BERLIN)


@pytest.mark.parametrize(
    ("sentence", "prompt", "seconds"),
    [
        ("remind me in 10 minutes to call home at 5", "call home at 5", 600),
        ("remind me to check in in 5 minutes", "check in", 300),
        ("remind me in 10 minutes to water every plant", "water every plant", 600),
        ("remind me in 10 minutes that the train leaves", "the train leaves", 600),
        ("remind me in 10 minutes about the oven", "the oven", 600),
        ("remind me in 10 minutes and then call", "and then call", 600),
        ("remind me in 10 minutes, Grüße an Zoë!", "Grüße an Zoë!", 600),
        ("reminder: tea in 4 minutes", "tea", 240),
        ("wake me up in 20 minutes", "wake up", 1200),
    ],
)
def test_the_text_of_a_reminder_stays_in_the_users_words(
    sentence: str, prompt: str, seconds: int
) -> None:
    assert CreateIntent(prompt, Delay(seconds)) == parse(sentence, now=NOW, zone=None)


def test_a_day_at_the_front_and_a_time_at_the_end_are_one_time() -> None:
    intent = parse("remind me tomorrow to call home at 9am", now=NOW, zone=BERLIN)
    assert CreateIntent("call home", WallClock("2026-12-01", "09:00:00", BERLIN)) == intent


@pytest.mark.parametrize(
    "sentence",
    [
        "list",
        "List!",
        "reminders",
        "what are my reminders",
        "What are my reminders?",
        "list my reminders",
        "please show me all my reminders",
        "do I have any reminders?",
        "which reminders are there?",
    ],
)
def test_reminders_are_listed_when_asked_for(sentence: str) -> None:
    assert ListIntent() == parse(sentence, now=NOW, zone=None)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("cancel schedule-1", CancelIntent("schedule-1")),
        ("delete schedule-2", CancelIntent("schedule-2")),
        ("cancel the reminder schedule-3", CancelIntent("schedule-3")),
        ("Please remove Schedule-12.", CancelIntent("schedule-12")),
        ("cancel 3", CancelIntent("schedule-3")),
        ("cancel reminder #4", CancelIntent("schedule-4")),
        ("cancel", NeedsId()),
        ("cancel all my reminders", NeedsId()),
        ("cancel schedule-1 and schedule-2", NeedsId()),
        ("stop talking", Unknown()),
    ],
)
def test_exactly_one_named_reminder_is_cancelled(sentence: str, expected: object) -> None:
    assert expected == parse(sentence, now=NOW, zone=None)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("hello", Greeting(thanks=False)),
        ("Hi there!", Greeting(thanks=False)),
        ("thanks", Greeting(thanks=True)),
        ("Thank you!", Greeting(thanks=True)),
        ("help", Help()),
        ("what can you do?", Help()),
        ("Berlin", NamesZone(BERLIN)),
        ("Europe/Berlin", NamesZone(BERLIN)),
        ("", Unknown()),
        ("what is the weather", Unknown()),
        ("don't remind me in 5 minutes to stretch", Unknown()),
        ("how do you remind me in 5 minutes", Unknown()),
    ],
)
def test_small_talk_sets_no_reminder(sentence: str, expected: object) -> None:
    assert expected == parse(sentence, now=NOW, zone=None)


_PIECES = st.sampled_from(
    [
        "remind me",
        "to",
        "at",
        "on",
        "in",
        "tomorrow",
        "9",
        "25",
        ":30",
        "pm",
        "an",
        "hour",
        "and a half",
        "half",
        "3/4",
        "Friday",
        "the",
        "31st",
        "of",
        "Feb",
        "29",
        "2027-02-30",
        "T09:00:00",
        "Z",
        "+25:99",
        "Berlin",
        "time",
        "UTC",
        "+14",
        "UTC-99",
        "/",
        "Europe/",
        "tonight",
        "midnight",
        "every",
        "9999",
        "years",
        "months",
        "999999999",
        "weeks",
        "schedule-",
        "cancel",
        "list",
        "'s",
        ",",
        ".",
        "\n",
        "\u2028",
        "٣",
        "½",
        "schedule-1",
        "0",
        "00:00",
        "from now",
        "quarter",
        "past",
        "next",
    ]
)


@given(
    st.text() | st.lists(_PIECES, max_size=14).map(" ".join) | st.lists(_PIECES).map("".join),
    st.from_type(Instant),
    st.sampled_from([None, BERLIN, "Pacific/Apia", "UTC"]),
)
def test_any_text_at_any_time_has_an_intent(text: str, now: Instant, zone: str | None) -> None:
    for sentence in (text, f"remind me {text}", f"remind me to x {text}", f"cancel {text}"):
        parse(sentence, now=now, zone=zone)


@given(st.lists(_PIECES, max_size=14).map(" ".join))
def test_a_wall_clock_always_has_the_forms_of_the_tool(text: str) -> None:
    intent = parse(f"remind me {text} to x", now=NOW, zone=BERLIN)
    if isinstance(intent, CreateIntent) and isinstance(intent.when, WallClock):
        year, month, day = intent.when.date.split("-")
        hour, minute, second = intent.when.time.split(":")
        assert [*map(len, (year, month, day, hour, minute, second[:2]))] == [4, 2, 2, 2, 2, 2]


def test_a_step_past_the_calendar_is_left_to_the_tools() -> None:
    intent = parse("remind me in 9999 years to x", now=NOW, zone=BERLIN)
    assert isinstance(intent, CreateIntent)
    assert isinstance(intent.when, Delay)
    assert intent.when.seconds * 1000 + NOW > parse_instant("9999-12-31T23:59:59.999Z")


@pytest.mark.parametrize(
    "text",
    [
        "remind me " * 20_000,
        "please " * 20_000,
        "remind me to " + "at 9 " * 20_000,
        "remind me in " + "1 hour and " * 20_000,
        "remind me to " + "x " * 50_000 + "in 5 minutes",
        "what " + "reminders " * 20_000,
        "A" * 200_000,
        "Berlin " * 20_000,
        " " * 200_000 + "x",
    ],
)
def test_a_very_long_text_is_read_in_passing(text: str) -> None:
    """Each of these would take minutes if reading were quadratic."""
    parse(text, now=NOW, zone=BERLIN)
