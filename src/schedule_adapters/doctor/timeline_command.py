"""`session-schedule timeline`: the reminders of one log as a picture."""

import argparse
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from schedule_adapters.doctor.console import (
    consoles,
    count_argument,
    fail,
    instant_argument,
    interruptible,
    say,
    write_page,
)
from schedule_adapters.doctor.examine import NOT_A_LOG, counted_source
from schedule_adapters.doctor.progress import reading_progress
from schedule_adapters.doctor.sources import Target, UnreadableError, find_targets, reason_of
from schedule_adapters.doctor.timeline import DEFAULT_LANES, Timeline, read_timeline
from schedule_adapters.doctor.timeline_svg import timeline_svg
from schedule_adapters.doctor.timeline_text import timeline_lines
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import StoreError
from schedule_adapters.stores.log_format import BadLine
from schedule_core.instants import Instant

_MAX_LANES: Final = 1_000
_PLAIN_WIDTH: Final = 100
"""Where nobody says how wide a line may be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to the parser, apart from `--time-zone`."""
    parser.add_argument("log", metavar="LOG", help="a session log, - for standard input, or a URL")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="write the picture for a browser instead"
    )
    parser.add_argument(
        "--last",
        type=partial(count_argument, largest=_MAX_LANES),
        default=DEFAULT_LANES,
        metavar="N",
        help="of many reminders show N: active ones, then those that ended last "
        f"(default: {DEFAULT_LANES})",
    )
    parser.add_argument(
        "--now",
        type=instant_argument,
        metavar="INSTANT",
        help="the moment to draw it for, such as 2030-03-01T09:00:00.000Z (default: now)",
    )


async def run(arguments: argparse.Namespace) -> int:
    """Run the command; gives its exit code."""
    now = arguments.now if arguments.now is not None else SystemClock().now()
    with interruptible():
        try:
            timeline = _read(arguments.log, arguments.last)
            if arguments.svg is None:
                _draw(timeline, arguments.time_zone, now)
            else:
                write_page(arguments.svg, timeline_svg(timeline, arguments.time_zone, now))
        except UnreadableError as error:
            return fail(error)
    return 0


def _read(path: str, limit: int) -> Timeline:
    [target, *others] = find_targets([path])
    if not isinstance(target, Target):
        raise UnreadableError(f"{path}: {target.reason}")
    if others:
        raise UnreadableError(f"{path}: name one of the {len(others) + 1} logs in this folder")
    try:
        _, side = consoles()
        with reading_progress(side, target.size) as on_read, target.open() as source:
            return read_timeline(counted_source(source, on_read), limit=limit)
    except BadLine:
        reason = NOT_A_LOG
    except StoreError as error:
        reason = error.message
    except Exception as error:  # noqa: BLE001 - the storage behind a URL is foreign code
        reason = reason_of(error)
    raise UnreadableError(f"{path}: {reason}")


def _draw(timeline: Timeline, zone: str | None, now: Instant) -> None:
    console, _ = consoles()
    if console is None or not console.is_terminal:
        width = shutil.get_terminal_size((_PLAIN_WIDTH, 0)).columns
        for line in timeline_lines(timeline, zone, now, width):
            say("".join(text for text, _ in line).rstrip())
        return
    from rich.text import Text  # noqa: PLC0415 - an extra

    for line in timeline_lines(timeline, zone, now, console.width):
        console.print(Text.assemble(*line), no_wrap=True, overflow="crop")
