"""Reports as a person at a terminal reads them, with rich."""

from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from schedule_adapters.doctor.examine import Examination, Verdict
from schedule_adapters.doctor.findings import Finding, Severity
from schedule_adapters.doctor.render_text import (
    facts,
    log_name,
    more,
    places,
    repair_line,
    sentence,
    summary_line,
)
from schedule_adapters.wording import one_line

MAX_SHOWN: Final = 20
"""Findings of one log on the screen; more help nobody there."""

_MARKS: Final = {
    Verdict.SOUND: ("✓", "bold green"),
    Verdict.ODD: ("!", "bold yellow"),
    Verdict.DAMAGED: ("✗", "bold red"),
    Verdict.UNREADABLE: ("?", "bold magenta"),
}
_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow"}
_PLACE_WIDTH: Final = 14


def report_block(examination: Examination) -> RenderableType:
    """One log: its name and facts, then a row for each finding."""
    mark, style = _MARKS[examination.verdict]
    parts: list[RenderableType] = [
        Text.assemble((mark, style), " ", (log_name(examination.name), "bold"))
    ]
    report = examination.report
    if report is None:
        parts.append(_indented(Text(one_line(examination.failure or "", 1_000), style="magenta")))
    else:
        parts.append(_indented(Text(facts(report), style="dim")))
        if report.findings:
            parts.append(_findings_table(report.findings[:MAX_SHOWN]))
        hidden = len(report.findings) + report.unlisted - MAX_SHOWN
        if hidden > 0:
            parts.append(_indented(Text(f"{more(hidden)}; --json and --html list them", "dim")))
    if examination.repair is not None:
        parts.append(_indented(Text(f"repair: {repair_line(examination)}", style="cyan")))
    return Group(*parts)


def print_summary(console: Console, verdicts: list[Verdict]) -> None:
    """The last line: how many logs there were of each kind."""
    worst = max(verdicts, key=list(Verdict).index, default=Verdict.SOUND)
    console.print(Text(summary_line(verdicts), style=_MARKS[worst][1]))


def _findings_table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 2), expand=True)
    table.add_column(width=_PLACE_WIDTH, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    explained: set[str] = set()
    for finding in findings:
        line, *others = places(finding)
        text = Text.assemble(
            (finding.code.replace("_", " "), f"bold {_STYLES[finding.severity]}"),
            "\n",
            sentence(finding),
        )
        meaning = finding.explanation.meaning
        if meaning not in explained:
            explained.add(meaning)
            text.append(f"\n{meaning}", "dim italic")
        place = Text.assemble((line, "bold"), ("".join(f"\n{other}" for other in others), "dim"))
        table.add_row(place, text)
    return table


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))
