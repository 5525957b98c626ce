"""Jobs of many sessions on one thread: whatever waits when it is free is done together.

The rule: a job goes into a round that began after it was handed in, never into an earlier one.
So the commit under way takes nothing more along, and its end starts the next one.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from threading import Lock
from typing import Generic, TypeVar

from attrs import frozen

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


@frozen
class _Waiting(Generic[_Job, _Result]):
    """A job, and the end that somebody awaits on a loop."""

    job: _Job
    done: asyncio.Future[_Result]


class Rounds(Generic[_Job, _Result]):
    """The queue before a thread, which does in rounds what is asked of it."""

    def __init__(
        self,
        thread: Executor,
        work: Callable[[Sequence[_Job]], Sequence[_Result | Exception]],
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the work of the thread.

        Args:
            thread: runs one thing at a time.
            work: does jobs together; gives for each its result or what was wrong with it, or
                raises what was wrong with all of them.
            rest: what there is to do while nothing waits.
        """
        self._thread = thread
        self._work = work
        self._rest = rest
        self._lock = Lock()
        self._waiting: list[_Waiting[_Job, _Result]] = []
        self._running = False
        self._ended = False

    def submit(self, job: _Job) -> asyncio.Future[_Result]:
        """Hand in a job; gives its end, on the running loop.

        Raises:
            RuntimeError: `end` was called.
        """
        done: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._ended:
                raise RuntimeError("no job is taken any more")
            if not self._running:
                self._thread.submit(self._run)
                self._running = True
            self._waiting.append(_Waiting(job, done))
        return done

    def end(self) -> None:
        """Take no job any more; those that wait are still done."""
        with self._lock:
            self._ended = True

    def _run(self) -> None:
        while True:
            while group := self._take():
                _settle(group, self._outcomes([waiting.job for waiting in group]))
            self._rest()
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return

    def _take(self) -> list[_Waiting[_Job, _Result]]:
        with self._lock:
            group, self._waiting = self._waiting, []
        return group

    def _outcomes(self, jobs: list[_Job]) -> Sequence[_Result | Exception]:
        try:
            return self._work(jobs)
        except Exception as error:  # noqa: BLE001 - each who waits is told, whatever it is
            return [error] * len(jobs)


def _settle(
    group: Sequence[_Waiting[_Job, _Result]], outcomes: Sequence[_Result | Exception]
) -> None:
    """Tell all who wait, with one call to each of their loops."""
    by_loop = defaultdict(list)
    for waiting, outcome in zip(group, outcomes, strict=True):
        by_loop[waiting.done.get_loop()].append((waiting.done, outcome))
    for loop, ends in by_loop.items():
        with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits there any more
            loop.call_soon_threadsafe(_end, ends)


def _end(ends: Sequence[tuple[asyncio.Future[_Result], _Result | Exception]]) -> None:
    for done, outcome in ends:
        if done.done():
            continue
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
