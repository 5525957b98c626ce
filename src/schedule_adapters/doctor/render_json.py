"""Reports as JSON Lines: one object for each log, pure ASCII."""

import json

from attrs import asdict

from schedule_adapters.doctor.examine import Examination, Verdict
from schedule_adapters.doctor.findings import Finding


def report_json(examination: Examination) -> str:
    """One log as one line of JSON; every line has the same members in the same order."""
    report = examination.report
    is_unreadable = examination.verdict is Verdict.UNREADABLE
    members = {
        "file": examination.name,
        "session": report and report.session,
        "events": report and report.events,
        "active": [record.id for record in report.active] if report else [],
        "seen": list(report.seen) if report else [],
        "findings": [_finding(finding) for finding in report.findings] if report else [],
        "sound": None if is_unreadable else report is not None and report.is_sound,
        "error": examination.failure,
        "format": report and report.format,
        "changes": report and report.changes,
        "dispatched": report and report.dispatched,
        "deleted": report and report.deleted,
        "unlisted": report.unlisted if report else 0,
        "lines": report and report.lines,
        "size": report and report.size,
        "repair": asdict(examination.repair) if examination.repair else None,
    }
    return json.dumps(members, separators=(",", ":"))


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "line": finding.line,
        "offset": finding.offset,
        "seq": finding.seq,
        "id": finding.id,
        "message": finding.message,
        "severity": finding.severity,
        "meaning": finding.explanation.meaning,
    }
