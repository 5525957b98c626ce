"""The asyncio shell around one owner: it performs the effects, and holds the only awaits.

Everything that decides is in `schedule_core.owner`. Whatever fails out here becomes one
input of the machine; foreign code is called only where its exceptions are caught.
"""

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

from attrs import field, frozen

from schedule_adapters.facts import (
    BarrierEnded,
    CallEnded,
    CameDue,
    LiveFact,
    ReportHook,
    call_ended,
    log_fact,
)
from schedule_adapters.sessions import StoreError
from schedule_adapters.timers import TimerId, WallTimers
from schedule_adapters.turn_driver import SessionTool
from schedule_core import (
    TOOLS,
    AgentBusy,
    AgentPort,
    Answer,
    Clock,
    Failed,
    Instant,
    Limits,
    LogFold,
    OwnerState,
    Persistence,
    Reading,
    Request,
    ScheduleInputError,
    ScheduleLogError,
    ScheduleOwner,
    Schedules,
    ScheduleView,
    SessionLog,
    Ticket,
    Tool,
    answer_json,
    drive,
    parse_request,
    view,
)
from schedule_core.signals import (
    Append,
    AppendFailed,
    AwaitBarrier,
    BarrierFailed,
    BarrierPassed,
    BecameIdle,
    Cancelled,
    ChangeAppended,
    ClaimPhase,
    Delayed,
    Effect,
    FollowUpQueued,
    FollowUpRefused,
    IdleWatchEnded,
    IdleWatchFailed,
    Input,
    PhaseBroken,
    PhaseBusy,
    PhaseClaimed,
    PhaseFailed,
    QueueFollowUp,
    Recompute,
    ReleasePhase,
    Reply,
    Report,
    Reset,
    SetTimer,
    Stopped,
    Submitted,
    TimerFired,
    WatchIdle,
)

_log = logging.getLogger("schedule_adapters")


