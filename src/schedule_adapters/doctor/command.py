"""`session-schedule doctor`: look at logs, and say what is wrong with them."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from schedule_adapters.doctor.console import (
    consoles,
    count_argument,
    fail,
    instant_argument,
    interruptible,
    say,
    write_page,
)
from schedule_adapters.doctor.examine import Examination, Verdict, exit_code
from schedule_adapters.doctor.parallel import (
    OnRead,
    Targets,
    examine_here,
    examine_in_processes,
    examine_on_dask,
)
from schedule_adapters.doctor.progress import reading_progress
from schedule_adapters.doctor.render_html import page
from schedule_adapters.doctor.render_json import report_json
from schedule_adapters.doctor.render_text import report_lines, summary_line
from schedule_adapters.doctor.repair import RepairNote, repair
from schedule_adapters.doctor.sources import (
    Target,
    UnreadableError,
    find_targets,
    reason_of,
)
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import StoreError
from schedule_core.instants import Instant

if TYPE_CHECKING:
    from rich.console import Console

_MAX_JOBS: Final = 256

DESCRIPTION: Final = """\
Look at session logs without opening them, and say what is wrong with their reminders.
Nothing is ever changed. Exit code: 0 sound, 1 findings, 2 something could not be read;
with several logs the worst. Warnings alone are 0 unless --strict."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to the parser."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log, a folder (searched for logs, all levels), - for standard input, "
        "or a URL such as s3://bucket/logs (with the extra fsspec)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="one JSON object for each log, a line each"
    )
    form.add_argument("--quiet", action="store_true", help="leave out sound logs")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page for a browser as well"
    )
    parser.add_argument("--strict", action="store_true", help="warnings count as findings")
    parser.add_argument(
        "--repair-to",
        type=Path,
        metavar="DIR",
        help="write copies without their torn tails into this folder, the removed bytes beside",
    )
    parser.add_argument(
        "--now",
        type=instant_argument,
        metavar="INSTANT",
        help="call reminders overdue as of then, such as 2030-03-01T09:00:00.000Z (default: now)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs", type=_jobs, default=1, metavar="N", help="read N logs at a time (default: 1)"
    )
    where.add_argument(
        "--dask", metavar="ADDRESS", help="read them on a Dask cluster (with the extra dask)"
    )


async def run(arguments: argparse.Namespace) -> int:
    """Run the command; gives its exit code."""
    with interruptible():
        try:
            return _run(arguments)
        except UnreadableError as error:
            return fail(error)


def _run(arguments: argparse.Namespace) -> int:
    now = arguments.now if arguments.now is not None else SystemClock().now()
    targets = list(find_targets(arguments.paths))
    screen = _screen(arguments)
    total = sum(target.size for target in targets if isinstance(target, Target))
    kept: list[Examination] = []
    verdicts: list[Verdict] = []
    with reading_progress(screen.console, total) as on_read:
        for target, found in zip(
            targets, _examinations(arguments, targets, now, on_read), strict=True
        ):
            examination = found
            if arguments.repair_to is not None:
                examination = _repaired(target, examination, arguments.repair_to)
            verdicts.append(examination.verdict)
            if not (arguments.quiet and examination.verdict is Verdict.SOUND):
                screen.show(examination)
            if arguments.html is not None:
                kept.append(examination)
    screen.end(verdicts)
    if arguments.html is not None:
        write_page(arguments.html, page(kept, now))
    return exit_code(verdicts, strict=arguments.strict)


def _examinations(
    arguments: argparse.Namespace, targets: Targets, now: Instant, on_read: OnRead
) -> Iterator[Examination]:
    if arguments.dask is not None:
        return examine_on_dask(targets, now, on_read, address=arguments.dask)
    if arguments.jobs > 1 and len(targets) > 1:
        jobs = min(arguments.jobs, len(targets))
        return examine_in_processes(targets, now, on_read, jobs=jobs)
    return examine_here(targets, now, on_read)


def _repaired(target: object, examination: Examination, folder: Path) -> Examination:
    """Try to repair a log with errors; what came of it is part of the answer."""
    if examination.verdict is not Verdict.DAMAGED or not isinstance(target, Target):
        return examination
    if not isinstance(target.place, Path):
        note = RepairNote(examination.name, "Not repaired: only files of this machine are.")
        return evolve(examination, repair=note)
    try:
        note = repair(target.place, folder)
    except FileExistsError as error:
        there = f"{error.filename} is there already; move it, or name another folder."
        note = RepairNote(examination.name, f"Not repaired: {there}")
    except (OSError, StoreError) as error:
        note = RepairNote(examination.name, f"Not repaired: {reason_of(error)}.")
    return evolve(examination, repair=note)


@frozen
class _Screen:
    """Where reports go, one as soon as it is there.

    Attributes:
        console: where a progress bar may go; None without rich.
    """

    console: "Console | None"
    show: Callable[[Examination], None]
    end: Callable[[list[Verdict]], None]


def _screen(arguments: argparse.Namespace) -> _Screen:
    console, side = consoles()
    if arguments.json:
        return _Screen(side, lambda examination: say(report_json(examination)), lambda _: None)
    if console is None or not console.is_terminal:
        return _Screen(side, _show_plainly, lambda verdicts: say(summary_line(verdicts)))
    from schedule_adapters.doctor import render_rich  # noqa: PLC0415 - an extra

    def show(examination: Examination) -> None:
        console.print(render_rich.report_block(examination))
        console.print()

    return _Screen(console, show, partial(render_rich.print_summary, console))


def _show_plainly(examination: Examination) -> None:
    for line in report_lines(examination):
        say(line)


def _jobs(text: str) -> int:
    return count_argument(text, _MAX_JOBS)
