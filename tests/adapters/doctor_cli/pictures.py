"""What the commands show of the demo logs; `python -m` this module writes the golden files."""

import argparse
import asyncio
import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import frozen
from rich.console import Console

from schedule_adapters.doctor import command, timeline_command
from schedule_adapters.doctor.examine import examine
from schedule_adapters.doctor.render_rich import print_summary, report_block
from schedule_adapters.doctor.sources import find_targets
from tests.adapters.doctor_cli.demo_logs import GOLDEN, NOW, NOW_TEXT, write_logs

NAMED: Final = ("logs", "logs/notes.txt", "gone.jsonl")
"""Every demo log, a file that is none, and one that is not there."""


@frozen
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


def doctor(*arguments: str) -> Done:
    """Run the doctor in this process, on the day of the demo logs."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return _run(parser, [*arguments, "--now", NOW_TEXT])


def timeline(*arguments: str, now: str = NOW_TEXT, zone: str | None = None) -> Done:
    parser = argparse.ArgumentParser()
    timeline_command.add_arguments(parser)
    parser.set_defaults(time_zone=zone)
    return _run(parser, [*arguments, "--now", now])


def on_a_terminal(width: int, *paths: str) -> str:
    """What the doctor shows on a terminal of that width, with its colours."""
    shown = io.StringIO()
    console = Console(
        file=shown, force_terminal=True, color_system="standard", width=width, highlight=False
    )
    verdicts = []
    for target in find_targets(paths):
        examination = examine(target, NOW)
        verdicts.append(examination.verdict)
        console.print(report_block(examination))
        console.print()
    print_summary(console, verdicts)
    return shown.getvalue()


def golden_files() -> Iterator[tuple[str, str]]:
    """Name and content of each golden file; run where the demo logs are."""
    yield "doctor.txt", doctor(*NAMED).out
    yield "doctor.jsonl", doctor(*NAMED, "--json").out
    yield "terminal-80.ansi", on_a_terminal(80, *NAMED)
    page = Path("page.html")
    doctor(*NAMED, "--html", str(page))
    yield "doctor.html", page.read_text("utf-8")
    for width in (60, 80, 120):
        with _columns(width):
            shown = timeline("logs/garden.jsonl", zone="Europe/Berlin").out
        yield f"timeline-{width}.txt", shown
    for name in ("garden", "hostile"):
        picture = Path(f"{name}.svg")
        timeline(f"logs/{name}.jsonl", "--svg", str(picture), zone="Europe/Berlin")
        yield f"{name}.svg", picture.read_text("utf-8")


@contextlib.contextmanager
def _columns(width: int) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> Done:
    run = command.run if hasattr(parser.parse_args(arguments), "paths") else timeline_command.run
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = asyncio.run(run(parser.parse_args(arguments)))
    return Done(code, out.getvalue(), err.getvalue())


def _write() -> None:
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_logs(Path("logs"))
        for name, content in golden_files():
            (GOLDEN / name).write_text(content, "utf-8", newline="\n")


if __name__ == "__main__":
    _write()
