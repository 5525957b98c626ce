"""Where a moment stands on a line, and which moments are worth a label.

A line to scale is best. But a reminder for next year would push today's into one point, so
where moments would fall together, long quiet stretches are shortened: the order stays, a
longer stretch stays longer, and the picture says so.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from attrs import evolve, frozen

from schedule_adapters.time_context import local_text, local_time
from schedule_core.instants import (
    DAY_MS,
    HOUR_MS,
    MAX_INSTANT,
    MIN_INSTANT,
    MINUTE_MS,
    SECOND_MS,
    Instant,
    format_instant,
    from_calendar,
    time_of_day_ms,
)

_CLOSE: Final = 1 / 60
"""Moments nearer than this part of the line fall together."""
_QUIET: Final = 1 / 2
"""A stretch longer than this part of the line is one to shorten."""
_WHOLE_MINUTE: Final = ":00"
_STEPS: Final = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 4, 6, 8, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14, 28, 91, 182, 364, 3_640, 36_400, 364_000)),
)


@frozen
class Axis:
    """A line from the first moment to the last.

    Attributes:
        moments: at least two, rising.
        places: where they stand, from 0 to 1.
        is_to_scale: whether equal lengths are equal times.
    """

    moments: tuple[int, ...]
    places: tuple[float, ...]
    is_to_scale: bool

    def shows(self, moment: int) -> bool:
        """Tell whether a moment lies on the line, ends not included."""
        return self.moments[0] < moment < self.moments[-1]

    def place(self, moment: int) -> float:
        """Where a moment stands, from 0 to 1; those outside stand at the ends."""
        if moment <= self.moments[0]:
            return 0.0
        if moment >= self.moments[-1]:
            return 1.0
        after = bisect_right(self.moments, moment)
        (start, end), (left, right) = (
            (line[after - 1], line[after]) for line in (self.moments, self.places)
        )
        return left + (right - left) * (moment - start) / (end - start)


@frozen
class Tick:
    """A labelled place on the line.

    Attributes:
        place: of the moment, from 0 to 1.
        start: where the label begins; further left where the line ends.
        day: empty where it is that of the tick before.
    """

    place: float
    start: float
    day: str
    clock: str


def make_axis(moments: Iterable[int]) -> Axis:
    """The line that shows these moments; if there are none or one, it is a second long."""
    rising = sorted(set(moments)) or [0]
    if len(rising) == 1:
        rising.append(rising[0] + SECOND_MS)
    span = rising[-1] - rising[0]
    gaps = [after - before for before, after in pairwise(rising)]
    falls_together = any(SECOND_MS <= gap < span * _CLOSE for gap in gaps)
    is_to_scale = not (falls_together and max(gaps) > span * _QUIET)
    lengths = [float(gap) if is_to_scale else math.log1p(gap / SECOND_MS) for gap in gaps]
    total, at, places = sum(lengths), 0.0, [0.0]
    for length in lengths:
        at += length
        places.append(at / total)
    places[-1] = 1.0
    return Axis(tuple(rising), tuple(places), is_to_scale)


def ticks(axis: Axis, zone: str | None, width: float) -> list[Tick]:
    """Labels that do not touch: round times on a line to scale, else the moments themselves.

    Args:
        axis: the line.
        zone: whose wall clock to show; UTC if None.
        width: the part of the line that a label needs, its distance to the next included.
    """
    found: list[Tick] = []
    free, shown = 0.0, ""
    for moment in _candidates(axis, zone, width):
        place = axis.place(moment)
        start = min(place, max(1 - width, 0))
        if start >= free:
            day, clock = day_and_clock(moment, zone)
            found.append(Tick(place, start, "" if day == shown else day, clock))
            free, shown = start + width, day
    if all(tick.clock.endswith(_WHOLE_MINUTE) for tick in found):
        return [evolve(tick, clock=tick.clock.removesuffix(_WHOLE_MINUTE)) for tick in found]
    return found


def day_and_clock(moment: int, zone: str | None) -> tuple[str, str]:
    """The wall time of a moment; a number of seconds where the calendar ends."""
    if not MIN_INSTANT <= moment <= MAX_INSTANT:
        return "", f"{moment // SECOND_MS:.3g} s"
    local = local_text(Instant(moment), zone) if zone and zone != "UTC" else None
    text = local or format_instant(Instant(moment)).replace("T", " ")
    day, clock = text[:10], text[11:19]
    return day, clock


def _candidates(axis: Axis, zone: str | None, width: float) -> Sequence[int]:
    first, last = axis.moments[0], axis.moments[-1]
    is_dated = first >= MIN_INSTANT and last <= MAX_INSTANT
    if not (axis.is_to_scale and is_dated):
        return axis.moments
    shortest = (last - first) * width
    step = next((step for step in _STEPS if step >= shortest), None)
    if step is None:
        return axis.moments
    shift = _shift(first, zone)
    start = -(-(first + shift) // step) * step - shift
    round_times = range(start, last + 1, step)
    return round_times if len(round_times) > 1 else axis.moments


def _shift(moment: int, zone: str | None) -> int:
    """How far the wall clock of the zone is ahead of UTC, in ms, at that moment."""
    if not zone or zone == "UTC":
        return 0
    wall = local_time(Instant(moment), zone)
    if wall is None:
        return 0
    of_day_ms = time_of_day_ms(wall.hour, wall.minute, wall.second, moment % SECOND_MS)
    return from_calendar(wall.date(), of_day_ms) - moment
