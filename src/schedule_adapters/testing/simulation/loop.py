"""One process of a simulated world: an event loop without a thread, a socket or a real wait."""

import asyncio
import math
import selectors
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from schedule_adapters.testing.simulation.timeline import Timeline

MOST_STEPS: Final = 60_000
"""Steps of one loop before it counts as running in circles; a long run takes a tenth."""
_MOST_LAST_STEPS: Final = 5_000
_BURIAL_ROUNDS: Final = 20


class ProcessDied(SystemExit):
    """Nothing in this process runs on from here; asyncio lets it through everywhere."""


class RunsInCircles(AssertionError):  # noqa: N818 - what it does
    """A loop took more steps than any sane run does."""


class _Poll(selectors.BaseSelector):
    """Asks the loop's owner instead of the system."""

    def __init__(self, poll: Callable[[float | None], None]) -> None:
        self._poll = poll
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._poll(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class SimulationLoop(asyncio.SelectorEventLoop):
    """An event loop that runs until it waits, and says until when.

    Work for the executor runs here, between two waits of its own: deterministic, and in
    one piece, but neither at once nor heard of at once.

    Args:
        at_step: called between two steps; True makes the loop stand still there.
        work_takes_s: how long the next wait of some work is.

    Attributes:
        wakes_at_s: the next moment at which it has something to do; infinite if there is none.
        steps: how often it looked up.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        at_step: Callable[[], bool] = lambda: False,
        work_takes_s: Callable[[], float] = lambda: 0.001,
    ) -> None:
        self._timeline = timeline
        self._at_step = at_step
        self._work_takes_s = work_takes_s
        self._own_time_s: float | None = None  # set once the process is dead
        self.wakes_at_s = 0.0
        self.steps = 0
        self._last_step = MOST_STEPS
        super().__init__(_Poll(self._poll))

    @property
    def is_dead(self) -> bool:
        """Whether this process has died; what it still does is no effect."""
        return self._own_time_s is not None

    def time(self) -> float:
        """Seconds since the world began; a dead process has a time of its own."""
        return self._timeline.elapsed_s if self._own_time_s is None else self._own_time_s

    def run_until_waiting(self) -> None:
        """Run what is ready now, and what follows from it.

        Raises:
            ProcessDied: in the middle of it.
            RunsInCircles: it never waits.
        """
        self.wakes_at_s = math.inf
        self.run_forever()

    def bury(self) -> None:
        """End a dead process: everything in it is cancelled, and none of that has an effect."""
        self._own_time_s = self.time()
        self._last_step = self.steps + _MOST_LAST_STEPS
        for _ in range(_BURIAL_ROUNDS):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.run_until_complete(asyncio.wait(tasks, timeout=60))
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()

    def run_in_executor(  # type: ignore[override] # the stubs know only what threads need
        self, _executor: object, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Do the work later, and tell of it later still."""
        future: asyncio.Future[Any] = self.create_future()
        if self.is_dead:
            future.set_exception(OSError("the process is dead"))
        else:
            self.call_later(self._work_takes_s(), self._work, future, partial(func, *args))
        return future

    def _work(self, future: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
        if future.cancelled() or self.is_dead:
            return
        try:
            tell: Callable[[], None] = partial(future.set_result, work())
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
            tell = partial(future.set_exception, error)
        self.call_later(self._work_takes_s(), lambda: None if future.done() else tell())

    def _poll(self, timeout: float | None) -> None:
        self.steps += 1
        if self.steps > self._last_step:
            raise RunsInCircles("the loop never comes to rest")
        if self._own_time_s is not None:
            assert timeout is not None, "a dead process waits for nothing from outside"
            self._own_time_s = math.nextafter(self._own_time_s + timeout, math.inf)
        elif timeout == 0:
            if self._at_step():
                self.wakes_at_s = self.time()
                self.stop()
        else:
            self.wakes_at_s = math.inf if timeout is None else self.time() + timeout
            self.stop()
