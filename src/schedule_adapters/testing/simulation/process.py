"""One process of a simulated machine: born, run, and either over or dead."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

from schedule_adapters.testing.simulation.loop import ProcessDied, SimulationLoop
from schedule_adapters.testing.simulation.oracles import BROKEN, Oracle, Violation
from schedule_adapters.testing.simulation.timeline import Timeline


class Process:
    """A loop and its main task; what goes wrong in any of its tasks ends the run.

    Attributes:
        died: it was ended by a crash.
    """

    def __init__(
        self,
        timeline: Timeline,
        main: Callable[[], Coroutine[Any, Any, None]],
        *,
        at_step: Callable[[], bool],
        work_takes_s: Callable[[], float],
    ) -> None:
        self.loop = SimulationLoop(timeline, at_step=at_step, work_takes_s=work_takes_s)
        self.loop.set_exception_handler(self._hear)
        self.loop.set_task_factory(self._make_task)  # type: ignore[arg-type] # the stubs differ
        self.died = False
        self._accident: BaseException | None = None
        self._main = self.loop.create_task(main())
        self._main.add_done_callback(lambda _: None if self.loop.is_dead else self.loop.stop())

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end, in order or not."""
        return self.died or self._main.done()

    @property
    def is_stuck(self) -> bool:
        """Whether it waits, and nothing will ever wake it."""
        return not self.is_over and self.loop.wakes_at_s == math.inf

    def run_until_waiting(self) -> None:
        """Run it on.

        Raises:
            Violation: something in it broke a rule.
        """
        try:
            self.loop.run_until_waiting()
        except ProcessDied:
            self.died = True
        self._raise_accident()
        if self._main.done() and not self.died:
            self._end()

    def bury(self) -> None:
        """Clear away what is left of it; nothing of that has an effect."""
        if not self.loop.is_closed():
            self.loop.bury()
            BROKEN.clear()  # by the dead, if at all

    def _end(self) -> None:
        left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        self._main.result()
        if left:
            raise Violation(Oracle.NO_ACCIDENT, f"left behind: {left}")
        self.loop.bury()

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **options)
        task.add_done_callback(self._look_at)
        return task

    def _look_at(self, task: "asyncio.Task[Any]") -> None:
        """No assertion is lost in a task that nobody awaits, or in a group that gathers."""
        if not task.cancelled() and isinstance(task.exception(), AssertionError):
            self._note(task.exception())

    def _hear(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, AssertionError) or "never retrieved" not in context["message"]:
            self._note(error or Violation(Oracle.NO_ACCIDENT, context["message"]))

    def _note(self, error: BaseException | None) -> None:
        if self._accident is None and not self.loop.is_dead:
            self._accident = error
            self.loop.stop()

    def _raise_accident(self) -> None:
        if BROKEN:
            raise BROKEN[0]
        if self._accident is not None:
            raise self._accident
