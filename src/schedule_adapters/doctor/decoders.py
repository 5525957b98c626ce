"""How lines may be read fast, as the scan sees it; and how they are read without that."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol


class Envelope(Protocol):
    """A line that is one event, apart from what its `data` means."""

    type: str
    seq: int
    time: int
    data: Any
    ignorable: bool


class Decoder(Protocol):
    """A fast way to read what is plain; None always means: let the exact readers judge."""

    def read_block(self, block: bytes) -> Sequence[tuple[Envelope]] | None:
        """Read whole lines, each to a tuple of one."""
        ...

    def read_line(self, line: bytes) -> Envelope | None:
        """Read one line, without its newline."""
        ...

    def read_changes(self, envelopes: Sequence[Envelope]) -> bool:
        """Put a change in the place of the `data` of each of these schedule events.

        Tells whether all could be read; None takes the place of the others. What is put there
        has what the core's changes and records have, and may be of another make that is
        cheaper to come by: `operation` and `kind` tell them apart, and not their class.
        """
        ...


class ExactDecoder:
    """The decoder that leaves everything to the exact readers."""

    def read_block(self, block: bytes) -> None:
        """Leave it."""

    def read_line(self, line: bytes) -> None:
        """Leave it."""

    def read_changes(self, envelopes: Sequence[Envelope]) -> bool:
        """There are none: no block was read."""
        return not envelopes


def fastest_decoder() -> Decoder:
    """The fast decoder if its package is installed; the answer is the same without it."""
    try:
        decoder: Decoder = import_module("schedule_adapters.doctor.fast_lines")
    except ImportError:
        return ExactDecoder()
    return decoder
