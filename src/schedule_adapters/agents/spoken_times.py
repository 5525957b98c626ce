"""When an English phrase says: durations, clock times, days, zones. No clock, no I/O.

The reader finds the longest time phrase at one place of a text; `resolve` turns it into a
selector that `schedule_create` takes. Local times stay a date, a time and a zone name:
whether such a time exists, and at which instant, is judged by the tools alone.

What each phrase means:

- `9`, `9:30`, `14:30` are read on the 24-hour clock, so `at 9` is 09:00. Only am/pm, a part
  of the day ("in the evening") or `tonight` makes it 21:00.
- A time without a day is the next such time, strictly later than now.
- A weekday is the next such day, today only while the time is still ahead; `next Monday` is
  never today. A date without a year, or a day of the month, likewise.
- `midnight` is the 00:00 with which a day begins; `tonight at midnight` is the next one.
- Hours, days and weeks are lengths (86,400 seconds a day); months and years are steps of
  the calendar, and so is any number of days or weeks with a clock time ("in two days at 9").
"""

import re
from collections.abc import Callable
from datetime import date, datetime, time
from fractions import Fraction
from functools import cache
from typing import Final, assert_never

from attrs import evolve, frozen
from dateutil.relativedelta import relativedelta

from schedule_adapters.time_context import local_time
from schedule_core.instants import Instant
from schedule_core.zones import canonical_zone_name, zone_names


@frozen
class Delay:
    """A length of time from now, in whole seconds."""

    seconds: int


@frozen
class Timestamp:
    """An RFC 3339 text with its offset, exactly as the user wrote it."""

    text: str


@frozen
class WallClock:
    """A local date `YYYY-MM-DD`, time `HH:MM:SS` and zone, as `schedule_create` takes them."""

    date: str
    time: str
    time_zone: str


When = Delay | Timestamp | WallClock


@frozen
class ZoneNeeded:
    """A local time whose zone is not known.

    Attributes:
        place: the place the user named, if that names no zone, or several.
        candidates: the zones it may mean; empty when none was found.
    """

    place: str | None = None
    candidates: tuple[str, ...] = ()


@frozen
class ClockNeeded:
    """A day without a time of day."""


@frozen
class DayNeeded:
    """A day that can be read in more than one way, such as `3/4`."""

    text: str


Gap = ZoneNeeded | ClockNeeded | DayNeeded


@frozen
class Step:
    """A length: seconds, and months where the calendar must count."""

    seconds: Fraction = Fraction(0)
    months: Fraction = Fraction(0)


@frozen
class Weekday:
    """A day of the week, Monday 0; `skip_today` for `next Monday`."""

    number: int
    skip_today: bool


@frozen
class CalendarDay:
    """A day of the calendar; without a year or month it recurs, and the next one is meant."""

    day: int
    month: int | None = None
    year: int | None = None


@frozen
class DaysAhead:
    """Today (0), tomorrow (1), and so on."""

    days: int


@frozen
class WrittenDate:
    """`YYYY-MM-DD`, passed on unjudged."""

    text: str


@frozen
class Clock:
    """A time of day as written; `half` says which half of the day, if anything did."""

    hour: int
    minute: int = 0
    second: int = 0
    fraction: str = ""
    half: str = ""


@frozen
class Place:
    """Where a clock time is meant: a zone name, or a gap that says why there is none."""

    zone: str | ZoneNeeded


@frozen
class HereZone:
    """`local time`: the client's own zone."""


Day = Weekday | CalendarDay | DaysAhead | WrittenDate | DayNeeded


@frozen
class TimePhrase:
    """What one phrase said, not yet related to any now.

    Attributes:
        end: index in the text just after the phrase.
        half: "am" or "pm" from a part of the day, or "night" from `tonight`.
    """

    end: int
    step: Step | None = None
    stamp: str | None = None
    day: Day | None = None
    clock: Clock | None = None
    place: Place | HereZone | None = None
    half: str = ""


