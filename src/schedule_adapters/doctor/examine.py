"""One log looked at, whatever comes of it."""

from collections.abc import Callable, Iterable
from enum import StrEnum, unique
from typing import BinaryIO, Final, cast

from attrs import frozen

from schedule_adapters.doctor.findings import FindingCode, Severity
from schedule_adapters.doctor.repair import RepairNote
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.doctor.scan import scan
from schedule_adapters.doctor.sources import Target, Unreadable, reason_of
from schedule_adapters.sessions import StoreError
from schedule_core.instants import Instant

NOT_A_LOG: Final = "this is not a session log; its first line is no header of a session"


@unique
class Verdict(StrEnum):
    """What to think of one log, from best to worst."""

    SOUND = "sound"
    ODD = "odd"
    """Sound, with warnings."""
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


@frozen
class Examination:
    """One log and what was found.

    Attributes:
        name: the log as the person named it, or as it was found in a folder.
        report: None if it could not be read.
        failure: why it could not; None if it could.
        repair: what came of the repair, if one was asked for and there was a reason.
    """

    name: str
    report: LogReport | None = None
    failure: str | None = None
    repair: RepairNote | None = None

    @property
    def verdict(self) -> Verdict:
        """What to think of it."""
        if self.report is None or _is_of_another_version(self.report):
            return Verdict.UNREADABLE
        if not self.report.is_sound:
            return Verdict.DAMAGED
        return Verdict.ODD if self.report.findings else Verdict.SOUND

    def count(self, severity: Severity) -> int:
        """How many findings of that severity are listed."""
        findings = self.report.findings if self.report is not None else ()
        return sum(finding.severity is severity for finding in findings)


def examine(
    target: Target | Unreadable,
    now: Instant | None,
    on_read: Callable[[int], None] = lambda _: None,
) -> Examination:
    """Read one log; every failure is part of the answer.

    Args:
        target: the log, or why there is none.
        now: as for `scan`.
        on_read: told how many bytes were read, each time some were.
    """
    if isinstance(target, Unreadable):
        return Examination(target.name, failure=target.reason)
    try:
        with target.open() as source:
            report = scan(counted_source(source, on_read), now=now)
    except StoreError as error:
        return Examination(target.name, failure=error.message)
    except Exception as error:  # noqa: BLE001 - the storage behind a URL is foreign code
        return Examination(target.name, failure=reason_of(error))
    is_nothing = report.header is None and report.events == 0 and not target.is_kept_by_a_store
    if is_nothing and not _is_of_another_version(report):
        return Examination(target.name, failure=NOT_A_LOG)
    return Examination(target.name, report)


def exit_code(verdicts: Iterable[Verdict], *, strict: bool) -> int:
    """0 sound, 1 findings, 2 unreadable: the worst of them; warnings count if strict."""
    codes = {Verdict.DAMAGED: 1, Verdict.UNREADABLE: 2, Verdict.ODD: int(strict)}
    return max((codes.get(verdict, 0) for verdict in verdicts), default=0)


def _is_of_another_version(report: LogReport) -> bool:
    return any(finding.code is FindingCode.UNSUPPORTED_LOG for finding in report.findings)


def counted_source(source: BinaryIO, on_read: Callable[[int], None]) -> BinaryIO:
    """The source, which now tells how much was read of it; only `read` may be called."""
    return cast("BinaryIO", _Counted(source, on_read))


class _Counted:
    """A source that tells how much was read of it."""

    def __init__(self, source: BinaryIO, on_read: Callable[[int], None]) -> None:
        self._source = source
        self._on_read = on_read

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._on_read(len(data))
        return data
