"""What a host hears of a live schedule: facts with ids and numbers, never the text of a prompt.

The owner's own facts are in `schedule_core.signals`; here are those that only the shell
around it knows, for they have a duration.
"""

import logging
from collections.abc import Callable

from attrs import frozen

from schedule_core import (
    Answer,
    Created,
    CreateRequest,
    Deleted,
    DeleteRequest,
    ErrorCode,
    Failed,
    Instant,
    Listed,
    ListRequest,
    NotFound,
    Request,
    ScheduleId,
    Uncertain,
)
from schedule_core.signals import Admitted, Delayed, Fact, Faulted, Recovered

_log = logging.getLogger("schedule_adapters")


@frozen
class CallEnded:
    """A management call was answered.

    Attributes:
        operation: "create", "list" or "delete".
        refusal: the code of the answer; None if what was asked for was done.
        seconds: how long the caller waited, its two barriers included.
        schedule_id: the reminder that was made or deleted, and never the text of a call.
    """

    operation: str
    refusal: ErrorCode | None
    seconds: float
    schedule_id: ScheduleId | None = None


@frozen
class BarrierEnded:
    """A barrier passed, or failed, after so many seconds."""

    passed: bool
    seconds: float


@frozen
class CameDue:
    """The wall clock reached `at`, which is the target of one reminder or several."""

    at: Instant


LiveFact = Fact | CallEnded | BarrierEnded | CameDue
ReportHook = Callable[[str, LiveFact], None]
"""Takes the name of a session, and one fact about its reminders."""


def log_fact(session: str, fact: LiveFact) -> None:
    """Write one fact to the `schedule_adapters` logger; ids and numbers only."""
    match fact:
        case Admitted(schedule_id, scheduled_at, now):
            _log.info("%s: admitted %s, %d ms late", session, schedule_id, now - scheduled_at)
        case Delayed(setback):
            _log.warning("%s: due reminders wait for activity: %s", session, setback)
        case Faulted(fault, position):
            _log.error("%s: delivers nothing any more: %s, event %s", session, fault, position)
        case Recovered():
            _log.info("%s: delivers again", session)
        case CallEnded(operation, refusal, seconds, schedule_id):
            result = refusal or "done"
            _log.debug("%s: %s %s: %s, %.3f s", session, operation, schedule_id, result, seconds)
        case BarrierEnded(passed, seconds):
            _log.debug("%s: barrier %s, %.3f s", session, _PASSED[passed], seconds)
        case CameDue(at):
            _log.debug("%s: %d has come", session, at)


_PASSED = {True: "passed", False: "failed"}


def call_ended(request: Request, answer: Answer, seconds: float) -> CallEnded:
    """The fact that a request got its answer."""
    match request:
        case CreateRequest():
            operation = "create"
        case ListRequest():
            operation = "list"
        case DeleteRequest():
            operation = "delete"
    match answer:
        case Created(view):
            return CallEnded(operation, None, seconds, view.record.id)
        case Listed():
            return CallEnded(operation, None, seconds)
        case Deleted(schedule_id):
            return CallEnded(operation, None, seconds, schedule_id)
        case NotFound():  # its id is whatever the model wrote
            return CallEnded(operation, ErrorCode.SCHEDULE_NOT_FOUND, seconds)
        case Failed(code):
            return CallEnded(operation, code, seconds)
        case Uncertain():
            return CallEnded(operation, ErrorCode.PERSISTENCE_UNCERTAIN, seconds)