_SMALL: Final = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
]
_TENS: Final = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_WEEKDAYS: Final = [
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
]
_MONTHS: Final = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
_EDGE: Final = r"(?=[\s,;!?)\]\"']|[.:](?![0-9])|$)"
"""What may follow a clock time, a date or a place: `09:00+01:00` is not 09:00."""
_WORD_END: Final = r"(?![^\W_])"
"""After a unit: `an d` inside `an document` is no day."""

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNIT: Final = (
    r"(?:(?P<s>seconds?|secs?|s)|(?P<mo>months?)|(?P<m>minutes?|mins?|m)|(?P<h>hours?|hrs?|h)"
    r"|(?P<d>days?|d)|(?P<w>weeks?|wks?|w)|(?P<y>years?|yrs?))"
)
_ONES: Final = "|".join(sorted(_SMALL[1:10], key=len, reverse=True))
_NUMBER_WORD: Final = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[\s-]+(?:{_ONES}))?"
    rf"|{'|'.join(sorted(_SMALL, key=len, reverse=True))}|an?(?:[\s]+couple[\s]+of)?)"
)
_NUMBER: Final = rf"(?:(?P<digits>[0-9]{{1,9}}(?:[.,][0-9]{{1,9}})?)|(?P<words>{_NUMBER_WORD})\b)"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_NO_UNIT: Final = r"(?![\s-]+(?:second|minute|hour|day|week|month|year))"
"""`an hour and a half` is 90 minutes; `an hour and a half minute` is 60.5."""
_TERM = _pattern(
    rf"{_NUMBER}(?P<half>[\s]+and[\s]+a[\s]+half)?[\s-]*{_UNIT}"
    rf"(?:{_WORD_END}|(?=[0-9]))(?P<half_after>[\s]+and[\s]+a[\s]+half\b{_NO_UNIT})?"
)
_FRACTION_TERM = _pattern(
    r"(?:(?P<half>(?:a[\s]+)?half(?:[\s]+an?|(?=[\s-]+(?:hour|minute|day|week|year))))"
    r"|(?P<quarters>a|one|three)[\s]+quarters?[\s]+of[\s]+an?)"
    rf"[\s-]*{_UNIT.replace('(?P<s>seconds?|secs?|s)|', '')}{_WORD_END}"
)
_TAIL_MINUTES = _pattern(rf"(?P<minutes>[0-5][0-9]){_WORD_END}(?![.:][0-9])")
_JOIN = _pattern(r"[\s]*(?:,[\s]*)?(?:and\b[\s]*)?")
_STEP_INTRO = _pattern(r"(?:in|after)\b[\s]*(?:exactly|about|around|roughly)?[\s]*")
_STEP_OUTRO = _pattern(r"[\s]+(?:from[\s]+now|later)\b")
_STEP_TIME = _pattern(r"(?:['\u2019]s?)?[\s]+time\b")

