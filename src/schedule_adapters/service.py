"""Which agents get reminders: live roots announced to it, once each, and nobody else."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from schedule_adapters.facts import ReportHook, log_fact
from schedule_adapters.live import LiveLog, LiveOptions, LiveSchedule, SystemClock
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import SessionTool
from schedule_core import AgentPort, Clock


class CompositionError(Exception):
    """The program is put together wrongly; it must not start like this."""


class ToolScope(Protocol):
    """Where the tools of one agent live."""

    def register_tool(self, tool: SessionTool) -> Callable[[], None]:
        """Add one tool; gives the function that takes it away again.

        Raises:
            Exception: there is a tool of that name already; nothing was added.
        """
        ...


class ScheduleService:
    """Serves agents: tools, an owner, and their orderly end (`spec/package.md`, composition).

    An agent that already lived when the service was made, or that is not announced, is not
    adopted; sub-agents are passed over. All of them wait on one `timers`: the one it is
    given, or one that it makes on the loop where it serves the first.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        timers: WallTimers | None = None,
        options: LiveOptions | None = None,
        report: ReportHook = log_fact,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._options = options
        self._report = report
        self._served: dict[int, tuple[AgentPort, LiveSchedule, Callable[[], None]]] = {}
        self._stopping = False

    def serve(
        self, agent: AgentPort, log: LiveLog, scope: ToolScope, *, name: str = "session"
    ) -> LiveSchedule | None:
        """Give a newly created agent its tools and its owner; None if it gets none.

        It gets none when it is not a live root, is served already, or the service stops.
        Tools are registered first, all or none; then the owner starts.

        Raises:
            CompositionError: the log has no barrier: reminders would not be durable.
            ValueError: the timers are another loop's, or look at another clock.
            Exception: a tool could not be registered; nothing was started.
        """
        if not callable(getattr(log, "barrier", None)):
            raise CompositionError("the session log has no persistence barrier")
        if self._stopping or not agent.is_root or not agent.is_live or id(agent) in self._served:
            return None
        if self._timers is None:
            self._timers = WallTimers(self._clock or SystemClock())
        live = LiveSchedule(
            agent,
            log,
            name=name,
            clock=self._clock,
            timers=self._timers,
            options=self._options,
            report=self._report,
        )
        remove_tools = _register_all(scope, live.tools())
        self._served[id(agent)] = (agent, live, remove_tools)
        live.start()
        return live

    async def release(self, agent: AgentPort) -> None:
        """Take the tools away and stop the owner of one agent; its reminders stay in the log."""
        entry = self._served.pop(id(agent), None)
        if entry is not None:
            _, live, remove_tools = entry
            try:
                remove_tools()
            finally:
                await live.close()

    async def close(self) -> None:
        """Stop serving; all agents are released together, even if another one's release fails.

        Raises:
            ExceptionGroup: what failed on the way.
        """
        self._stopping = True
        results = await asyncio.gather(
            *(self.release(agent) for agent, _, _ in self._served.values()),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, Exception)]
        if failures:
            raise ExceptionGroup("some agents could not be released", failures)


def _register_all(scope: ToolScope, tools: tuple[SessionTool, ...]) -> Callable[[], None]:
    """Add the tools, all or none; gives the function that removes them in reverse order."""
    # An exit stack is made only to leave: each agent would keep one for as long as it lives.
    removals: list[Callable[[], None]] = []
    try:
        for tool in tools:
            removals.append(scope.register_tool(tool))  # noqa: PERF401 - kept when one fails
    except BaseException:
        _run_in_reverse(removals)
        raise
    return partial(_run_in_reverse, removals)


def _run_in_reverse(removals: list[Callable[[], None]]) -> None:
    """Run them all, the last one first, whatever becomes of another; raises what one raised."""
    with ExitStack() as leaving:
        for remove in removals:
            leaving.callback(remove)
