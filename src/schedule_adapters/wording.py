"""How times, reminders and hostile text are put into words for a person."""

import re
from typing import Final

from schedule_adapters.time_context import local_text
from schedule_core import OwnerState, ScheduleView, format_instant
from schedule_core.instants import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant
from schedule_core.signals import Fault

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, terminal escapes among them, and marks that reorder a line."""

FAULTS: Final = {
    Fault.CORRUPT_LOG: "the log of this session holds a schedule event that cannot be right",
    Fault.UNREADABLE_LOG: "the log of this session could not be read",
    Fault.DISPATCH_NOT_RECORDED: "a reminder came back but that could not be recorded",
    Fault.PHASE_BROKEN: "the agent broke off while a reminder was delivered",
}


def printable(text: str) -> str:
    """The text with everything that could move the cursor or forge a line made visible."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, width: int = 60) -> str:
    """The printable text on one line, cut to `width` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def duration(milliseconds: int) -> str:
    """A length of time as a person reads it: `20 s`, `1:05:00`, `3 d 4:00:00`."""
    size = abs(milliseconds)
    if size < MINUTE_MS:
        return f"{size // SECOND_MS} s"
    days, rest = divmod(size, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    clock = f"{hours}:{minutes:02}:{rest // SECOND_MS:02}"
    return f"{days} d {clock}" if days else clock


def reminder_count(count: int) -> str:
    """How many reminders there are, as a person says it."""
    return {0: "no reminders", 1: "1 reminder"}.get(count, f"{count} reminders")


def local_moment(instant: Instant, zone_name: str | None) -> str:
    """The wall time in that zone, with its name; in UTC if there is none."""
    local = local_text(instant, zone_name) if zone_name and zone_name != "UTC" else None
    if local is None:
        utc = format_instant(instant)
        return f"{utc[:10]} {utc[11:19]} UTC"
    return f"{local[:19]} {zone_name}"


def view_line(view: ScheduleView, now: Instant, zone_name: str | None) -> str:
    """One active reminder on one line."""
    record = view.record
    ahead = record.scheduled_at - now
    when = f"in {duration(ahead)}" if ahead > 0 else f"due {duration(ahead)} ago"
    at = local_moment(record.scheduled_at, zone_name)
    return f"{one_line(record.id)}  {at}  ({when})  {one_line(record.prompt)}"


def state_line(state: OwnerState) -> str | None:
    """Why nothing is delivered, or what delivery waits for; None if all is well."""
    match state.activity:
        case "faulted":
            reason = FAULTS[state.fault] if state.fault else "for an unknown reason"
            where = "" if state.position is None else f" (event {state.position})"
            return f"reminders are NOT delivered: {reason}{where}"
        case "watching":
            return "a due reminder waits for the turn to end"
        case _:
            return None
