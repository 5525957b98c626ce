"""Whose fault it is: the model's (a code for its tool answer) or the log's (with position)."""

from enum import StrEnum, unique


@unique
class ErrorCode(StrEnum):
    """The closed set of version-1 codes that a tool answer may carry."""

    INVALID_PROMPT = "invalid_prompt"
    INVALID_SELECTOR = "invalid_selector"
    INVALID_RULE = "invalid_rule"
    INVALID_TIME_ZONE = "invalid_time_zone"
    NOT_FUTURE = "not_future"
    TIME_OUT_OF_RANGE = "time_out_of_range"
    CORRUPT_SCHEDULE_LOG = "corrupt_schedule_log"
    PERSISTENCE_UNCERTAIN = "persistence_uncertain"
    INTERNAL_ERROR = "internal_error"
    SCHEDULE_NOT_FOUND = "schedule_not_found"
    """Not an error of the call: a delete found no active reminder of that id."""


@unique
class LogFault(StrEnum):
    """Why a schedule event is not part of a valid version-1 log."""

    NOT_JSON = "not_json"
    WRONG_TYPE = "wrong_type"
    MISSING_FIELD = "missing_field"
    EXTRA_FIELD = "extra_field"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_OPERATION = "unknown_operation"
    UNKNOWN_KIND = "unknown_kind"
    UNTRIMMED_TEXT = "untrimmed_text"
    INVALID_DELAY = "invalid_delay"
    NON_CANONICAL_INSTANT = "non_canonical_instant"
    REUSED_ID = "reused_id"
    INACTIVE_ID = "inactive_id"
    INVALID_SEED_LENGTH = "invalid_seed_length"


class ScheduleInputError(Exception):
    """A request that the contract refuses; the tools answer it with `code`.

    Attributes:
        code: one of the closed set; never `corrupt_schedule_log`.
        message: one stable lower-case sentence for the model, without backend text.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ScheduleLogError(Exception):
    """A schedule event, or a fork boundary, that no valid version-1 log can hold.

    Attributes:
        fault: the rule that is broken.
        detail: what was found, in one lower-case phrase; never the text of a prompt.
        position: index of the first bad event in the log; None for a lone payload
            and for a fork boundary, which belongs to no event.
    """

    code = ErrorCode.CORRUPT_SCHEDULE_LOG

    def __init__(self, fault: LogFault, detail: str, position: int | None = None) -> None:
        where = "" if position is None else f" at event {position}"
        super().__init__(f"{fault}{where}: {detail}")
        self.fault = fault
        self.detail = detail
        self.position = position

    def at(self, position: int) -> "ScheduleLogError":
        """Give the same fault with the index of the event that holds it."""
        return ScheduleLogError(self.fault, self.detail, position)
