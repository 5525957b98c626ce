"""One line a person can read for one event of a session log."""

from typing import Any, Final

from schedule_adapters.events import CHECKPOINT, INPUT_QUEUED, MESSAGES, TURN_ENDED, TURN_STARTED
from schedule_adapters.wording import local_moment, one_line
from schedule_core import (
    SCHEDULE_EVENT_TYPE,
    ScheduleCreateChange,
    ScheduleLogError,
    SessionEvent,
    decode_change,
)
from schedule_core.instants import MAX_INSTANT, MIN_INSTANT, Instant

_GIST_WIDTH: Final = 200
"""Enough for a create; a log from elsewhere may hold anything where we write a word."""


def event_line(event: SessionEvent, time_zone: str | None) -> str:
    """Sequence number, time (in that zone, or UTC), type and the gist of one event."""
    in_range = MIN_INSTANT <= event.time <= MAX_INSTANT
    at = local_moment(Instant(event.time), time_zone)[:19] if in_range else str(event.time)
    gist = one_line(_gist(event.type, event.data, time_zone), _GIST_WIDTH)
    return f"{event.seq:>6}  {at}  {one_line(event.type, 30):<22} {gist}".rstrip()


def _gist(event_type: str, data: Any, time_zone: str | None) -> str:
    match event_type, data:
        case str(name), _ if name == SCHEDULE_EVENT_TYPE:
            return _change_gist(data, time_zone)
        case INPUT_QUEUED.name, {"text": str(text), "source": "user"}:
            return one_line(text)
        case INPUT_QUEUED.name, {"scheduleId": str(schedule_id)}:
            return f"reminder {one_line(schedule_id)}"
        case TURN_STARTED.name, {"input": seq}:
            return f"for event {seq}"
        case TURN_ENDED.name, {"input": seq, "outcome": outcome}:
            return f"for event {seq}: {outcome}"
        case CHECKPOINT.name, {"durable": seq}:
            return f"durable up to {seq}"
        case MESSAGES.name, {"messages": list(messages)}:
            return f"{len(messages)} messages"
        case _:
            return ""


def _change_gist(data: Any, time_zone: str | None) -> str:
    try:
        change = decode_change(data)
    except ScheduleLogError as error:
        return f"INVALID: {error}"
    if isinstance(change, ScheduleCreateChange):
        record = change.schedule
        at = local_moment(record.scheduled_at, time_zone)
        return f"create {one_line(record.id)} for {at}: {one_line(record.prompt)}"
    return f"{change.operation} {one_line(change.id)}"
