"""pydantic-ai's own `ConversationStore`, on the session's own log.

What turns add and what this store saves are the same events, so a conversation can be loaded,
branched and saved with pydantic-ai's own means, and the next turn goes on from there.

Each event has `messages`, what was added. Those of turns have no more; those of saves also have
`entries`, an id and the id before it for each message; `record`, or null once deleted; and
`conversation`, the id, or null for the session's own conversation.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserPromptPart,
)

from schedule_adapters.agents.message_log import ConversationError, sendable, sendable_value
from schedule_adapters.events import INPUT_QUEUED, MESSAGES, TURN_ENDED, TURN_STARTED
from schedule_adapters.sessions import Session
from schedule_adapters.time_context import local_time
from schedule_core.instants import Instant
from schedule_core.ports import SessionEvent

MESSAGES_FORMAT: Final = "pydantic-ai/1"
"""The `format` of the events this module writes; events of other formats are passed over."""

_RECORD: Final = TypeAdapter(ConversationRecord)


class ConversationLog:
    """The conversations in one session's log; the session's own one has the session's id.

    Attributes:
        own_id: the id of the session's own conversation, the one that turns go on with.
        records: where each conversation stands, by its id.
        entries: every message ever kept, by its id.

    Raises:
        ConversationError: the log holds a conversation that cannot be read.
    """

    def __init__(self, session: Session) -> None:
        self.own_id = session.header.id
        self.records: dict[str, ConversationRecord] = {}
        self.entries: dict[str, ConversationEntry] = {}
        self._session = session
        self._position = 0  # events up to here are in the above
        self._queued: dict[int, str] = {}  # messages in the inbox, by their events
        self._unkept: str | None = None  # what the open turn began with, until it adds messages
        self.catch_up()

    def history(self) -> list[ModelMessage]:
        """The messages of the session's own conversation, as the next turn sends them."""
        self.catch_up()
        record = self.records.get(self.own_id)
        return [entry.message for entry in self.chain(record.head_id if record else None)]

    def chain(self, head_id: str | None) -> list[ConversationEntry]:
        """The entries from the first one up to that one."""
        entries: list[ConversationEntry] = []
        while head_id is not None:
            entries.append(self.entries[head_id])
            head_id = entries[-1].parent_id
        return entries[::-1]

    def add_turn(self, messages: Sequence[ModelMessage]) -> None:
        """Add what one turn added to the session's own conversation.

        Raises:
            StoreError: nothing was added.
        """
        self._append({"messages": _dump(messages)})

    async def save(
        self,
        conversation_id: str,
        record: ConversationRecord | None,
        entries: Sequence[ConversationEntry] = (),
    ) -> None:
        """Add entries, and say where a conversation stands now, or that it is deleted.

        Raises:
            StoreError: nothing was added, or it is not certain that it is durable.
        """
        self._append(
            {
                "messages": _dump([entry.message for entry in entries]),
                "entries": [{"id": entry.id, "parent": entry.parent_id} for entry in entries],
                "record": None if record is None else _RECORD.dump_python(record, mode="json"),
                # The own one has no id here: a fork of the session has another, and goes on.
                "conversation": None if conversation_id == self.own_id else conversation_id,
            }
        )
        await self._session.barrier()

    def _append(self, data: dict[str, Any]) -> None:
        plain = sendable_value({"format": MESSAGES_FORMAT, **data})
        self._session.append(MESSAGES.name, plain)
        # Read back, so that this process and the next one go on from the same history.
        self.catch_up()

    def catch_up(self) -> None:
        """Take in what the log holds by now."""
        for event in self._session.events_from(self._position):
            self._position += 1
            match event.type, event.data:
                case MESSAGES.name, {"format": str(kept_in)}:
                    self._unkept = None
                    if kept_in == MESSAGES_FORMAT:
                        self._read(event)
                case INPUT_QUEUED.name, {"text": str(text)}:
                    self._queued[event.seq] = text
                case TURN_STARTED.name, {"input": int(begun)}:
                    self._unkept = self._queued.pop(begun, None)
                case TURN_ENDED.name, {"outcome": outcome}:
                    self._end_turn(event, outcome)
                case _:
                    pass

    def _end_turn(self, event: SessionEvent, outcome: object) -> None:
        """Keep the message of a turn that was cut off by the end of its process."""
        text, self._unkept = self._unkept, None
        if outcome == "interrupted" and text is not None:
            part = UserPromptPart(sendable(text), timestamp=_written_at(event))
            self._go_on(event, [ModelRequest(parts=[part])])

    def _read(self, event: SessionEvent) -> None:
        try:
            messages = _load(event.data["messages"])
            if "entries" in event.data:
                self._take_save(event.data, messages)
            else:
                self._go_on(event, messages)
        except (KeyError, TypeError, ValueError) as error:  # pydantic's is a ValueError
            raise ConversationError(event.seq, MESSAGES_FORMAT) from error

    def _take_save(self, data: dict[str, Any], messages: Sequence[ModelMessage]) -> None:
        conversation_id = data["conversation"] or self.own_id
        record = None if data["record"] is None else _RECORD.validate_python(data["record"])
        for link, message in zip(data["entries"], messages, strict=True):
            entry = ConversationEntry(id=link["id"], parent_id=link["parent"], message=message)
            self.entries[entry.id] = entry
        if record is None:
            self.records.pop(conversation_id, None)
        else:
            self.chain(record.head_id)  # all of it must be there
            self.records[conversation_id] = replace(record, conversation_id=conversation_id)

    def _go_on(self, event: SessionEvent, messages: Sequence[ModelMessage]) -> None:
        """Add to the session's own conversation, as a turn does."""
        new = ConversationRecord(conversation_id=self.own_id, head_id=None)
        record = self.records.get(self.own_id, new)
        head_id, usage = record.head_id, replace(record.usage)
        for index, message in enumerate(messages):
            entry = ConversationEntry(id=f"{event.seq}.{index}", parent_id=head_id, message=message)
            self.entries[entry.id] = entry
            head_id = entry.id
            if isinstance(message, ModelResponse):
                usage.requests += 1
                usage.incr(message.usage)
        self.records[self.own_id] = replace(
            record,
            head_id=head_id,
            usage=usage,
            revision=f"{event.seq}",
            updated_at=_written_at(event),
        )


