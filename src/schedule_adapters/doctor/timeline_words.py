"""What the pictures of a timeline say in words."""

from typing import Final

from schedule_adapters.doctor.axis import Axis, day_and_clock
from schedule_adapters.doctor.timeline import End, Lane, Timeline
from schedule_adapters.wording import one_line, reminder_count
from schedule_core.instants import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant

NOT_TO_SCALE: Final = "long quiet stretches are shortened"
_NOTE_WIDTH: Final = 200
_YEAR_MS: Final = 365 * DAY_MS
_MANY_YEARS: Final = 10 * _YEAR_MS
"""From then on nobody asks for the days."""
_UNITS: Final = (
    (_YEAR_MS, "y"),
    (DAY_MS, "d"),
    (HOUR_MS, "h"),
    (MINUTE_MS, "min"),
    (SECOND_MS, "s"),
)


def short_duration(milliseconds: int) -> str:
    """A length of time in its two largest units: `4 s`, `3 d 4 h`."""
    rest = abs(milliseconds)
    for index, (size, unit) in enumerate(_UNITS):
        if rest >= size:
            count, rest = divmod(rest, size)
            text = f"{count:,} {unit}"
            if index + 1 < len(_UNITS) and abs(milliseconds) < _MANY_YEARS:
                smaller, name = _UNITS[index + 1]
                text += f" {rest // smaller} {name}" if rest >= smaller else ""
            return text
    return "0 s"


def outcome(lane: Lane, now: Instant) -> str:
    """How a reminder fares, in two or three words."""
    late = lane.late_ms(now)
    match lane.end:
        case End.DELETED:
            return "deleted"
        case End.DISPATCHED if abs(late) < SECOND_MS:
            return "on time"
        case End.DISPATCHED:
            return f"{short_duration(late)} {'late' if late > 0 else 'early'}"
        case End.ACTIVE if lane.queued is not None:
            return "queued only"
        case End.ACTIVE:
            return f"overdue {short_duration(late)}" if late >= 0 else f"in {short_duration(late)}"


def moments_of(lane: Lane, now: Instant) -> list[int]:
    """Every moment that the picture of a lane shows."""
    is_overdue = lane.end is End.ACTIVE and lane.queued is None and lane.due < now
    shown = (lane.created, lane.due, lane.queued, lane.ended, now if is_overdue else None)
    return [moment for moment in shown if moment is not None]


def is_late(lane: Lane, now: Instant) -> bool:
    """Tell whether a reminder came, or is to come, a minute too late or more."""
    return lane.end is not End.DELETED and lane.late_ms(now) >= MINUTE_MS


def story(lane: Lane, zone: str | None, now: Instant) -> str:
    """The life of one reminder in one sentence, for who cannot see the picture."""
    parts = [f"created {moment_text(lane.created, zone)}", f"due {moment_text(lane.due, zone)}"]
    if lane.queued is not None:
        parts.append(f"queued {moment_text(lane.queued, zone)}")
    if lane.ended is not None:
        parts.append(f"{lane.end} {moment_text(lane.ended, zone)}")
    return f"{one_line(lane.id)}: {', '.join(parts)} ({outcome(lane, now)})"


def moment_text(moment: int, zone: str | None) -> str:
    """A moment as the wall clock shows it; the zone is said elsewhere."""
    return " ".join(filter(None, day_and_clock(moment, zone)))


def summary(timeline: Timeline) -> str:
    """How many reminders there are and how they ended."""
    total = sum(timeline.counts.values())
    parts = [f"{timeline.counts[end]} {end}" for end in End if timeline.counts.get(end)]
    return reminder_count(total) + (f": {', '.join(parts)}" if total else "")


def remarks(timeline: Timeline, axis: Axis, zone: str | None) -> list[str]:
    """What must be said beside the picture."""
    remarks = [f"times in {zone or 'UTC'}" + ("" if axis.is_to_scale else f"; {NOT_TO_SCALE}")]
    if timeline.hidden:
        remarks.append(f"{reminder_count(timeline.hidden)} not shown")
    if timeline.note:
        remarks.append(one_line(timeline.note, _NOTE_WIDTH))
    return remarks
