"""The event types that this project writes beside `schedule/change`.

Each is written as ignorable, so the published original passes over it. Their meanings
are the catalog in `docs/event-catalog.md`, which is generated from here.
"""

from typing import Final

from attrs import frozen


@frozen
class EventType:
    """One event type: its name on the wire, what it says, and the members of its data."""

    name: str
    meaning: str
    members: dict[str, str]


CHECKPOINT: Final = EventType(
    "log/checkpoint",
    "First event of each written batch: what was known durable when the batch began.",
    {"durable": "seq of the last event known durable; -1 when none was"},
)
INPUT_QUEUED: Final = EventType(
    "input/queued",
    "One message entered the inbox: it is owed exactly one later turn.",
    {
        "source": '"user", or "reminder" for a due reminder',
        "text": "the message, exactly as the model will get it",
        "scheduleId": "the reminder it delivers (reminders only)",
        "timeZone": "the client's IANA zone, as provenance of this message alone (if known)",
    },
)
TURN_STARTED: Final = EventType(
    "turn/started",
    "The message that was queued at seq `input` left the inbox and its turn began.",
    {"input": "seq of the input/queued event"},
)
TURN_ENDED: Final = EventType(
    "turn/ended",
    "That turn is over; its message is not queued again, unless it was postponed.",
    {
        "input": "seq of the input/queued event",
        "outcome": '"completed", "failed", "cancelled", "interrupted" (the process ended in it) '
        'or "postponed" (the session closed before the model got it; it is owed again)',
        "text": "what the assistant said in it, as it was shown",
    },
)
MESSAGES: Final = EventType(
    "conversation/messages",
    "What a turn, or one step of it, added to the conversation, in the framework's own form.",
    {
        "format": "the framework",
        "messages": "its messages, as its JSON",
        "entries, record, conversation": "what pydantic-ai's ConversationStore saved beside "
        "them (pydantic-ai/1 only)",
    },
)

EVENT_TYPES: Final = (CHECKPOINT, INPUT_QUEUED, TURN_STARTED, TURN_ENDED, MESSAGES)
