"""The log doctor: what a session log says of its reminders, and what is wrong with it.

`scan` reads a log once, in memory that does not grow with it; `repair` writes a copy without
a torn tail; `ScheduleInvariant` holds a live log to the same rules.
"""

from schedule_adapters.doctor.findings import Finding, FindingCode, Severity
from schedule_adapters.doctor.invariant import ScheduleInvariant
from schedule_adapters.doctor.repair import RepairNote, repair
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.doctor.scan import scan
from schedule_adapters.doctor.source import LogFormat

__all__ = [
    "Finding",
    "FindingCode",
    "LogFormat",
    "LogReport",
    "RepairNote",
    "ScheduleInvariant",
    "Severity",
    "repair",
    "scan",
]
