"""A framework's conversation, kept in the session's own log in the framework's own form.

Each turn is one `conversation/messages` event, so a restart, or a fork, goes on where the
conversation was, and no second store can disagree with the log.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from schedule_adapters.events import MESSAGES
from schedule_adapters.sessions import Session
from schedule_core.ports import SessionEvent

CUT_OFF: Final = (
    "cancelled: the call was cut off before its result was known, and may have taken effect"
)
"""What the model is told of a call without a result; providers refuse to be told nothing."""

_Message = TypeVar("_Message")


class ConversationError(Exception):
    """The log holds a conversation in our format that cannot be read.

    Attributes:
        seq: the event that cannot be read.
    """

    def __init__(self, seq: int, format_name: str) -> None:
        super().__init__(f"the conversation cannot be read: event {seq} is not {format_name}")
        self.seq = seq


class MessageLog(Generic[_Message]):
    """The messages of one framework in one session; events of other formats are passed over.

    Args:
        session: the log.
        format_name: the `format` of the events, such as `langgraph/1`.
        load: makes a message of its JSON; whatever it raises means "cannot be read".
        dump: the JSON value of a message.
    """

    def __init__(
        self,
        session: Session,
        format_name: str,
        load: Callable[[Any], _Message],
        dump: Callable[[_Message], object],
    ) -> None:
        self._session = session
        self._format = format_name
        self._load = load
        self._dump = dump

    def turns(self) -> list[list[_Message]]:
        """What each turn so far added, oldest first.

        Raises:
            ConversationError: an event of this format cannot be read.
        """
        format_name = self._format
        return [
            self._read(event)
            for event in self._session.events_from(0)
            if event.type == MESSAGES.name
            and isinstance(event.data, dict)
            and event.data.get("format") == format_name
        ]

    def add(self, messages: Sequence[_Message]) -> list[_Message]:
        """Add what one turn added; gives it as the next process will read it.

        Raises:
            StoreError: nothing was added.
        """
        dumped = [sendable_value(self._dump(message)) for message in messages]
        kept = [self._load(message) for message in dumped]  # before the log has it for good
        self._session.append(MESSAGES.name, {"format": self._format, "messages": dumped})
        return kept

    def _read(self, event: SessionEvent) -> list[_Message]:
        try:
            return [self._load(message) for message in event.data["messages"]]
        except Exception as error:  # whatever the framework's own reader raises
            raise ConversationError(event.seq, self._format) from error


def sendable(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate, legal in our logs, becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def sendable_value(value: object) -> object:
    """The value as JSON, every text in it `sendable`; what JSON cannot hold becomes its text."""
    plain: object = json.loads(sendable(json.dumps(value, ensure_ascii=False, default=str)))
    return plain
