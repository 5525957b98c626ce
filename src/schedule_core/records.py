"""What a log holds (records and changes) and what is shown of it (views).

Plain frozen values. Only `decoder`, for stored text, and `normalizer`, for new requests,
make them, so a record that exists is valid. Durable shapes: `spec/schedule.md`.
"""

from typing import ClassVar, Literal, NewType

from attrs import frozen

from schedule_core.instants import Instant

ScheduleId = NewType("ScheduleId", str)
"""Unique and never used again within one session."""
Prompt = NewType("Prompt", str)
"""Reminder text, trimmed and not empty; untrusted, and never part of a diagnostic."""
DelaySeconds = NewType("DelaySeconds", int)
"""A positive safe integer."""


@frozen
class AfterScheduleRecord:
    """A reminder made from a delay."""

    kind: ClassVar[Literal["after"]] = "after"
    id: ScheduleId
    prompt: Prompt
    after_seconds: DelaySeconds
    scheduled_at: Instant


@frozen
class AtScheduleRecord:
    """A reminder made from a point in time; how it was written is not kept."""

    kind: ClassVar[Literal["at"]] = "at"
    id: ScheduleId
    prompt: Prompt
    scheduled_at: Instant


ScheduleRecord = AfterScheduleRecord | AtScheduleRecord


@frozen
class ScheduleCreateChange:
    """Make one reminder active."""

    operation: ClassVar[Literal["create"]] = "create"
    schedule: ScheduleRecord


@frozen
class ScheduleDeleteChange:
    """End one active reminder without delivering it."""

    operation: ClassVar[Literal["delete"]] = "delete"
    id: ScheduleId


@frozen
class ScheduleDispatchChange:
    """Record that the follow-up of one active reminder was queued; not that it was read."""

    operation: ClassVar[Literal["dispatch"]] = "dispatch"
    id: ScheduleId


ScheduleChange = ScheduleCreateChange | ScheduleDeleteChange | ScheduleDispatchChange

ScheduleState = Literal["scheduled", "overdue"]


@frozen
class ScheduleView:
    """One active reminder as the model sees it, with the state at one reading of the clock."""

    delivery_mode: ClassVar[Literal["session-local"]] = "session-local"
    record: ScheduleRecord
    state: ScheduleState


def view(record: ScheduleRecord, now: float) -> ScheduleView:
    """Derive the view; overdue at the target instant itself, not after."""
    return ScheduleView(record, "overdue" if record.scheduled_at <= now else "scheduled")
