"""Reports as one page that needs nothing beside itself: no script, no font, no network."""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from schedule_adapters.doctor.examine import Examination, Verdict
from schedule_adapters.doctor.findings import Finding, FindingCode
from schedule_adapters.doctor.markup import Markup, element
from schedule_adapters.doctor.page_style import STYLE
from schedule_adapters.doctor.render_text import counted, log_name, more, repair_line
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.wording import local_moment, one_line
from schedule_core.instants import Instant
from schedule_core.records import ScheduleRecord

MAX_ROWS: Final = 100
"""Of one kind of finding in one log, and of its active reminders."""

_DIGEST: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
"""The browser is told to load nothing and to run nothing, whatever the page may hold."""
_WORDS: Final = {
    Verdict.SOUND: "sound",
    Verdict.ODD: "warnings",
    Verdict.DAMAGED: "errors",
    Verdict.UNREADABLE: "unreadable",
}


def page(examinations: Sequence[Examination], now: Instant) -> str:
    """The whole page, as of that moment."""
    verdicts = Counter(examination.verdict for examination in examinations)
    title = _title(verdicts)
    numbered = list(enumerate(examinations, 1))
    worst_first = sorted(numbered, key=lambda one: -list(Verdict).index(one[1].verdict))
    details = [
        _log(number, examination, now)
        for number, examination in worst_first
        if examination.verdict is not Verdict.SOUND
    ]
    body = element(
        "body",
        element("p", "session-schedule doctor", class_="kicker"),
        element("h1", title),
        element("div", *map(_tile, Verdict, map(verdicts.get, Verdict)), class_="tiles"),
        _overview(numbered),
        *details,
        element(
            "footer",
            f"Logs as they were at {local_moment(now, None)}. Nothing was changed in them. "
            "A reminder's own text is never shown here.",
        ),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"Log doctor: {title}"),
        element("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en').source}\n"


def _title(verdicts: Counter[Verdict]) -> str:
    total = verdicts.total()
    bad = total - verdicts[Verdict.SOUND] - verdicts[Verdict.ODD]
    if total == 0:
        return "No log was looked at"
    if bad == 0:
        return "The log is sound" if total == 1 else f"All {total:,} logs are sound"
    if total == 1:
        return "The log needs attention"
    return f"{bad:,} of {total:,} logs {'needs' if bad == 1 else 'need'} attention"


def _tile(verdict: Verdict, count: int | None) -> Markup:
    some = " some" if count else ""
    number = element("b", f"{count or 0:,}")
    return element("div", number, _WORDS[verdict], class_=f"tile {verdict}{some}")


def _overview(numbered: Iterable[tuple[int, Examination]]) -> Markup:
    names = ("", "log", "session")
    counts = ("events", "active", "dispatched", "deleted", "findings")
    head = element(
        "tr",
        *(element("th", name, scope="col") for name in names),
        *(element("th", name, class_="number", scope="col") for name in counts),
    )
    rows = [_overview_row(number, examination) for number, examination in numbered]
    table = _table("overview", head, rows)
    return element("div", table, class_="card")


def _overview_row(number: int, examination: Examination) -> Markup:
    name: str | Markup = log_name(examination.name)
    if examination.verdict is not Verdict.SOUND:
        name = element("a", name, href=f"#log-{number}")
    report = examination.report
    cells = [element("td", _pill(examination.verdict)), element("td", name)]
    if report is None:
        return element("tr", *cells, *[element("td")] * 6)
    findings = len(report.findings) + report.unlisted
    counts = (report.events, len(report.active), report.dispatched, report.deleted, findings)
    session = "" if report.session is None else one_line(report.session)
    return element("tr", *cells, element("td", session), *map(_number, counts))


def _log(number: int, examination: Examination, now: Instant) -> Markup:
    header = element(
        "header", _pill(examination.verdict), element("h2", log_name(examination.name))
    )
    parts = [header]
    report = examination.report
    if report is None:
        parts.append(element("p", one_line(examination.failure or "", 1_000), class_="soft"))
    else:
        parts.append(element("p", _facts(report), class_="soft"))
    if examination.repair is not None:
        parts.append(element("p", element("b", "Repair: "), repair_line(examination)))
    if report is not None:
        parts += _groups(report.findings)
        if report.unlisted:
            parts.append(element("p", more(report.unlisted), class_="soft"))
        if report.active:
            parts.append(_active(report.active, now))
    return element("section", *parts, class_="card log", id=f"log-{number}")


def _facts(report: LogReport) -> str:
    facts = (
        "no readable header" if report.session is None else f"session {one_line(report.session)}",
        f"{report.format} log of {counted(report.size, 'byte')}",
        counted(report.events, "event"),
        counted(report.changes, "schedule change"),
        f"{counted(len(report.seen), 'reminder')} seen",
    )
    return " · ".join(facts)


def _groups(findings: Iterable[Finding]) -> Iterator[Markup]:
    """The findings of one log by code, errors first; what follows from them is said once."""
    groups: dict[FindingCode, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: finding.severity):
        groups.setdefault(finding.code, []).append(finding)
    said: set[str] = set()
    for code, found in groups.items():
        meaning = found[0].explanation.meaning
        yield _group(code, found, "" if meaning in said else meaning)
        said.add(meaning)


def _group(code: FindingCode, findings: Sequence[Finding], meaning: str) -> Markup:
    explanation = findings[0].explanation
    names = (("line", "number"), ("byte", "number"), ("event", "number"))
    head = element(
        "tr",
        *(element("th", name, class_=kind, scope="col") for name, kind in names),
        element("th", "reminder", scope="col"),
        element("th", "found", scope="col"),
    )
    rows = [
        element(
            "tr",
            *map(_number, (finding.line, finding.offset, finding.seq)),
            element("td", one_line(finding.id or ""), class_="mono"),
            element("td", one_line(finding.message, 200)),
        )
        for finding in findings[:MAX_ROWS]
    ]
    text = element(
        "div",
        element("h3", explanation.sentence, element("code", code)),
        *([element("p", *_prose(meaning), class_="soft")] if meaning else []),
        *_rest(len(findings)),
        class_="text",
    )
    return element("div", text, _table("found", head, rows), class_=f"group {explanation.severity}")


def _prose(text: str) -> Iterator[str | Markup]:
    """A sentence in which backticks enclose what a person types."""
    for index, part in enumerate(text.split("`")):
        yield element("code", part) if index % 2 else part


def _active(records: Sequence[ScheduleRecord], now: Instant) -> Markup:
    rows = [
        element(
            "tr",
            element("td", one_line(record.id), class_="mono"),
            element("td", local_moment(record.scheduled_at, None)),
            element("td", "overdue" if record.scheduled_at <= now else "scheduled"),
        )
        for record in records[:MAX_ROWS]
    ]
    head = element("tr", *(element("th", n, scope="col") for n in ("reminder", "due", "state")))
    text = element("div", element("h3", "Active reminders"), *_rest(len(records)), class_="text")
    return element("div", text, _table("active", head, rows), class_="group")


def _table(kind: str, head: Markup, rows: Iterable[Markup]) -> Markup:
    table = element("table", element("thead", head), element("tbody", *rows), class_=kind)
    return element("div", table, class_="scroll")


def _rest(count: int) -> list[Markup]:
    if count <= MAX_ROWS:
        return []
    return [element("p", f"The first {MAX_ROWS} of {count:,}:", class_="soft")]


def _pill(verdict: Verdict) -> Markup:
    return element("span", _WORDS[verdict], class_=f"pill {verdict}")


def _number(count: int | None) -> Markup:
    return element("td", "" if count is None else f"{count:,}", class_="number")
