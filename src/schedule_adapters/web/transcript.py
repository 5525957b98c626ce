"""What of a session log a page shows: a projection, one event at a time, nothing decided.

An item is one thing to show, named by the seq of the event it comes from. The same items
make the first picture of a page, its live stream, and what it fetches from further back.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Literal, assert_never

from attrs import define, evolve, field, frozen

from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED
from schedule_core import (
    SCHEDULE_EVENT_TYPE,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleLogError,
    SessionEvent,
    decode_change,
)
from schedule_core.text import json_text, safe_integer

Kind = Literal["said", "ended", "created", "deleted", "dispatched"]
ENTRIES_AT_ONCE: Final = 80
"""How many messages a page shows before it is asked for more."""
FINISHED_SHOWN: Final = 24
"""How many delivered or deleted reminders a new page hears of: enough for a picture."""


@frozen
class Item:
    """One thing to show.

    Attributes:
        seq: the event it comes from.
        kind: "said" by the user; a turn "ended", with what the assistant said in it; a
            reminder was "created", "deleted", or "dispatched" into the conversation.
        text: its JSON, kept because every page of the session gets the same.
    """

    seq: int
    kind: Kind
    text: str


@frozen
class Reminder:
    """One reminder's life so far; all times in milliseconds since the epoch."""

    id: str
    prompt: str
    due: int
    created: int
    dispatched: int | None = None
    deleted: int | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it is still to come."""
        return self.dispatched is None and self.deleted is None

    def as_json(self) -> dict[str, object]:
        """What a page is told of it."""
        return {
            "id": self.id,
            "prompt": self.prompt,
            "due": self.due,
            "created": self.created,
            "dispatched": self.dispatched,
            "deleted": self.deleted,
        }


@define
class Transcript:
    """The items of one session so far.

    Attributes:
        seed_length: a fork's first events are its parent's; their reminders stay there.
        last_ended: the message whose turn ended last, by its seq.
    """

    seed_length: object = 0
    items: list[Item] = field(factory=list)
    reminders: dict[str, Reminder] = field(factory=dict)
    last_ended: int | None = None
    _inputs: dict[int, Reminder | None] = field(factory=dict)
    """Messages whose turn has not ended; the reminder that each delivers, if it does."""

    def take(self, events: Iterable[SessionEvent]) -> None:
        """Take the next events of the log; what is not understood is not shown."""
        boundary = safe_integer(self.seed_length)
        for event in events:
            if event.seq == boundary:
                self.reminders.clear()
            match event.type, event.data:
                case INPUT_QUEUED.name, {"source": "reminder", "scheduleId": str(schedule_id)}:
                    self._inputs[event.seq] = self._delivered_by(schedule_id, event.time)
                case INPUT_QUEUED.name, {"source": "user", "text": str(text)}:
                    self._inputs[event.seq] = None
                    self._add(event, "said", text=text)
                case TURN_ENDED.name, {"input": int(seq)}:
                    self._end_turn(event, seq, event.data)
                case str(name), data if name == SCHEDULE_EVENT_TYPE:
                    self._change(event, data)
                case _:
                    pass

    def pending(self) -> int:
        """How many reminders are to come."""
        return sum(reminder.is_pending for reminder in self.reminders.values())

    def position_after(self, seq: int) -> int:
        """The index in `items` of the first one that comes after an event."""
        return bisect_right(self.items, seq, key=lambda item: item.seq)

    def entries_before(self, seq: int) -> tuple[list[Item], bool]:
        """The last messages before an event, oldest first, and whether there are more."""
        end = bisect_left(self.items, seq, key=lambda item: item.seq)
        backwards = (self.items[index] for index in range(end - 1, -1, -1))
        entries = (item for item in backwards if item.kind in {"said", "ended"})
        found = list(islice(entries, ENTRIES_AT_ONCE))
        return found[::-1], next(entries, None) is not None

    def shown_reminders(self) -> list[Reminder]:
        """Every reminder to come and the last finished ones, in the order of the creates."""
        finished = [each for each in self.reminders.values() if not each.is_pending]
        finished.sort(key=lambda each: each.dispatched or each.deleted or 0)
        kept = {each.id for each in finished[-FINISHED_SHOWN:]}
        return [each for each in self.reminders.values() if each.is_pending or each.id in kept]

    def reminder_of(self, schedule_id: str) -> dict[str, object] | None:
        """What a page is told beside a turn that delivers that reminder."""
        reminder = self.reminders.get(schedule_id)
        return None if reminder is None else reminder.as_json()

    def _delivered_by(self, schedule_id: str, time: int) -> Reminder:
        known = self.reminders.get(schedule_id)
        if known is None:
            return Reminder(schedule_id, "", due=time, created=time, dispatched=time)
        return evolve(known, dispatched=time)

    def _end_turn(self, event: SessionEvent, seq: int, data: dict[str, Any]) -> None:
        self.last_ended = seq
        reminder = self._inputs.pop(seq, None)
        text, outcome = data.get("text"), data.get("outcome")
        self._add(
            event,
            "ended",
            input=seq,
            outcome=outcome if isinstance(outcome, str) else "completed",
            text=text if isinstance(text, str) else "",
            reminder=None if reminder is None else reminder.as_json(),
        )

    def _change(self, event: SessionEvent, data: object) -> None:
        try:
            change = decode_change(data)
        except ScheduleLogError:
            return  # the owner is faulted by it, and the page says so
        match change:
            case ScheduleCreateChange(record):
                reminder = Reminder(
                    record.id, record.prompt, record.scheduled_at, created=event.time
                )
                self.reminders[record.id] = reminder
                self._add(event, "created", reminder=reminder.as_json())
            case ScheduleDeleteChange(schedule_id):
                self._finish(event, "deleted", schedule_id)
            case ScheduleDispatchChange(schedule_id):
                self._finish(event, "dispatched", schedule_id)
            case _:
                assert_never(change)

    def _finish(
        self, event: SessionEvent, how: Literal["deleted", "dispatched"], schedule_id: str
    ) -> None:
        reminder = self.reminders.get(schedule_id)
        if reminder is None or not reminder.is_pending:
            return
        if how == "deleted":
            self.reminders[schedule_id] = evolve(reminder, deleted=event.time)
        else:
            self.reminders[schedule_id] = evolve(reminder, dispatched=event.time)
        self._add(event, how, id=schedule_id)

    def _add(self, event: SessionEvent, kind: Kind, **members: object) -> None:
        # A fork's inherited changes are not this session's: nothing was made or ended here.
        if kind in {"created", "deleted", "dispatched"} and self._is_inherited(event):
            return
        value = {"kind": kind, "seq": event.seq, "at": event.time, **members}
        self.items.append(Item(event.seq, kind, json_text(value)))

    def _is_inherited(self, event: SessionEvent) -> bool:
        boundary = safe_integer(self.seed_length)
        return boundary is not None and event.seq < boundary
