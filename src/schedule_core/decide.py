"""What a management call does to the log, and what it answers: a request, a state, a now.

Everything about the shape of a request was settled before it got here (`tools`).
"""

from typing import ClassVar, Final, Literal, assert_never

from attrs import frozen

from schedule_core.errors import ErrorCode, ScheduleInputError
from schedule_core.fold import Schedules
from schedule_core.instants import Instant
from schedule_core.normalizer import new_record
from schedule_core.records import (
    DelaySeconds,
    Prompt,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleView,
    view,
)

Operation = Literal["create", "list", "delete"]


@frozen
class CreateRequest:
    """Make a reminder from exactly one selector.

    `after_seconds` is checked already; `at` is judged at the decision, against its now.
    When both are None the caller sent `"at": null`.
    """

    operation: ClassVar[Literal["create"]] = "create"
    prompt: Prompt
    after_seconds: DelaySeconds | None = None
    at: object = None


@frozen
class ListRequest:
    """List the active reminders."""

    operation: ClassVar[Literal["list"]] = "list"


@frozen
class DeleteRequest:
    """Delete one active reminder."""

    operation: ClassVar[Literal["delete"]] = "delete"
    id: ScheduleId


Request = CreateRequest | ListRequest | DeleteRequest


@frozen
class Created:
    """The new reminder, durable, as it stands at the answer's own reading of the clock."""

    view: ScheduleView


@frozen
class Listed:
    """Every active reminder at one reading of the clock, in the order of the creates."""

    views: tuple[ScheduleView, ...]


@frozen
class Deleted:
    """The reminder was active and is deleted, durably."""

    id: ScheduleId


@frozen
class NotFound:
    """There is no active reminder of that id; nothing was appended."""

    id: ScheduleId


@frozen
class Failed:
    """The call did not do what it asked for, or (`persistence_uncertain`) perhaps did."""

    code: ErrorCode
    message: str


@frozen
class Uncertain:
    """A barrier failed: what it should confirm may or may not be durable.

    `id` is the reminder in question, where one is known.
    """

    operation: Operation
    id: ScheduleId | None = None


Answer = Created | Listed | Deleted | NotFound | Failed | Uncertain


@frozen
class Limits:
    """Bounds at the tools, never at the decoder: old logs stay readable (design decision 17).

    Attributes:
        prompt_bytes: the longest prompt, in bytes of UTF-8.
        active: how many reminders may be active at once.
    """

    prompt_bytes: int = 8 * 1024
    active: int = 1_000


def decide(
    request: Request, schedules: Schedules, now: Instant | None, limits: Limits
) -> ScheduleChange | Answer:
    """Decide one request: the change to append before anything is answered, or the answer.

    `now` is the wall clock; None when it could not be read.
    """
    match request:
        case DeleteRequest(id):
            return ScheduleDeleteChange(id) if schedules.get(id) else NotFound(id)
        case _ if now is None:
            return CLOCK_UNREADABLE
        case ListRequest():
            return Listed(tuple(view(record, now) for record in schedules.active))
        case CreateRequest():
            return _decide_create(request, schedules, now, limits)
        case _:
            assert_never(request)


def confirm(change: ScheduleChange, now: Instant | None) -> Answer:
    """The answer to a change that is durable now; `now` is a reading of its own."""
    match change:
        case ScheduleCreateChange(record):
            return CLOCK_UNREADABLE if now is None else Created(view(record, now))
        case ScheduleDeleteChange(id):
            return Deleted(id)
        case ScheduleDispatchChange():
            raise AssertionError("no management call dispatches")
        case _:
            assert_never(change)


def uncertain(request: Request) -> Uncertain:
    """The answer when the barrier before the decision failed: nothing was looked at."""
    return Uncertain(request.operation, request.id if isinstance(request, DeleteRequest) else None)


def _decide_create(
    request: CreateRequest, schedules: Schedules, now: Instant, limits: Limits
) -> ScheduleChange | Answer:
    if schedules.active_count >= limits.active:
        return Failed(ErrorCode.INVALID_RULE, f"there are already {limits.active} active reminders")
    try:
        record = new_record(
            schedules.next_id(),
            request.prompt,
            after_seconds=request.after_seconds,
            at=request.at,
            now=now,
        )
    except ScheduleInputError as error:
        return Failed(error.code, error.message)
    return ScheduleCreateChange(record)


CLOCK_UNREADABLE: Final = Failed(ErrorCode.INTERNAL_ERROR, "the clock could not be read")
