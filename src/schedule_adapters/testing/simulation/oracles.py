"""What must hold in every run, as names; `Violation` says which of them did not."""

from enum import StrEnum, unique
from typing import Any, Final

from attrs import define, field

from schedule_adapters.events import INPUT_QUEUED, TURN_ENDED, TURN_STARTED
from schedule_core import SessionEvent
from schedule_core.ports import SCHEDULE_EVENT_TYPE


@unique
class Oracle(StrEnum):
    """One rule that a run can break."""

    CREATE_KEPT = "an acknowledged create is always found again"
    DELETE_KEPT = "an acknowledged delete never fires"
    CONFIRMED_KEPT = "what a barrier confirmed is always found again"
    NEVER_EARLY = "never early"
    NEVER_REPEATED = "at most one follow-up per occurrence, and one turn per follow-up"
    NEVER_INVENTED = "nothing is in the log that was never appended"
    VALID_LOG = "the log is a valid version-1 history"
    LIST_IS_FOLD = "a list equals the fold"
    NO_STRANGER = "a foreign session never appears"
    ONE_AT_A_TIME = "one turn at a time, in the order of the inbox"
    ONE_OWNER = "one live owner per session"
    HONEST_ANSWER = "an answer says what happened"
    LIVENESS = "every due reminder of a live, idle agent is delivered"
    IN_TIME = "undisturbed, a reminder is at most one segment late"
    NO_ACCIDENT = "no error of the product's own"


_MOST_TEXT: Final = 400


class Violation(AssertionError):  # noqa: N818 - of a rule
    """A run broke a rule.

    Attributes:
        oracle: which one.
    """

    def __init__(self, oracle: Oracle, what: str) -> None:
        super().__init__(f"{oracle.value}: {what[:_MOST_TEXT]}")
        self.oracle = oracle
        BROKEN.append(self)


BROKEN: Final[list[Violation]] = []
"""What was broken in the run under way: the product catches broadly where it calls out."""


def require(holds: object, oracle: Oracle, what: str) -> None:
    """Insist on a rule.

    Raises:
        Violation: it does not hold.
    """
    if not holds:
        raise Violation(oracle, what)


Row = tuple[str, str, str]
"""One active reminder: id, prompt, canonical target."""


@define
class Message:
    """One message of the inbox, and what became of it."""

    seq: int
    key: str
    """The reminder's id, or the text of a prompt: each text is used once."""
    started: int | None = None  # seq of its last turn's start
    over: bool = False


@define
class History:
    """The simulator's own reading of a session log: not the product's fold, on purpose.

    Attributes:
        active: the rows of the active reminders by id, in the order of the creates.
        seen: every id ever used.
        lists: what a list may have answered, one entry for each change.
        messages: by key.
    """

    active: dict[str, Row] = field(factory=dict)
    seen: set[str] = field(factory=set)
    lists: list[tuple[Row, ...]] = field(factory=lambda: [()])
    messages: dict[str, Message] = field(factory=dict)
    length: int = 0

    def take(self, event: SessionEvent) -> None:
        """Read the next event.

        Raises:
            Violation: it cannot stand there.
        """
        require(event.seq == self.length, Oracle.VALID_LOG, f"event {event.seq} at {self.length}")
        self.length += 1
        data: Any = event.data
        match event.type:
            case type_ if type_ == SCHEDULE_EVENT_TYPE:
                self._change(data)
                self.lists.append(tuple(self.active.values()))
            case INPUT_QUEUED.name:
                self._queued(event.seq, data)
            case TURN_STARTED.name:
                self._message(data["input"]).started = event.seq
            case TURN_ENDED.name:
                message = self._message(data["input"])
                message.over = data["outcome"] != "postponed"
            case _:
                pass

    def _change(self, data: Any) -> None:
        if data["operation"] == "create":
            record = data["schedule"]
            require(record["id"] not in self.seen, Oracle.VALID_LOG, f"{record['id']} again")
            self.seen.add(record["id"])
            self.active[record["id"]] = (record["id"], record["prompt"], record["scheduledAt"])
            return
        name = data["id"]
        require(name in self.active, Oracle.VALID_LOG, f"{data['operation']} of inactive {name}")
        if data["operation"] == "dispatch":
            require(name in self.messages, Oracle.NEVER_INVENTED, f"{name} was never queued")
        del self.active[name]

    def _queued(self, seq: int, data: Any) -> None:
        key = data.get("scheduleId", data["text"])
        require(key not in self.messages, Oracle.NEVER_REPEATED, f"{key} queued again at {seq}")
        if "scheduleId" in data:
            require(key in self.active, Oracle.DELETE_KEPT, f"{key} fires and is not active")
        self.messages[key] = Message(seq, key)

    def _message(self, seq: int) -> Message:
        found = [message for message in self.messages.values() if message.seq == seq]
        require(found, Oracle.NEVER_INVENTED, f"a turn of a message {seq} that never was")
        return found[0]