@frozen
class SystemClock:
    """The machine's wall clock; there is one, so all of these are equal."""

    def now(self) -> Instant:
        """Whole milliseconds since the epoch."""
        return Instant(time.time_ns() // 1_000_000)


class LiveLog(SessionLog, Persistence, Protocol):
    """A session log and its barrier; every `schedule_adapters.sessions.Session` is one."""


@frozen
class LiveOptions:
    """How a live schedule behaves.

    Attributes:
        limits: bounds at the tools.
        barrier_timeout_s: a barrier that takes longer counts as failed; None: no bound.
        close_timeout_s: how long closing waits for a barrier under way.
        retry_s: after due work was put off, try again this much later; None, as in the
            published original: wait for activity (a call, a turn, a timer).
    """

    limits: Limits = field(factory=Limits)
    barrier_timeout_s: float | None = None
    close_timeout_s: float = 10.0
    retry_s: float | None = None


class LiveSchedule:
    """The reminders of one live agent in one session, on the agent's loop.

    Make it on that loop, `start` it once, `close` it once the agent is closed. Tool calls
    may come from any loop or thread; everything else is for the agent's loop only.

    Whoever makes many of them gives them one `timers`, and need not say the clock again;
    one that is made without waits by itself. Most of them only wait, most of the time:
    what each keeps then is small on purpose (`benchmarks/many_sessions.py` says how small).

    Raises:
        ValueError: the timers are another loop's, or look at another clock.
    """

    def __init__(  # noqa: PLR0913 - the four ports, a name and three choices
        self,
        agent: AgentPort,
        log: LiveLog,
        *,
        name: str = "session",
        clock: Clock | None = None,
        timers: WallTimers | None = None,
        options: LiveOptions | None = None,
        report: ReportHook = log_fact,
    ) -> None:
        self._agent = agent
        self._log = log
        self._name = name
        self._timers = _agree(clock, timers)
        self._clock = self._timers.clock
        self._options = options or _DEFAULTS
        self._report_fact = report
        self._loop = self._timers.loop
        self._context = contextvars.copy_context()  # due work belongs to no caller
        self._owner = ScheduleOwner(self._options.limits)
        self._fold = LogFold(log.seed_length)
        self._timer: TimerId | None = None  # where the owner's timer stands
        # Lists, because they hold next to nothing: an empty deque takes 760 bytes, a set 216.
        self._signals: list[Input] = []
        self._driving = False  # an input is being fed; others wait in _signals
        self._last_ticket = Ticket(0)
        self._calls: dict[Ticket, asyncio.Future[Answer]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._watch: asyncio.Task[None] | None = None  # set while an idle watch is out
        self._released: asyncio.Future[None] | None = None  # set while the phase is ours
        self._retry: asyncio.TimerHandle | None = None
        self._subscriptions: tuple[Callable[[], None], ...] = ()
        self._closing: asyncio.Task[None] | None = None

    # For the host.

    def start(self) -> None:
        """Listen to the agent and look for due work: one barrier, whatever the log holds."""
        self._subscriptions = (
            self._agent.on_idle(self._became_idle),
            self._agent.on_close(self._stop),
        )
        self._feed(Recompute())

    @property
    def state(self) -> OwnerState:
        """What the owner is doing, and why nothing is delivered if nothing is."""
        return self._owner.state

    def views(self) -> tuple[ScheduleView, ...]:
        """The active reminders in the live log now, durable or not; for display only.

        Raises:
            ScheduleLogError: the log is corrupt.
        """
        now = self._clock.now()
        return tuple(view(record, now) for record in self._fold.catch_up(self._log).active)

    def recompute(self) -> None:
        """Ask for one pass of due work."""
        self._feed(Recompute())

    def reset(self) -> None:
        """Let a faulted owner try again.

        What this process queued already is not queued twice.
        """
        self._feed(Reset())

    async def request(self, request: Request) -> Answer:
        """Submit one request and await its answer; from any loop or thread.

        Cancelling the wait withdraws a request that has not appended anything yet.
        """
        if asyncio.get_running_loop() is self._loop:
            return await self._request(request)
        elsewhere = asyncio.run_coroutine_threadsafe(self._request(request), self._loop)
        return await asyncio.wrap_future(elsewhere)

    async def call_tool(self, name: str, arguments: object) -> object:
        """Run one tool call as the model made it; refusals are values too.

        Raises:
            KeyError: there is no such tool.
        """
        tool = _TOOLS_BY_NAME[name]
        try:
            request = parse_request(tool.name, arguments, self._options.limits)
        except ScheduleInputError as error:
            self._report(CallEnded(tool.name.removeprefix("schedule_"), error.code, 0.0))
            return answer_json(Failed(error.code, error.message))
        return answer_json(await self.request(request))

    def tools(self) -> tuple[SessionTool, ...]:
        """The three tools, bound to this session."""
        call = self.call_tool  # one bound method for all of them
        return tuple(
            SessionTool(tool.name, tool.description, tool.parameters, partial(call, tool.name))
            for tool in TOOLS
        )

    async def close(self) -> None:
        """Stop, and await what is under way, for a bounded time; writes nothing."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _request(self, request: Request) -> Answer:
        ticket = self._last_ticket = Ticket(self._last_ticket + 1)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._calls[ticket] = answer
        begun = self._loop.time()
        self._feed(Submitted(ticket, request))
        try:
            given = await answer
        except asyncio.CancelledError:
            self._calls.pop(ticket, None)
            self._feed(Cancelled(ticket))
            raise
        # In the caller's context, so that a trace shows it inside what the caller does.
        self._report(call_ended(request, given, self._loop.time() - begun))
        return given

    async def _close(self) -> None:
        self._stop()
        for unsubscribe in self._subscriptions:
            unsubscribe()
        if self._retry is not None:
            self._retry.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=self._options.close_timeout_s)
        for task in late:
            _log.warning("%s: closed without waiting for a barrier any longer", self._name)
            task.cancel()

    # The driver: one input at a time, each followed by all its consequences.

    def _feed(self, signal: Input) -> None:
        if not self._agent.is_live:
            self._signals.append(Stopped())
        self._signals.append(signal)
        if self._driving:
            return
        self._driving = True
        try:
            while self._signals:
                drive(self._owner, self._signals.pop(0), self._perform)
        finally:
            self._driving = False

    def _perform(self, effect: Effect) -> Input | None:  # noqa: C901 - one case per effect
        match effect:
            case Append(change):
                return self._attempt(lambda: self._log.append_change(change), _APPENDED)
            case QueueFollowUp(message):
                return self._attempt(lambda: self._agent.followup(message), _QUEUED)
            case ClaimPhase():
                return self._claim()
            case AwaitBarrier():
                self._spawn(self._barrier())
            case ReleasePhase():
                if self._released is not None and not self._released.done():
                    self._released.set_result(None)
            case WatchIdle():
                self._watch = self._spawn(self._watch_idle())
            case SetTimer(at):
                self._set_timer(at)
            case Reply(ticket, answer):
                waiting = self._calls.pop(ticket, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            case Report(fact):
                self._report(fact)
        return None

    def _attempt(self, effect: Callable[[], None], results: tuple[Input, Input]) -> Input:
        done, failed = results
        try:
            effect()
        except Exception as error:
            self._warn(type(failed).__name__, error)
            return failed
        return done

    def _claim(self) -> Input | None:
        try:
            phase = self._agent.run_maintenance(self._in_phase)
        except AgentBusy:
            return PhaseBusy()
        except Exception as error:
            self._warn("the claim failed", error)
            return PhaseFailed()
        self._spawn(self._await_phase(phase))
        return None

    def _set_timer(self, at: Instant | None) -> None:
        if self._timer is not None:
            self._timers.cancel(self._timer)
        self._timer = None if at is None else self._timers.call_at(at, self._timer_fired)

    def _report(self, fact: LiveFact) -> None:
        try:
            self._report_fact(self._name, fact)
        except Exception as error:
            self._warn("the report hook failed", error)
        if isinstance(fact, Delayed) and self._options.retry_s is not None:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = self._loop.call_later(self._options.retry_s, self.recompute)

    # What is awaited.

    async def _barrier(self) -> None:
        begun = self._loop.time()
        try:
            async with asyncio.timeout(self._options.barrier_timeout_s):
                await self._log.barrier()
        except asyncio.CancelledError:  # by a closing store, or by our own close
            self._feed(BarrierFailed())
            if _being_cancelled():
                raise
        except Exception as error:
            self._warn("the barrier failed", error)
            self._report(BarrierEnded(passed=False, seconds=self._loop.time() - begun))
            self._feed(BarrierFailed())
        else:
            self._report(BarrierEnded(passed=True, seconds=self._loop.time() - begun))
            self._feed(BarrierPassed(self._read()))

    async def _in_phase(self) -> None:
        self._released = self._loop.create_future()
        self._feed(PhaseClaimed(self._read_in_phase()))
        # Done already, unless the agent ran this inside the claim itself.
        await self._released

    async def _await_phase(self, phase: Awaitable[None]) -> None:
        try:
            await phase
        except asyncio.CancelledError:
            self._feed(PhaseBroken())
            if _being_cancelled():
                raise
        except Exception as error:
            self._warn("the claimed phase failed", error)
            self._feed(PhaseBroken())
        finally:
            self._released = None

    async def _watch_idle(self) -> None:
        try:
            await self._agent.when_idle()
        except asyncio.CancelledError:
            self._feed(IdleWatchFailed())
            if _being_cancelled():
                raise
        except Exception as error:
            self._warn("the idle watch failed", error)
            self._feed(IdleWatchFailed())
        else:
            self._feed(IdleWatchEnded())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        return task

    # What is read.

    def _read(self) -> Reading:
        return Reading(self._read_clock(), self._read_log())

    def _read_in_phase(self) -> Reading:
        reading = self._read()
        if not isinstance(reading.schedules, Schedules) or reading.now is None:
            return reading
        admitted = frozenset(
            record.id
            for record in reading.schedules.active
            if record.scheduled_at <= reading.now and self._agent.has_admitted(record.id)
        )
        return Reading(reading.now, reading.schedules, admitted)

    def _read_clock(self) -> Instant | None:
        try:
            return self._clock.now()
        except Exception as error:
            self._warn("the clock could not be read", error)
            return None

    def _read_log(self) -> Schedules | ScheduleLogError | None:
        try:
            return self._fold.catch_up(self._log)
        except ScheduleLogError as error:
            return error
        except Exception as error:
            self._warn("the log could not be read", error)
            return None

    # What is heard.

    def _timer_fired(self, at: Instant) -> None:
        self._timer = None
        self._report(CameDue(at))
        self._feed(TimerFired(at))

    def _stop(self) -> None:
        self._feed(Stopped())

    def _became_idle(self) -> None:
        readable = isinstance(self._read_log(), Schedules)
        self._feed(BecameIdle(self._fold.has_schedule_events or not readable))

    def _warn(self, what: str, error: Exception) -> None:
        # A store's error says where it failed; a stranger's text might hold a prompt.
        why = str(error) if isinstance(error, StoreError) else type(error).__name__
        _log.warning("%s: %s: %s", self._name, what, why)


_DEFAULTS: Final = LiveOptions()
_APPENDED: Final = (ChangeAppended(), AppendFailed())
_QUEUED: Final = (FollowUpQueued(), FollowUpRefused())
_TOOLS_BY_NAME: Final[dict[str, Tool]] = {tool.name: tool for tool in TOOLS}


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _agree(clock: Clock | None, timers: WallTimers | None) -> WallTimers:
    """The timers of one schedule, which say its clock and its loop as well."""
    if timers is None:
        return WallTimers(clock or SystemClock())
    if timers.loop is not asyncio.get_running_loop():
        raise ValueError("the timers belong to another loop; make them on the agent's")
    if clock is not None and clock != timers.clock:
        raise ValueError("the timers look at another clock; leave the clock to them")
    return timers
