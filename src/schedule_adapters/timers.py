"""One look at the wall clock for everybody who waits for it.

A loop's own timers count on a clock that may stand still while the machine sleeps, and the
wall clock may step; so whoever waits for a time of day looks again at least once a minute.
A hundred thousand sessions that each do so are two thousand looks a second. Here they share
a heap, and one timer of the loop: the earliest of what any of them would need.

Nothing here is global. Whoever puts a program together makes one `WallTimers` for each loop
and clock, and passes it on.
"""

import asyncio
import contextvars
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NewType

from schedule_core import Clock, Instant

SEGMENT_S: Final = 60.0
"""Longest wait between two looks at the wall clock (design decision 14).

A reminder is late by at most this much after the wall clock stepped, or the loop's stood still.
"""

SLICE: Final = 32
"""How many due calls one pass of the loop makes.

What a call sets going needs further passes; calls that come in slices flow through those
side by side, in order, and between two slices whatever else the loop does has its turn.
"""

TimerId = NewType("TimerId", int)
"""A name for one wait; never used again."""


class WallTimers:
    """Calls back once the wall clock reaches a time, never earlier; for the loop it is made on.

    Attributes:
        clock: the wall clock that is looked at.
        loop: the loop on which everything here happens.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # a look belongs to none of those who wait
        self._ids = count(1)
        self._calls: dict[TimerId, Callable[[Instant], None]] = {}  # of all that wait
        # The earliest first, and of equal ones the one set first. One that was cancelled
        # is in `_calls` no more, and stays until it comes up or too many have gathered.
        self._heap: list[tuple[Instant, TimerId]] = []
        self._look_ahead: asyncio.TimerHandle | None = None  # set while anybody waits

    def call_at(self, at: Instant, call: Callable[[Instant], None]) -> TimerId:
        """Call `call(at)` once, as soon as the wall clock shows `at` or later.

        Also if it does already: soon then, but never from in here. A call that raises is
        the loop's to report, and costs no other its own.

        Args:
            at: milliseconds since the epoch.
            call: called on the loop, outside the context of whoever asked.
        """
        timer_id = TimerId(next(self._ids))
        self._calls[timer_id] = call
        heappush(self._heap, (at, timer_id))
        self._look_by(at, self._read_clock())
        return timer_id

    def cancel(self, timer_id: TimerId) -> None:
        """Forget one wait; nothing happens if it is over or was cancelled before."""
        self._calls.pop(timer_id, None)
        if len(self._heap) > 2 * len(self._calls) + SLICE:
            self._heap = [entry for entry in self._heap if entry[1] in self._calls]
            heapify(self._heap)
        if not self._calls and self._look_ahead is not None:
            self._look_ahead.cancel()
            self._look_ahead = None

    def _look(self) -> None:
        """Make the next slice of due calls, each in a callback of its own, and look again."""
        self._look_ahead = None
        now = self._read_clock()
        made = 0
        while self._heap and made < SLICE:
            at, timer_id = self._heap[0]
            if timer_id in self._calls:
                if now is None or at > now:
                    break
                self.loop.call_soon(self._call, timer_id, at)  # in a copy of the look's context
                made += 1
            heappop(self._heap)
        if self._heap:
            self._look_by(self._heap[0][0], now)

    def _call(self, timer_id: TimerId, at: Instant) -> None:
        """Make one call, unless it was cancelled since the look; or wait on if it is early now."""
        if timer_id not in self._calls:
            return
        now = self._read_clock()
        if now is None or at > now:  # the clock was set back since the look
            heappush(self._heap, (at, timer_id))
            self._look_by(at, now)
        else:
            self._calls.pop(timer_id)(at)

    def _look_by(self, at: Instant, now: Instant | None) -> None:
        """Look when `at` should have come, or after a segment; sooner if that is arranged."""
        # A clock that cannot be read now is read again after a segment.
        wait_s = SEGMENT_S if now is None else min((at - now) / 1_000, SEGMENT_S)
        when = self.loop.time() + wait_s
        if self._look_ahead is not None:
            if self._look_ahead.when() <= when:
                return
            self._look_ahead.cancel()
        self._look_ahead = self.loop.call_at(when, self._look, context=self._context)

    def _read_clock(self) -> Instant | None:
        try:
            return self.clock.now()
        except Exception:  # noqa: BLE001 - a foreign clock; its owner's pass reports it
            return None
