"""The words that the MCP server and a host's bridge share: names, schemas, values.

A model meets three tools. A host has two more, which are listed and run only for requests
that carry `HOST_META`: a model chooses a tool and its arguments, never the `_meta`.
"""

from typing import Any, Final

from attrs import frozen

from schedule_core import ScheduleId
from schedule_core.instants import SECOND_MS, parse_instant

DUE_URI: Final = "schedule://due"
"""The resource that says what is due, without taking it."""

HOST_META: Final = "session-schedule/host"
"""The `_meta` key, with the value true, by which a request comes from the host itself."""

TAKE: Final = "schedule_take_due"
ACKNOWLEDGE: Final = "schedule_acknowledge"

OUTCOMES: Final = ("completed", "failed", "cancelled")


@frozen
class HostTool:
    """A tool for the host; no model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]


HOST_TOOLS: Final = (
    HostTool(
        TAKE,
        "For the host, while its agent is idle: admit at most one due reminder, and give it. "
        "The same one is given until it is acknowledged.",
        {"type": "object", "properties": {}},
    ),
    HostTool(
        ACKNOWLEDGE,
        "For the host, once a reminder's message is in its conversation: do not give it again.",
        {
            "type": "object",
            "properties": {
                "delivery": {"type": "string"},
                "outcome": {"type": "string", "enum": list(OUTCOMES)},
            },
            "required": ["delivery"],
        },
    ),
)


class WireError(Exception):
    """The other side sent something else than this version of the bridge understands."""


@frozen
class TakenReminder:
    """One reminder that the host is to bring into its conversation as an ordinary turn.

    Attributes:
        delivery: names this delivery; a host that keeps it can tell a repeat.
        schedule_id: the reminder.
        message: what the model gets, exactly: framed, untrusted content.
    """

    delivery: str
    schedule_id: ScheduleId
    message: str


@frozen
class DueState:
    """What is due, as one reading of `DUE_URI` says.

    Attributes:
        is_due: whether there is something to take.
        next_in_s: seconds until the next one is due; None if none is to come.
    """

    is_due: bool
    next_in_s: float | None


def taken_json(reminder: TakenReminder | None) -> dict[str, Any]:
    """The answer of `TAKE`."""
    if reminder is None:
        return {"reminder": None}
    return {
        "reminder": {
            "delivery": reminder.delivery,
            "id": reminder.schedule_id,
            "message": reminder.message,
        }
    }


def read_taken(value: object) -> TakenReminder | None:
    """Read the answer of `TAKE`.

    Raises:
        WireError: it is not one.
    """
    match value:
        case {"reminder": None}:
            return None
        case {"reminder": {"delivery": str(delivery), "id": str(id), "message": str(message)}}:
            return TakenReminder(delivery, ScheduleId(id), message)
        case _:
            raise WireError(f"{TAKE} gave something else than a reminder")


def read_due(value: object) -> DueState:
    """Read the content of `DUE_URI`.

    Raises:
        WireError: it is not that.
    """
    match value:
        case {"due": [*due], "now": str(now), "nextDueAt": None}:
            return DueState(bool(due), None)
        case {"due": [*due], "now": str(now), "nextDueAt": str(following)}:
            try:
                ahead_ms = parse_instant(following) - parse_instant(now)
            except ValueError as error:
                raise WireError(f"{DUE_URI} holds a time that is none") from error
            return DueState(bool(due), max(ahead_ms / SECOND_MS, 0.0))
        case _:
            raise WireError(f"{DUE_URI} holds something else than what is due")
