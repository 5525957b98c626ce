"""What can be wrong with a log: a closed set of codes, each with what it means for the reader."""

from enum import StrEnum, unique
from typing import Final

from attrs import frozen

from schedule_core.errors import LogFault


@unique
class Severity(StrEnum):
    """Whether readers of the log are affected."""

    ERROR = "error"
    WARNING = "warning"


@unique
class FindingCode(StrEnum):
    """Every kind of finding; the words are stable."""

    # The file and its lines.
    BAD_HEADER = "bad_header"
    UNSUPPORTED_LOG = "unsupported_log"
    DAMAGED_FRAME = "damaged_frame"
    TORN_TAIL = "torn_tail"
    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NUL_RUN = "nul_run"
    GLUED_LINES = "glued_lines"
    BAD_ENVELOPE = "bad_envelope"
    SEQ_GAP = "seq_gap"
    SEQ_REPEAT = "seq_repeat"
    SEED_LENGTH_OUT_OF_RANGE = "seed_length_out_of_range"
    # One schedule event.
    WRONG_TYPE = "wrong_type"
    MISSING_FIELD = "missing_field"
    EXTRA_FIELD = "extra_field"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_OPERATION = "unknown_operation"
    UNKNOWN_KIND = "unknown_kind"
    UNTRIMMED_TEXT = "untrimmed_text"
    INVALID_DELAY = "invalid_delay"
    NON_CANONICAL_INSTANT = "non_canonical_instant"
    # A schedule event among the others.
    ID_REUSED = "id_reused"
    INACTIVE_ID = "inactive_id"
    PARENT_ID_TOUCHED = "parent_id_touched"
    # Odd, but every reader goes on.
    UNSAVED_TAIL = "unsaved_tail"
    DISPATCHED_EARLY = "dispatched_early"
    AFTER_TARGET_MISMATCH = "after_target_mismatch"
    OVERDUE_AT_END = "overdue_at_end"
    FOLLOWUP_WITHOUT_DISPATCH = "followup_without_dispatch"
    DISPATCH_WITHOUT_FOLLOWUP = "dispatch_without_followup"


@frozen
class Explanation:
    """What a code says in one plain sentence, and what follows for who reads the log."""

    sentence: str
    meaning: str
    severity: Severity = Severity.ERROR


_REFUSED: Final = (
    "The log is refused as a whole: it can be neither opened nor read until this is mended."
)
_STOPPED: Final = (
    "Every schedule tool answers corrupt_schedule_log and no reminder of this session is "
    "delivered any more; reminders after this line were never seen."
)

