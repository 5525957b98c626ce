"""The progress bar, and the doctor on a real terminal."""

import io
import re
import sys
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console

from schedule_adapters.doctor.progress import reading_progress
from tests.adapters.doctor_cli.demo_logs import write_logs

pexpect = pytest.importorskip("pexpect")
ROOT: Final = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("is_terminal", "patience_s", "is_shown"),
    [(True, 0.0, True), (True, 60.0, False), (False, 0.0, False)],
)
def test_bar_is_for_long_work_on_a_terminal(
    *, is_terminal: bool, patience_s: float, is_shown: bool
) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=80)
    with reading_progress(console, 100, patience_s=patience_s) as on_read:
        on_read(50)
        on_read(50)
    assert is_shown is ("reading" in shown.getvalue())


def test_without_a_console_nothing_is_told() -> None:
    with reading_progress(None, 100) as on_read:
        on_read(50)


def test_terminal_shows_colours_and_no_text_of_a_log_moves_the_cursor(tmp_path: Path) -> None:
    """The commands themselves, on a terminal of 80 columns."""
    write_logs(tmp_path / "logs")
    shown = ""
    for name, arguments in (("command", ["logs"]), ("timeline_command", ["logs/hostile.jsonl"])):
        code = (
            "import argparse, asyncio, sys\n"
            f"from schedule_adapters.doctor import {name} as command\n"
            "parser = argparse.ArgumentParser()\n"
            "command.add_arguments(parser)\n"
            "parser.set_defaults(time_zone=None)\n"
            "sys.exit(asyncio.run(command.run(parser.parse_args())))\n"
        )
        child = pexpect.spawn(
            sys.executable,
            ["-c", code, *arguments],
            cwd=str(tmp_path),
            dimensions=(50, 80),
            encoding="utf-8",
            timeout=30,
            env={"TERM": "xterm-256color", "PATH": "", "PYTHONPATH": str(ROOT / "src")},
        )
        child.expect(pexpect.EOF)
        shown += child.before
    assert "\x1b[1;31m✗\x1b[0m \x1b[1mlogs/hostile.jsonl\x1b[0m" in shown
    assert "1 active" in shown
    assert not re.search("[\x07\u202e]", shown)
    assert "\x1b[31m<" not in shown
