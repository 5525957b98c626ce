"""How lines may be read fast, as the scan sees it; and how they are read without that."""

from importlib import import_module
from typing import Final, Protocol

from schedule_adapters.events import CHECKPOINT, INPUT_QUEUED
from schedule_core.instants import Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE
from schedule_core.records import ScheduleChange, ScheduleCreateChange, ScheduleId

WATCHED: Final = frozenset({SCHEDULE_EVENT_TYPE, CHECKPOINT.name, INPUT_QUEUED.name})
"""The types of the events that matter to reminders, or to what is known durable."""

ChangeRow = tuple[int, int, str, ScheduleId, Instant, int | None, str]
"""A schedule event: seq, time, operation, id; of a create also its target, its delay in seconds
(None for an absolute one) and its prompt, which are 0, None and "" for the other changes. A tuple,
for a log may hold millions of them.
"""
Block = tuple[int, list[ChangeRow], list[int]]
"""What a block of lines holds: how many lines, its plain schedule events in order, and the
indices of the lines that matter beside those and that only the exact readers can judge.
"""


_NO_TARGET: Final = Instant(0)


def change_row(change: ScheduleChange, seq: int, time: int) -> ChangeRow:
    """The row of an event that the exact readers read."""
    if not isinstance(change, ScheduleCreateChange):
        return seq, time, change.operation, change.id, _NO_TARGET, None, ""
    record = change.schedule
    delay = record.after_seconds if record.kind == "after" else None
    return seq, time, "create", record.id, record.scheduled_at, delay, record.prompt


class Decoder(Protocol):
    """A fast way to read what is plain; whatever it refuses is for the exact readers to judge."""

    def read_block(self, block: bytes, first: int) -> Block | None:
        """Read whole lines; None unless each is one event, numbered from `first` on."""
        ...

    def read_line(self, line: bytes, seq: int) -> bool:
        """Tell whether a line without its newline is an event of that number, and no more.

        One that matters to reminders is more: then the answer is no.
        """
        ...


class ExactDecoder:
    """The decoder that leaves everything to the exact readers."""

    def read_block(self, block: bytes, first: int) -> None:
        """Leave it."""

    def read_line(self, line: bytes, seq: int) -> bool:  # noqa: ARG002 - it looks at neither
        """Leave it."""
        return False


_FASTEST_FIRST: Final = ("native_lines", "fast_lines")


def fastest_decoder() -> Decoder:
    """The fastest decoder that is installed here; the answer is the same with any."""
    for name in _FASTEST_FIRST:
        try:
            decoder: Decoder = import_module(f"schedule_adapters.doctor.{name}")
        except ImportError:
            continue
        return decoder
    return ExactDecoder()
