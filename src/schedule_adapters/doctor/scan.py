"""One pass over one log, and what it comes to.

Torn tail or corruption is judged as the store judges it, by the same `TailJudge`.
"""

from typing import BinaryIO

from schedule_adapters.doctor.decoders import Decoder, fastest_decoder
from schedule_adapters.doctor.findings import Finding, FindingCode
from schedule_adapters.doctor.reading import Reading, Tally
from schedule_adapters.doctor.report import Findings, LogReport
from schedule_adapters.doctor.source import LogFormat, LogSource
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.log_image import TornTail
from schedule_core.instants import Instant


def scan(
    source: BinaryIO, *, now: Instant | None = None, decoder: Decoder | None = None
) -> LogReport:
    """Read a log once, from where `source` stands to its end, in bounded memory.

    What grows with the log is the fold alone: its active reminders and the ids ever used.

    Args:
        source: the bytes, compressed or not; need not be seekable.
        now: the moment to call reminders overdue at; without it none is.
        decoder: how to read what is plain, the fastest by default; no answer depends on it.

    Raises:
        StoreError: `unsupported_log`; the package that reads compressed logs is missing.
        OSError: the source cannot be read.
    """
    log = LogSource(source)
    reading = Reading(decoder or fastest_decoder())
    try:
        for block in log.blocks():
            reading.take(block)
            if reading.is_over:
                break
    except StoreError as error:
        if error.code is not StoreErrorCode.CORRUPT_LOG:
            raise
        reading.end_at(FindingCode.DAMAGED_FRAME, error.message)
    return _report(reading, log, now)


def _report(reading: Reading, log: LogSource, now: Instant | None) -> LogReport:
    """Say what the log holds, now that it was read to its end."""
    if reading.at.before == 0 and not reading.is_over:
        reading.end_at(FindingCode.BAD_HEADER, "the header is missing or cut off")
    total = Tally(reading.events, reading.history.changes, reading.findings)
    torn = None if reading.header is None or reading.judge.is_corruption else reading.judge.torn
    if torn is not None and reading.before is not None:
        total = reading.before
        _add_torn(reading, total.findings, torn)
    findings = total.findings
    if log.torn_frame is not None:
        message = "the last compressed frame is incomplete"
        place = (reading.at.before + 1, reading.at.size)
        findings.add(Finding(FindingCode.TORN_TAIL, *place, None, None, message))
    _check_boundary(reading, total)
    outcome = reading.history.outcome
    if findings.are_harmless:
        for finding in outcome.open_matters(now):
            findings.add(finding)
    plain = LogFormat.PACKED if reading.is_packed else LogFormat.PLAIN
    return LogReport(
        format=LogFormat.ZSTD if log.compressed else plain,
        header=reading.header,
        events=total.events,
        changes=total.changes,
        active=outcome.active,
        seen=outcome.seen,
        dispatched=outcome.dispatched,
        deleted=outcome.deleted,
        findings=tuple(findings.listed),
        unlisted=findings.unlisted,
        first_fault=findings.first_fault,
        lines=reading.at.before,
        size=reading.at.size,
        torn=torn,
        torn_frame=log.torn_frame,
    )


def _add_torn(reading: Reading, findings: Findings, torn: TornTail) -> None:
    size = reading.at.size - torn.offset
    message = f"{torn.reason}; {size} bytes lie beyond every checkpoint"
    findings.add(Finding(FindingCode.TORN_TAIL, torn.line, torn.offset, None, None, message))
    if reading.unsaved is not None:
        findings.add(reading.unsaved)


def _check_boundary(reading: Reading, total: Tally) -> None:
    boundary = reading.history.boundary or 0
    if total.findings.are_harmless and total.events < boundary:
        message = f"seedLength is {boundary}, and there are {total.events} events"
        code = FindingCode.SEED_LENGTH_OUT_OF_RANGE
        total.findings.put_first(Finding(code, 1, 0, None, None, message))
