"""The clocks of a simulated world: one that only runs, and walls that step."""

import math
from typing import Final

from schedule_core.instants import SECOND_MS, Instant

START: Final = 1_795_996_800_000
"""What every wall clock shows first, milliseconds since the epoch."""


class Timeline:
    """The time that all loops of a world share; it passes only when all of them wait.

    Attributes:
        elapsed_s: seconds since the world began, on the monotonic clock.
    """

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def advance(self, to_s: float) -> None:
        """Let time pass up to a moment; one that is over already changes nothing."""
        if to_s > self.elapsed_s:
            # A step past it: far from zero the loop's own tolerance is lost in rounding.
            self.elapsed_s = math.nextafter(to_s, math.inf)


class WallClock:
    """The wall clock of one machine.

    Attributes:
        stepped_at_s: when it last stepped or slept, on the monotonic clock.
        slept_ms: how long the machine was suspended in all.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._offset = START
        self.stepped_at_s = 0.0
        self.slept_ms = 0

    def now(self) -> Instant:
        """Whole milliseconds since the epoch."""
        return Instant(self._offset + int(self._timeline.elapsed_s * SECOND_MS))

    def step(self, milliseconds: int) -> None:
        """Set the clock forward, or back; the loops' clock does not notice."""
        self._offset += milliseconds
        self.stepped_at_s = self._timeline.elapsed_s

    def sleep(self, milliseconds: int) -> None:
        """Suspend the machine: the wall clock goes on, the monotonic one stands still."""
        self.step(milliseconds)
        self.slept_ms += milliseconds