_STAMP = _pattern(
    r"(?:(?:at|on|by)[\s]+)?(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}"
    rf"(?:[.][0-9]{{1,40}})?)?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})){_EDGE}"
)
_LOCAL_STAMP = _pattern(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    rf"(?::(?P<second>[0-9]{{2}})(?P<fraction>[.][0-9]{{1,3}})?)?{_EDGE}"
)
_DATE = _pattern(rf"(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}){_EDGE}")
_UNCLEAR_DATE = _pattern(
    rf"[0-9]{{1,2}}[/.-][0-9]{{1,2}}(?:[/.-](?:[0-9]{{4}}|[0-9]{{2}})?)?{_EDGE}"
)
_MONTH: Final = "|".join(f"{name}|{name[:3]}[.]?" for name in _MONTHS) + "|sept[.]?"
_DAY_NUMBER: Final = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:,?[\s]+(?P<year>[0-9]{4})(?![:\w]))?"
_MONTH_DAY = _pattern(rf"(?P<month>{_MONTH})[\s]+(?:the[\s]+)?{_DAY_NUMBER}\b{_YEAR}{_EDGE}")
_DAY_MONTH = _pattern(
    rf"(?:the[\s]+)?{_DAY_NUMBER}[\s]+(?:of[\s]+)?(?P<month>{_MONTH}){_YEAR}{_EDGE}"
)
_MONTH_ORDINAL = _pattern(rf"the[\s]+(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th){_EDGE}")
_WEEKDAY = _pattern(
    r"(?:(?P<next>next)[\s]+|(?:this|coming)[\s]+)?"
    rf"(?P<weekday>{'|'.join(_WEEKDAYS)}){_EDGE}"
)
_SHORT_WEEKDAY = _pattern(
    r"(?:(?P<next>next)|this|on)[\s]+(?P<weekday>mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b[.]?"
)
_RELATIVE_DAY = _pattern(
    rf"(?P<after>the[\s]+day[\s]+after[\s]+)?(?P<name>today|tomorrow|tonight){_EDGE}"
)
_PART_OF_DAY = _pattern(
    rf"(?P<this>this[\s]+|in[\s]+the[\s]+|at[\s]+)?(?P<part>morning|afternoon|evening|night){_EDGE}"
)
_HOUR_WORDS: Final = {name: hour for hour, name in enumerate(_SMALL[:13]) if hour}
_HOUR_WORD: Final = "|".join(sorted(_HOUR_WORDS, key=len, reverse=True))
_HALF_OF_DAY: Final = r"(?:[\s]*(?P<half>[ap])[.]?m\b[.]?)"
_CLOCK = _pattern(
    r"(?P<hour>[0-9]{1,2})(?:[:.](?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    rf"(?P<fraction>[.][0-9]{{1,3}})?)?)?{_HALF_OF_DAY}?(?P<oclock>[\s]*o['\u2019]?clock\b)?{_EDGE}"
)
_CLOCK_WORDS = _pattern(
    rf"(?:(?P<shift>half|quarter|ten|twenty|five)[\s]+(?P<side>past|to)[\s]+)?"
    rf"(?P<hour>{_HOUR_WORD}|[0-9]{{1,2}})\b{_HALF_OF_DAY}?(?P<oclock>[\s]*o['\u2019]?clock\b)?{_EDGE}"
)
_NAMED_CLOCK = _pattern(rf"(?P<name>noon|midday|midnight){_EDGE}")
_ENDS_WITH_AT = _pattern(r"(?:\bat|\bby|@)[\s]*$")
_AT = _pattern(r"(?:(?P<at>at|by|@)|on|for|from|,)[\s]*(?:about[\s]+)?")

_IANA = _pattern(rf"(?P<name>[a-z_]+(?:/[a-z0-9_+-]+){{1,2}})(?:[\s]+time\b)?{_EDGE}")
_UTC = _pattern(
    r"(?:utc|gmt|(?=[+-][0-9]))(?P<offset>[\s]*(?P<sign>[+-])(?P<hours>[0-9]{1,2})"
    rf"(?::?(?P<minutes>[0-9]{{2}}))?)?{_EDGE}"
)
_ABBREVIATION = re.compile(
    r"(?:[ECMP][SD]T|AK[SD]T|HST|A[ECW][SD]T|NZ[SD]T|CES?T|EES?T|WES?T|BST|IST|JST|KST|MSK|SGT|HKT"
    r"|ET|CT|PT|MT)\b(?![/\w])"
)
_HERE = _pattern(rf"(?:(?:my|our|local)[\s]+time|here){_EDGE}")
_NAME: Final = r"[^\W\d_]+(?:[.'\u2019-][^\W\d_]+)*"
_CITY_TIME = _pattern(rf"(?:in[\s]+)?(?P<city>{_NAME}(?:[\s]+{_NAME}){{0,2}}?)[\s]+time{_EDGE}")
_IN_CITY = _pattern(rf"in[\s]+(?P<city>{_NAME}(?:[\s]+{_NAME}){{0,3}}){_EDGE}")
_CONNECTOR_OR_END: Final = r"[\s]*(?:[.,;:!?]|$|to\b|that\b|about\b)"
_CITY_ALONE = _pattern(rf"(?P<city>{_NAME}(?:[\s]+{_NAME}){{0,3}}?)(?={_CONNECTOR_OR_END})")
_GLUE: Final = frozenset({"to", "that", "about", "and", "or", "is", "it's", "its", "for", "the"})
_MAX_TERMS: Final = 8

_YEAR_MONTHS: Final = 12
_NOON: Final = 12
_LAST_HOUR: Final = 23
_LAST_MINUTE: Final = 59
_EARLY_HOUR: Final = 5
"""`tonight at 1` is after midnight; `tonight at 5` is still today."""


def read_time(text: str, start: int, *, lone_clock: bool = True) -> TimePhrase | None:
    """The longest time phrase that begins at `start`; None if none does.

    Args:
        text: the sentence.
        start: where to look, at the first letter of a word.
        lone_clock: take a clock time such as `9:30` without `at`, am/pm or a day before it;
            off where the words before it make another meaning likely ("read John 3:16").
    """
    if found := _STAMP.match(text, start):
        return TimePhrase(found.end(), stamp=found["stamp"])
    if phrase := _read_step(text, start):
        return _with_clock(text, phrase)
    phrase = _read_pieces(text, TimePhrase(start), lone_clock=lone_clock)
    named = phrase.day or phrase.clock or phrase.half == "night"
    return phrase if named else None


def resolve(phrase: TimePhrase, *, now: Instant, zone: str | None) -> When | Gap:
    """Relate a phrase to now: the selector it means, or what is missing from it.

    Args:
        phrase: a phrase from `read_time`.
        now: the wall clock.
        zone: the client's zone, for phrases that name none; None if it is not known.
    """
    if phrase.stamp is not None:
        return Timestamp(phrase.stamp)
    if phrase.step is not None and not phrase.clock and not phrase.step.months:
        return Delay(_whole_seconds(phrase.step))
    if isinstance(phrase.day, DayNeeded):
        return phrase.day
    if phrase.step is None and phrase.clock is None:
        return ClockNeeded()
    named = phrase.place.zone if isinstance(phrase.place, Place) else zone
    if not isinstance(named, str):
        return named or ZoneNeeded()
    return _on_the_calendar(phrase, now=now, zone=named)


def find_place(text: str) -> str | ZoneNeeded | None:
    """The zone that a whole text names (`Europe/Berlin`, `Berlin`, `Berlin time`, `UTC`).

    A place that names several zones gives these; any other text gives None.
    """
    place = _read_place(text, 0) or _read_city_alone(text, 0)
    if place is None or text[place[1] :].strip(" \t\n.!?"):
        return None
    return place[0].zone if isinstance(place[0], Place) else None


@cache
def _zones_by_city() -> dict[str, tuple[str, ...]]:
    cities: dict[str, list[str]] = {}
    for name in sorted(zone_names().values()):
        if not name.startswith("Etc/"):
            cities.setdefault(name.rpartition("/")[2].replace("_", " ").lower(), []).append(name)
    return {city: tuple(names) for city, names in cities.items()}


def _zone_of_city(city: str) -> str | ZoneNeeded | None:
    names = _zones_by_city().get(" ".join(city.lower().split()), ())
    if len(names) == 1:
        return names[0]
    return ZoneNeeded(city, names) if names else None


# Reading. Each reader gives what stands at one place and where it ends.


def _read_step(text: str, start: int) -> TimePhrase | None:
    intro = _STEP_INTRO.match(text, start)
    read = _read_length(text, intro.end() if intro else start)
    if read is None:
        return None
    step, end = read
    if outro := _STEP_OUTRO.match(text, end) or (intro and _STEP_TIME.match(text, end)):
        return TimePhrase(outro.end(), step=step)
    return TimePhrase(end, step=step) if intro else None


def _read_length(text: str, start: int) -> tuple[Step, int] | None:
    """Read `an hour and a half`, `2h 30m`, `one week, 2 days and 3 hours`."""
    total, end = Step(), start
    for count in range(_MAX_TERMS):
        gap = _JOIN.match(text, end) if count else None
        term = _read_term(text, gap.end() if gap else end)
        if term is None:
            return (total, end) if count else None
        total = Step(total.seconds + term[0].seconds, total.months + term[0].months)
        end = term[1]
    return total, end


def _read_term(text: str, start: int) -> tuple[Step, int] | None:
    if found := _FRACTION_TERM.match(text, start):
        three = (found["quarters"] or "").lower() == "three"
        share = Fraction(1, 2) if found["half"] else Fraction(3 if three else 1, 4)
        return _step_of(found, share), found.end()
    found = _TERM.match(text, start)
    if found is None:
        return None
    number = _number(found)
    if found["half"] or found["half_after"]:
        number += Fraction(1, 2)
    step, end = _step_of(found, number), found.end()
    if found["h"] and (tail := _TAIL_MINUTES.match(text, end)):  # 2h30
        return Step(step.seconds + 60 * int(tail["minutes"])), tail.end()
    # Digits right after a unit are otherwise the next term (1h30m) or no duration at all (5s3).
    if text[end : end + 1].isdigit() and _TERM.match(text, end) is None:
        return None
    return step, end


def _step_of(found: re.Match[str], number: Fraction) -> Step:
    units = found.groupdict()
    if units["y"] or units["mo"]:
        return Step(months=number * (_YEAR_MONTHS if units["y"] else 1))
    unit = next(name for name in _UNIT_SECONDS if units.get(name))
    return Step(number * _UNIT_SECONDS[unit])


def _number(found: re.Match[str]) -> Fraction:
    if found["digits"]:
        return Fraction(found["digits"].replace(",", "."))
    words = re.split(r"[\s-]+", found["words"].lower())
    if "couple" in words:
        return Fraction(2)
    return Fraction(sum(_TENS.get(word) or _small(word) for word in words))


def _small(word: str) -> int:
    return 1 if word in {"a", "an"} else _SMALL.index(word)


def _with_clock(text: str, phrase: TimePhrase) -> TimePhrase:
    """Add the clock time of `in two days at 9`; a step in hours takes none."""
    step = phrase.step
    assert step is not None, "called for steps only"
    whole_days = step.seconds % _UNIT_SECONDS["d"] == 0 and step.months.denominator == 1
    after = _read_pieces(text, TimePhrase(phrase.end), lone_clock=False)
    if whole_days and after.clock and after.day is None:
        return evolve(after, step=step)
    return phrase


def _read_pieces(text: str, phrase: TimePhrase, *, lone_clock: bool) -> TimePhrase:
    while True:
        start = phrase.end + len(text[phrase.end :]) - len(text[phrase.end :].lstrip())
        longer = _read_piece(text, start, phrase, lone_clock=lone_clock)
        if longer is None:
            return phrase
        phrase = longer


def _read_piece(
    text: str, start: int, phrase: TimePhrase, *, lone_clock: bool
) -> TimePhrase | None:
    intro = _AT.match(text, start)
    inside = intro.end() if intro else start
    if phrase.day is None and (longer := _add_day(text, start, inside, phrase)):
        return longer
    if not phrase.half and (longer := _add_part_of_day(text, start, phrase)):
        return longer
    if phrase.clock is None:
        bare = bool(intro and intro["at"])
        colon = bare or lone_clock or phrase.day is not None or phrase.half != ""
        if clock := _read_clock(text, inside, bare=bare, colon=colon):
            return evolve(phrase, clock=clock[0], end=clock[1])
    if phrase.place is None and (phrase.clock or phrase.day):
        place = _read_place(text, start) or _read_city_alone(text, start)
        if place is not None:
            return evolve(phrase, place=place[0], end=place[1])
    return None


def _add_day(text: str, start: int, inside: int, phrase: TimePhrase) -> TimePhrase | None:
    if (found := _LOCAL_STAMP.match(text, inside)) and phrase.clock is None:
        clock = _clock_of(found, found["hour"], "")
        if clock is not None:
            day = WrittenDate(found["date"])
            return evolve(phrase, day=day, clock=clock, end=found.end())
    if found := _RELATIVE_DAY.match(text, inside):
        name = found["name"].lower()
        half = "night" if name == "tonight" else phrase.half
        days = (name == "tomorrow") + bool(found["after"])
        return evolve(phrase, day=DaysAhead(days), half=half, end=found.end())
    for read in _DAY_READERS:
        if named := read(text, inside) or read(text, start):
            return evolve(phrase, day=named[0], end=named[1])
    return None


def _read_written_date(text: str, start: int) -> tuple[Day, int] | None:
    found = _DATE.match(text, start)
    return (WrittenDate(found["date"]), found.end()) if found else None


def _read_month_day(text: str, start: int) -> tuple[Day, int] | None:
    found = (
        _MONTH_DAY.match(text, start)
        or _DAY_MONTH.match(text, start)
        or _MONTH_ORDINAL.match(text, start)
    )
    if found is None:
        return None
    parts = found.groupdict()
    month = parts.get("month")
    return CalendarDay(
        int(parts["day"]),
        None if month is None else _index_of(_MONTHS, month) + 1,
        int(parts["year"]) if parts.get("year") else None,
    ), found.end()


def _read_weekday(text: str, start: int) -> tuple[Day, int] | None:
    found = _WEEKDAY.match(text, start) or _SHORT_WEEKDAY.match(text, start)
    if found is None:
        return None
    number = _index_of(_WEEKDAYS, found["weekday"])
    return Weekday(number, skip_today=bool(found["next"])), found.end()


def _read_unclear_date(text: str, start: int) -> tuple[Day, int] | None:
    found = _UNCLEAR_DATE.match(text, start)
    # `at 9.30` is a time of day; without `at` nobody knows.
    if found is None or _ENDS_WITH_AT.search(text[max(0, start - 8) : start]):
        return None
    return DayNeeded(found[0]), found.end()


_DAY_READERS: Final[tuple[Callable[[str, int], tuple[Day, int] | None], ...]] = (
    _read_written_date,
    _read_month_day,
    _read_weekday,
    _read_unclear_date,
)


def _index_of(names: list[str], word: str) -> int:
    return next(index for index, name in enumerate(names) if name[:3] == word[:3].lower())


def _add_part_of_day(text: str, start: int, phrase: TimePhrase) -> TimePhrase | None:
    found = _PART_OF_DAY.match(text, start)
    if found is None or not (found["this"] or phrase.day):
        return None
    this = (found["this"] or "").lower().startswith("this")
    if not (this or phrase.day or phrase.clock):
        return None
    half = {"morning": "am", "night": "night"}.get(found["part"].lower(), "pm")
    day = DaysAhead(0) if this and phrase.day is None else phrase.day
    return evolve(phrase, half=half, day=day, end=found.end())


def _read_clock(text: str, start: int, *, bare: bool, colon: bool) -> tuple[Clock, int] | None:
    """Read a time of day.

    Args:
        text: the sentence.
        start: where to look.
        bare: a lone number is one (after `at`).
        colon: `9:30` is one.
    """
    if found := _NAMED_CLOCK.match(text, start):
        return Clock(0 if found["name"].lower() == "midnight" else _NOON, half="given"), found.end()
    if found := _CLOCK.match(text, start):
        plain = not (found["half"] or found["oclock"])
        if plain and not bare and not (colon and found["minute"]):
            return None
        clock = _clock_of(found, found["hour"], found["half"] or "")
        return None if clock is None else (clock, found.end())
    found = _CLOCK_WORDS.match(text, start)
    if found is None or not (bare or found["half"] or found["oclock"]):
        return None
    return _spoken_clock(found)


def _clock_of(found: re.Match[str], hour_text: str, half: str) -> Clock | None:
    hour, minute = int(hour_text), int(found["minute"] or 0)
    second = int(found["second"] or 0)
    if hour > _LAST_HOUR or minute > _LAST_MINUTE or second > _LAST_MINUTE:
        return None
    if half and not 1 <= hour <= _NOON:
        return None
    mark = f"{half.lower()}m" if half else ""
    return Clock(hour, minute, second, found["fraction"] or "", mark)


def _spoken_clock(found: re.Match[str]) -> tuple[Clock, int] | None:
    hour = _HOUR_WORDS.get(found["hour"].lower()) or int(found["hour"])
    shift = {"half": 30, "quarter": 15, "ten": 10, "twenty": 20, "five": 5}.get(
        (found["shift"] or "").lower(), 0
    )
    if hour > _LAST_HOUR:
        return None
    mark = f"{found['half'].lower()}m" if found["half"] else ""
    if (found["side"] or "").lower() == "to":
        return Clock((hour - 1) % 24, 60 - shift, half=mark), found.end()
    return Clock(hour, shift, half=mark), found.end()


def _read_place(text: str, start: int) -> tuple[Place | HereZone, int] | None:
    if found := _HERE.match(text, start):
        return HereZone(), found.end()
    if found := _UTC.match(text, start):
        return Place(_zone_of_offset(found)), found.end()
    if (found := _IANA.match(text, start)) and _is_area(found["name"]):
        name = found["name"]
        return Place(canonical_zone_name(name) or ZoneNeeded(name)), found.end()
    if found := _ABBREVIATION.match(text, start):  # one abbreviation, several zones
        return Place(ZoneNeeded(found[0])), found.end()
    if found := _CITY_TIME.match(text, start):
        city = found["city"]
        if not _GLUE & set(city.lower().split()):
            return Place(_zone_of_city(city) or ZoneNeeded(city)), found.end()
    if found := _IN_CITY.match(text, start):
        return _longest_city(found)
    return None


def _longest_city(found: re.Match[str]) -> tuple[Place, int] | None:
    words = list(re.finditer(r"[^\s]+", found["city"]))
    for last in reversed(words):
        zone = _zone_of_city(found["city"][: last.end()])
        if zone is not None:
            return Place(zone), found.start("city") + last.end()
    return None


def _read_city_alone(text: str, start: int) -> tuple[Place, int] | None:
    found = _CITY_ALONE.match(text, start)
    zone = _zone_of_city(found["city"]) if found else None
    return None if found is None or zone is None else (Place(zone), found.end())


def _is_area(name: str) -> bool:
    area = name.lower().partition("/")[0] + "/"
    return any(known.startswith(area) for known in zone_names())


def _zone_of_offset(found: re.Match[str]) -> str | ZoneNeeded:
    """UTC, or the zone of a whole-hour offset; `Etc` names count hours west of Greenwich."""
    if not found["offset"]:
        return "UTC"
    hours = int(found["hours"])
    if int(found["minutes"] or 0) or not hours:
        return ZoneNeeded(found[0].strip()) if hours or found["minutes"] != "00" else "UTC"
    west = "-" if found["sign"] == "+" else "+"
    return canonical_zone_name(f"Etc/GMT{west}{hours}") or ZoneNeeded(found[0].strip())


# Resolving.


def _whole_seconds(step: Step) -> int:
    """Round up, because a reminder is never early."""
    return -(-step.seconds.numerator // step.seconds.denominator)


def _on_the_calendar(phrase: TimePhrase, *, now: Instant, zone: str) -> When | Gap:
    try:
        here = local_time(now, zone)
        if here is None:
            return Delay(_PAST_THE_CALENDAR_S)
        if phrase.step is not None:
            return _after_step(phrase, phrase.step, here, zone)
        assert phrase.clock is not None, "without a clock there was a gap"
        clock, shift = _on_24_hours(phrase.clock, phrase.half)
        day = _next_day(phrase.day, clock, here)
        written = day.text if isinstance(day, WrittenDate) else _shifted(day, shift)
        return WallClock(written, _time_text(clock), zone)
    except (OverflowError, ValueError):
        # Beyond the last day of the calendar: a delay past it, for the tools to refuse.
        return Delay(_PAST_THE_CALENDAR_S)


_PAST_THE_CALENDAR_S: Final = 10_000 * 366 * 86_400


def _after_step(phrase: TimePhrase, step: Step, here: datetime, zone: str) -> When | Gap:
    months = int(step.months)
    if months != step.months:
        return ClockNeeded()
    target = here + relativedelta(months=months, seconds=_whole_seconds(step))
    if phrase.clock is None:
        return WallClock(_date_text(target.date()), _time_text(_clock_at(target)), zone)
    clock, shift = _on_24_hours(phrase.clock, phrase.half)
    return WallClock(_shifted(target.date(), shift), _time_text(clock), zone)


def _on_24_hours(clock: Clock, half: str) -> tuple[Clock, int]:
    """Settle the half of the day; gives the days to add where a night crosses midnight."""
    mark = clock.half or half
    hour = clock.hour
    if mark == "pm" and hour < _NOON:
        hour += _NOON
    elif mark == "am" and hour == _NOON:
        hour = 0
    elif mark == "night" and hour <= _NOON:
        hour = hour + _NOON if _EARLY_HOUR <= hour < _NOON else hour % _NOON
    shift = 1 if half == "night" and hour < _EARLY_HOUR else 0
    return evolve(clock, hour=hour), shift


def _next_day(day: Day | None, clock: Clock, here: datetime) -> date | WrittenDate:
    """The day a phrase means: the next one on which the time is still ahead.

    A date that no calendar has, such as February 30, is left to the tools to refuse.
    """
    at = time(clock.hour, clock.minute, clock.second)
    today = here.date()
    first = today if at > here.time() else today + relativedelta(days=1)
    match day:
        case None:
            return first
        case DaysAhead(days):
            return today + relativedelta(days=days)
        case Weekday(number, skip_today):
            start = today + relativedelta(days=1) if skip_today else first
            return start + relativedelta(days=(number - start.weekday()) % 7)
        case CalendarDay():
            return _next_calendar_day(day, first)
        case WrittenDate():
            return day
        case DayNeeded():
            raise AssertionError("without a clear day there was a gap")
        case _:
            assert_never(day)


def _next_calendar_day(wanted: CalendarDay, first: date) -> date | WrittenDate:
    if wanted.month is None:
        for months in range(3):  # of three months in a row one has 31 days
            start = first.replace(day=1) + relativedelta(months=months)
            day = _day_of(start.year, start.month, wanted.day)
            if day is not None and day >= first:
                return day
        return WrittenDate(f"{first.year:04}-{first.month:02}-{wanted.day:02}")
    if wanted.year is not None:
        return WrittenDate(f"{wanted.year:04}-{wanted.month:02}-{wanted.day:02}")
    for year in range(first.year, first.year + 9):  # from one 29 February to the next: 8 at most
        day = _day_of(year, wanted.month, wanted.day)
        if day is not None and day >= first:
            return day
    return WrittenDate(f"{first.year:04}-{wanted.month:02}-{wanted.day:02}")


def _day_of(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _clock_at(local: datetime) -> Clock:
    return Clock(local.hour, local.minute, local.second)


def _date_text(day: date) -> str:
    return f"{day.year:04}-{day.month:02}-{day.day:02}"


def _shifted(day: date, days: int) -> str:
    return _date_text(day + relativedelta(days=days))


def _time_text(clock: Clock) -> str:
    return f"{clock.hour:02}:{clock.minute:02}:{clock.second:02}{clock.fraction}"
