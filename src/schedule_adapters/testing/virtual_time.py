"""Time that passes only when everything waits: hours of reminders in milliseconds of test."""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from schedule_core import Instant
from schedule_core.instants import SECOND_MS

_Result = TypeVar("_Result")


class _JumpingSelector(selectors.DefaultSelector):
    """Polls instead of waiting, and counts the wait as time that has passed."""

    elapsed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # only another thread or the outside can wake the loop: wait for it
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            # A step past it: far from zero the loop's own tolerance is lost in rounding.
            self.elapsed_s = math.nextafter(self.elapsed_s + timeout, math.inf)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer whenever nothing else is ready.

    Not for code that works in threads: their work takes no time here, so timers overtake it.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the loop was made, virtual."""
        return self._jumping.elapsed_s


class VirtualClock:
    """A wall clock that runs with a loop's virtual time and can be stepped either way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: int) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> Instant:
        """Whole milliseconds since the epoch."""
        return Instant(self._start + round(self._loop.time() * SECOND_MS))

    def step(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back; the loop's clock does not notice."""
        self._start += milliseconds


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[Any, Any, _Result]],
    *,
    start: int = 1_795_996_800_000,
) -> _Result:
    """Run `main` on a loop of its own with a virtual clock; gives what it returns.

    Args:
        main: gets the clock.
        start: what the wall clock shows first, milliseconds since the epoch.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main(VirtualClock(runner.get_loop(), start)))
