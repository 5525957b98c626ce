"""What the doctor's commands share at the command line."""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schedule_adapters.doctor.sources import UnreadableError, reason_of
from schedule_adapters.wording import printable
from schedule_core.instants import Instant, parse_instant

if TYPE_CHECKING:
    from rich.console import Console

FAILED: Final = 2
"""The exit code of a command that could not read what it was asked to read."""


def say(line: str) -> None:
    """Write one line to standard output."""
    sys.stdout.write(f"{line}\n")


def fail(error: Exception) -> int:
    """Write why a command failed, on one line; gives its exit code."""
    sys.stderr.write(f"session-schedule: {printable(str(error))}\n")
    return FAILED


def write_page(file: Path, content: str) -> None:
    """Write a file for a browser.

    Raises:
        UnreadableError: it cannot be written.
    """
    try:
        file.write_text(content, "utf-8", newline="\n")
    except OSError as error:
        raise UnreadableError(f"{file}: nothing was written: {reason_of(error)}") from error


def consoles() -> "tuple[Console, Console] | tuple[None, None]":
    """Standard output and standard error as rich writes them; None without rich."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra
    except ImportError:
        return None, None
    return Console(highlight=False), Console(stderr=True)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the work at once: a reading never gives the event loop a turn."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def instant_argument(text: str) -> Instant:
    """Read an instant for the parser of arguments."""
    try:
        return parse_instant(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is {error}") from error


def count_argument(text: str, largest: int) -> int:
    """Read a number from 1 to `largest` for the parser of arguments."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(largest)):
        number = int(text)
        if 1 <= number <= largest:
            return number
    raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a number from 1 to {largest}")
