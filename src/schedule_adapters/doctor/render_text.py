"""Reports as lines of plain text: for pipes, for grep, and for a terminal without rich."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from schedule_adapters.doctor.examine import Examination, Verdict
from schedule_adapters.doctor.findings import Finding
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.wording import one_line

_NAME_WIDTH: Final = 4_096
"""A path is never cut: it may be needed to find the file."""
_UNREADABLE: Final = "unreadable"
_SUMMARY: Final = {
    Verdict.SOUND: "sound",
    Verdict.ODD: "sound with warnings",
    Verdict.DAMAGED: "with errors",
    Verdict.UNREADABLE: _UNREADABLE,
}


def report_lines(examination: Examination) -> Iterator[str]:
    """One line of facts, one for each finding, and what follows from it, said once."""
    name = log_name(examination.name)
    report = examination.report
    if report is None:
        yield f"{name}: {_UNREADABLE}: {one_line(examination.failure or '', _NAME_WIDTH)}"
    else:
        yield f"{name}: {facts(report)}"
        explained: set[str] = set()
        for finding in report.findings:
            place = ", ".join([finding.code, *places(finding)[1:]])
            yield f"{name}:{finding.line}: {finding.severity}: {sentence(finding)} [{place}]"
            meaning = finding.explanation.meaning
            if meaning not in explained:
                explained.add(meaning)
                yield f"    {meaning}"
        if report.unlisted:
            yield f"{name}: {more(report.unlisted)}"
    if examination.repair is not None:
        yield f"{name}: repair: {repair_line(examination)}"


def summary_line(verdicts: Iterable[Verdict]) -> str:
    """How many logs there were of each kind."""
    counts = Counter(verdicts)
    parts = [f"{counts[verdict]} {text}" for verdict, text in _SUMMARY.items() if counts[verdict]]
    return f"{counted(counts.total(), 'log')}: {', '.join(parts) or 'nothing to read'}"


def log_name(name: str) -> str:
    """The name of a log on one line."""
    return one_line("standard input" if name == "-" else name, _NAME_WIDTH)


def facts(report: LogReport) -> str:
    """What a log holds, on one line."""
    session = "no readable header" if report.session is None else one_line(report.session)
    counts = (
        counted(report.events, "event"),
        counted(report.changes, "change"),
        f"{len(report.active)} active",
        f"{report.dispatched} dispatched",
        f"{report.deleted} deleted",
    )
    return f"{session}: {', '.join(counts)}"


def sentence(finding: Finding) -> str:
    """What a finding says: the sentence of its code, and what was found."""
    return f"{finding.explanation.sentence[:-1]}: {one_line(finding.message, 200)}."


def places(finding: Finding) -> list[str]:
    """Where a finding is: its line, and of event, byte and reminder those it has."""
    parts = [f"line {finding.line}"]
    if finding.offset is not None:
        parts.append(f"byte {finding.offset}")
    if finding.seq is not None:
        parts.append(f"event {finding.seq}")
    if finding.id is not None:
        parts.append(one_line(finding.id))
    return parts


def more(count: int) -> str:
    """That there is more than is shown."""
    return f"and {counted(count, 'more finding')}"


def counted(count: int, noun: str) -> str:
    """`1 event`, `2 events`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def repair_line(examination: Examination) -> str:
    """What came of a repair, on one line."""
    note = examination.repair
    assert note is not None, "there was a repair"
    copy = "" if note.copy is None else f" The copy is {note.copy}"
    return one_line(note.summary + copy, 2 * _NAME_WIDTH)
