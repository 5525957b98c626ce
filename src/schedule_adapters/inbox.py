"""What the log of a session says about its inbox: which messages are owed a turn.

Each message is an event before it is in any queue, and so are the start and the end of its
turn (`events`); so this is all that a new process has to know.
"""

from typing import Any, Literal

from attrs import frozen

from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED, TURN_STARTED
from schedule_adapters.sessions import Session
from schedule_core import ScheduleId
from schedule_core.text import safe_integer


@frozen
class QueuedInput:
    """One message in the inbox.

    Attributes:
        seq: its `input/queued` event.
        source: "user" or "reminder".
        text: what the model gets.
        schedule_id: the reminder it delivers.
        time_zone: the client's zone, for this message alone.
    """

    seq: int
    source: Literal["user", "reminder"]
    text: str
    schedule_id: ScheduleId | None = None
    time_zone: str | None = None


@frozen
class Inbox:
    """The messages of one session.

    Attributes:
        owed: those that wait for their turn, by the seq of their event, oldest first.
        cut_off: the one whose turn began and did not end.
        admitted: the reminders that ever entered it.
    """

    owed: dict[int, QueuedInput]
    cut_off: QueuedInput | None
    admitted: set[ScheduleId]


def read_inbox(session: Session) -> Inbox:
    """Read from the log which messages are still owed a turn; a fork owes its own only.

    An event of ours without the members it should have says nothing, as an unknown type does.
    """
    owed: dict[int, QueuedInput] = {}
    admitted: set[ScheduleId] = set()
    cut_off: QueuedInput | None = None
    boundary = safe_integer(session.seed_length)
    if boundary is None or boundary < 0:  # corrupt: what is the parent's cannot be told
        boundary = session.length
    for event in session.events_from(boundary):
        match event.type, event.data:
            case INPUT_QUEUED.name, {"source": "user" | "reminder", "text": str()}:
                queued = _queued_input(event.seq, event.data)
                owed[event.seq] = queued
                if queued.schedule_id is not None:
                    admitted.add(queued.schedule_id)
            case TURN_STARTED.name, {"input": int(begun)}:
                cut_off = owed.pop(begun, None)
            case TURN_ENDED.name, {"outcome": "postponed"} if cut_off is not None:
                owed[cut_off.seq], cut_off = cut_off, None
            case TURN_ENDED.name, {"input": int(over)}:
                owed.pop(over, None)
                cut_off = None
            case _:
                pass
    return Inbox(dict(sorted(owed.items())), cut_off, admitted)


def _queued_input(seq: int, data: dict[str, Any]) -> QueuedInput:
    schedule_id, time_zone = data.get("scheduleId"), data.get("timeZone")
    return QueuedInput(
        seq,
        data["source"],
        data["text"],
        ScheduleId(schedule_id) if isinstance(schedule_id, str) else None,
        time_zone if isinstance(time_zone, str) else None,
    )