EXPLANATIONS: Final[dict[FindingCode, Explanation]] = {
    FindingCode.BAD_HEADER: Explanation("The first line is not the header of a session.", _REFUSED),
    FindingCode.UNSUPPORTED_LOG: Explanation(
        "The header names a version of the log that is not known here.",
        "Nothing of the log was read; a newer program may read it.",
    ),
    FindingCode.DAMAGED_FRAME: Explanation("A compressed frame is damaged.", _REFUSED),
    FindingCode.TORN_TAIL: Explanation(
        "The log ends in a write that was never completed.",
        "Readers pass over it: what it held was never confirmed to anybody. It is saved "
        "aside and cut before the next write; `--repair-to` does that on a copy.",
    ),
    FindingCode.NOT_JSON: Explanation("The line is not JSON.", _REFUSED),
    FindingCode.NOT_UTF8: Explanation("The line is not UTF-8 text.", _REFUSED),
    FindingCode.NUL_RUN: Explanation(
        "The line holds NUL bytes, as a file has them where a crash lost its content.", _REFUSED
    ),
    FindingCode.GLUED_LINES: Explanation(
        "An event was written behind other text on the same line.", _REFUSED
    ),
    FindingCode.BAD_ENVELOPE: Explanation(
        "The line is JSON but not an event: a member is missing, unexpected or of a wrong type.",
        _REFUSED,
    ),
    FindingCode.SEQ_GAP: Explanation("Events are missing before this line.", _REFUSED),
    FindingCode.SEQ_REPEAT: Explanation(
        "The line repeats the number of an earlier event.", _REFUSED
    ),
    FindingCode.SEED_LENGTH_OUT_OF_RANGE: Explanation(
        "The fork boundary is not a count of events in this log.",
        "Nobody can tell which events are the session's own, so no reminder of it is seen.",
    ),
    FindingCode.WRONG_TYPE: Explanation(
        "A member of the schedule event has the wrong JSON type.", _STOPPED
    ),
    FindingCode.MISSING_FIELD: Explanation("The schedule event lacks a member.", _STOPPED),
    FindingCode.EXTRA_FIELD: Explanation(
        "The schedule event has a member that version 1 does not know.", _STOPPED
    ),
    FindingCode.UNKNOWN_VERSION: Explanation("The schedule event is not of version 1.", _STOPPED),
    FindingCode.UNKNOWN_OPERATION: Explanation(
        "The schedule event is neither a create nor a delete nor a dispatch.", _STOPPED
    ),
    FindingCode.UNKNOWN_KIND: Explanation(
        "The reminder is of a kind that version 1 does not know.", _STOPPED
    ),
    FindingCode.UNTRIMMED_TEXT: Explanation(
        "An id or a prompt is empty or has white space at an end.", _STOPPED
    ),
    FindingCode.INVALID_DELAY: Explanation(
        "The delay is not a positive whole number of seconds.", _STOPPED
    ),
    FindingCode.NON_CANONICAL_INSTANT: Explanation(
        "The target is not written in the canonical UTC form.", _STOPPED
    ),
    FindingCode.ID_REUSED: Explanation(
        "A reminder was created with an id that was used before.", _STOPPED
    ),
    FindingCode.INACTIVE_ID: Explanation(
        "A reminder was deleted or dispatched that was not active.", _STOPPED
    ),
    FindingCode.PARENT_ID_TOUCHED: Explanation(
        "A fork deleted or dispatched a reminder of the session it was forked from.", _STOPPED
    ),
    FindingCode.UNSAVED_TAIL: Explanation(
        "The last line holds a whole event; only its newline is missing.",
        "Readers drop the event, for nothing tells a whole line from one that was cut.",
        Severity.WARNING,
    ),
    FindingCode.DISPATCHED_EARLY: Explanation(
        "A reminder was dispatched before its target.",
        "Its message came too early, or the clock was set back in between.",
        Severity.WARNING,
    ),
    FindingCode.AFTER_TARGET_MISMATCH: Explanation(
        "The target of a reminder is not the time of its creation plus its delay.",
        "The target counts, not the delay; the clock was wrong or was set, or the line was "
        "not written by a scheduler.",
        Severity.WARNING,
    ),
    FindingCode.OVERDUE_AT_END: Explanation(
        "A reminder is active and its target has passed.",
        "It is delivered as soon as the session is opened again, and not before.",
        Severity.WARNING,
    ),
    FindingCode.FOLLOWUP_WITHOUT_DISPATCH: Explanation(
        "A reminder was queued as a message but never recorded as dispatched.",
        "The next opening records the dispatch; another program may deliver it twice.",
        Severity.WARNING,
    ),
    FindingCode.DISPATCH_WITHOUT_FOLLOWUP: Explanation(
        "A reminder was recorded as dispatched, but no message was queued for it.",
        "It counts as delivered and nobody was told.",
        Severity.WARNING,
    ),
}

CODES_OF_FAULTS: Final[dict[LogFault, FindingCode]] = {
    LogFault.REUSED_ID: FindingCode.ID_REUSED,
    LogFault.INVALID_SEED_LENGTH: FindingCode.SEED_LENGTH_OUT_OF_RANGE,
} | {
    fault: FindingCode(fault.value)
    for fault in LogFault
    if fault.value in FindingCode._value2member_map_
}
"""What a fault of the core is called here."""


@frozen
class Finding:
    """One thing that is wrong, or odd, and where.

    Attributes:
        line: 1-based line of the log (of its text, if it is compressed).
        offset: 0-based byte offset of that line; None for what only the end of the log
            shows, such as a reminder that is overdue: its create's line is given then.
        seq: of the event, where the line is one.
        id: of the reminder, where there is one.
        message: what was found, in one lower-case phrase; never the text of a prompt.
    """

    code: FindingCode
    line: int
    offset: int | None
    seq: int | None
    id: str | None
    message: str

    @property
    def explanation(self) -> Explanation:
        """What the code says and means."""
        return EXPLANATIONS[self.code]

    @property
    def severity(self) -> Severity:
        """Error or warning, by the code alone."""
        return self.explanation.severity
