"""What `scan` says of one log, and the list of findings that stays small."""

from collections import Counter
from typing import Final

from attrs import define, field, frozen

from schedule_adapters.doctor.findings import EXPLANATIONS, Finding, FindingCode, Severity
from schedule_adapters.doctor.source import LogFormat
from schedule_adapters.sessions import SessionHeader
from schedule_adapters.stores.log_image import TornTail
from schedule_core.records import ScheduleId, ScheduleRecord

MAX_FINDINGS: Final = 1_000
"""Kept of each severity; of the rest only the number is known."""


@frozen
class LogReport:
    """What one log holds and what is wrong with it.

    Attributes:
        header: None if it cannot be read.
        events: how many events the log holds, those of a torn tail not counted.
        changes: how many of them are schedule events of the session's own.
        active: what every reader gets: the reminders left over before the first fault.
        seen: the ids created before it, in the order of their creates.
        dispatched: how many reminders were dispatched before it.
        deleted: how many were deleted.
        findings: in the order of the log; what only its end shows comes last.
        unlisted: how many more findings there are.
        first_fault: the first error, which is where readers stop.
        lines: how many lines were read, the header and a torn tail included.
        size: bytes of the log (of its text, if it is compressed).
        torn: the torn tail, if there is one in the text.
        torn_frame: byte of the compressed file at which an incomplete last frame begins.
    """

    format: LogFormat
    header: SessionHeader | None
    events: int
    changes: int
    active: tuple[ScheduleRecord, ...]
    seen: tuple[ScheduleId, ...]
    dispatched: int
    deleted: int
    findings: tuple[Finding, ...]
    unlisted: int
    first_fault: Finding | None
    lines: int
    size: int
    torn: TornTail | None
    torn_frame: int | None

    @property
    def session(self) -> str | None:
        """The session's id."""
        return None if self.header is None else self.header.id

    @property
    def is_sound(self) -> bool:
        """Whether there is no error; warnings do not count."""
        return self.first_fault is None


@define
class Findings:
    """The findings so far; their number in memory is bounded."""

    listed: list[Finding] = field(factory=list)
    unlisted: int = 0
    _counts: Counter[Severity] = field(factory=Counter)

    def has_room(self, code: FindingCode) -> bool:
        """Count one more of that code; tells whether it is to be added too."""
        severity = EXPLANATIONS[code].severity
        self._counts[severity] += 1
        if self._counts[severity] <= MAX_FINDINGS:
            return True
        self.unlisted += 1
        return False

    def add(self, finding: Finding) -> None:
        """Take one more."""
        if self.has_room(finding.code):
            self.listed.append(finding)

    def put_first(self, finding: Finding) -> None:
        """Take one that stands before all others in the log."""
        self.listed.insert(0, finding)

    def copy(self) -> "Findings":
        """The findings as they are now."""
        return Findings(list(self.listed), self.unlisted, Counter(self._counts))

    @property
    def first_fault(self) -> Finding | None:
        """The first error."""
        return next((f for f in self.listed if f.severity is Severity.ERROR), None)

    @property
    def are_harmless(self) -> bool:
        """Whether readers get everything that was ever committed: no error but a torn tail."""
        return all(
            finding.severity is Severity.WARNING or finding.code is FindingCode.TORN_TAIL
            for finding in self.listed
        )