class LogConversationStore(ConversationStore):
    """pydantic-ai's store, on the log of one session that is open here.

    It sees at once what turns add, and the next turn goes on from what is saved here. Save
    between turns: what a running turn adds makes an earlier `load` conflict. Nothing is taken
    out of the log: what was deleted, or left behind by a branch, stays in it.

    Raises:
        ConversationError: the log holds a conversation that cannot be read.
    """

    def __init__(self, session: Session) -> None:
        self._log = ConversationLog(session)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None."""
        self._log.catch_up()
        return deepcopy(self._log.records.get(conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records, or those with that scope, the newest first, at most `limit`."""
        self._log.catch_up()
        every = self._log.records.values()
        records = [record for record in every if scope is None or record.scope == scope]
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return deepcopy(records[:limit])

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries; durable when this returns.

        Raises:
            ConversationConflict: it was changed since; nothing was stored.
            StoreError: nothing was stored, or it is not certain that it is durable.
        """
        self._check_revision(record.conversation_id, expected_revision)
        known = self._log.entries.keys() | {entry.id for entry in new_entries}
        if record.head_id is not None and record.head_id not in known:
            raise ConversationConflict(record.conversation_id)
        await self._log.save(record.conversation_id, record, new_entries)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation's record; its entries stay in the log.

        Raises:
            ConversationConflict: it was changed since.
            StoreError: as for `write_record`.
        """
        self._check_revision(conversation_id, expected_revision)
        await self._log.save(conversation_id, None)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with that id.

        Raises:
            KeyError: there is none.
        """
        return deepcopy(self._log.entries[entry_id])

    def _check_revision(self, conversation_id: str, expected: str | None) -> None:
        self._log.catch_up()
        stored = self._log.records.get(conversation_id)
        if (stored.revision if stored else None) != expected:
            raise ConversationConflict(conversation_id)


def _written_at(event: SessionEvent) -> datetime:
    """When the event was appended, so that every reader of the log says the same."""
    moment = local_time(Instant(event.time), "UTC") or datetime.max  # noqa: DTZ901 - next line
    return moment.replace(tzinfo=UTC)


def _dump(messages: Sequence[ModelMessage]) -> Any:
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def _load(dumped: object) -> list[ModelMessage]:
    # Through JSON text: from Python values, bytes would not be read back as base64.
    return ModelMessagesTypeAdapter.validate_json(json.dumps(dumped))
