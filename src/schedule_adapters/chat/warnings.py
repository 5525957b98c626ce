"""What the program warns of, as lines of the conversation at whose terminal it runs."""

import logging
from collections.abc import Callable
from contextlib import suppress

from schedule_adapters.chat.transcript import Kind


class _ShownWarnings(logging.Handler):
    def __init__(self, show: Callable[[Kind, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show one warning; who warns is not to fail because nobody can be told."""
        with suppress(OSError):
            self._show("error", record.getMessage())


def show_warnings(show: Callable[[Kind, str], None]) -> None:
    """Show our own warnings from now on, and print none anywhere else."""
    logger = logging.getLogger("schedule_adapters")
    logger.propagate = False
    logger.addHandler(_ShownWarnings(show))
