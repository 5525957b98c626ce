"""A progress bar for a person who would otherwise wonder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PATIENCE_S: Final = 0.8
"""Shorter work shows no bar."""


@contextmanager
def reading_progress(
    console: "Console | None", total: int, *, patience_s: float = PATIENCE_S
) -> Iterator[Callable[[int], None]]:
    """Give a function that is told of bytes read; it shows a bar once that takes long.

    Args:
        console: where to; nowhere if it is None or no terminal.
        total: how many bytes there are, 0 if nobody knows.
        patience_s: seconds before the bar appears.
    """
    if console is None or not console.is_terminal:
        yield lambda _: None
        return
    progress = _progress(console)
    task = progress.add_task("reading", total=total or None)
    started = monotonic()
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        if not progress.live.is_started and monotonic() - started >= patience_s:
            progress.start()
        progress.update(task, completed=done)

    try:
        yield advance
    finally:
        progress.stop()


def _progress(console: "Console") -> "Progress":
    from rich.progress import (  # noqa: PLC0415 - an extra
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
