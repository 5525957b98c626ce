"""The owner of one session's reminders: every rule of order, and no effect.

A machine without I/O: `handle(input)` gives the effects to perform, `drive` is the loop
that performs them. It holds three things that belong together: the FIFO of management
calls and due passes, the barriers around each of them, and the order of a delivery.

Theory of operation
-------------------
One job at a time, in order of arrival: a management call, or one pass of due work. Each
begins with a barrier, so nothing is decided on events that might not be durable, and each
appends at most one change, followed by a second barrier before anyone is told.

A pass looks for the earliest due reminder, claims the idle agent, looks again inside the
claim, queues the follow-up, appends the dispatch, and gives the agent back. Whoever wants
a pass (a call that read the log, the timer, an idle agent, the host) gets one queued; many
wishes make one pass, and a wish that arrives during a pass makes one more.

The timer always stands at the next target that the last good reading knew, whatever
becomes of the pass in between: a failed barrier costs the due reminder a wait for the next
activity, but never a future one its timer.

The diagram is `diagram()`, and `TABLE` is checked at every step and row by row in the tests.

<diagram>
stateDiagram-v2
    resting --> call_preflight: takes the next job
    resting --> due_preflight: takes the next job
    due_claiming --> resting: PhaseBroken, PhaseBusy, PhaseFailed, PhaseClaimed
    call_preflight --> resting: BarrierFailed, BarrierPassed
    call_preflight --> call_appending: BarrierPassed
    call_appending --> call_confirming: ChangeAppended
    call_appending --> resting: AppendFailed
    call_confirming --> resting: BarrierPassed, BarrierFailed
    due_preflight --> resting: BarrierFailed, BarrierPassed
    due_preflight --> due_claiming: BarrierPassed
    due_claiming --> due_queueing: PhaseClaimed
    due_claiming --> due_recording: PhaseClaimed
    due_queueing --> due_recording: FollowUpQueued
    due_queueing --> resting: FollowUpRefused
    due_recording --> due_confirming: ChangeAppended
    due_recording --> resting: AppendFailed
    due_confirming --> resting: BarrierPassed, BarrierFailed
</diagram>
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum, unique
from typing import Final, Literal

from attrs import define, frozen

from schedule_core.decide import (
    Answer,
    Failed,
    Limits,
    Request,
    Uncertain,
    confirm,
    decide,
    uncertain,
)
from schedule_core.errors import ErrorCode, ScheduleLogError
from schedule_core.fold import Schedules
from schedule_core.framing import render_reminder
from schedule_core.instants import SECOND_MS, Instant
from schedule_core.ports import FollowUp
from schedule_core.records import (
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
)
from schedule_core.signals import (
    Admitted,
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
    Fact,
    Fault,
    Faulted,
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
    Reading,
    Recompute,
    Recovered,
    ReleasePhase,
    Reply,
    Report,
    Reset,
    Setback,
    SetTimer,
    Stopped,
    Submitted,
    Ticket,
    TimerFired,
    WatchIdle,
)


@unique
class Stage(StrEnum):
    """How far the job in hand has come."""

    RESTING = "resting"
    CALL_PREFLIGHT = "call_preflight"
    CALL_APPENDING = "call_appending"
    CALL_CONFIRMING = "call_confirming"
    DUE_PREFLIGHT = "due_preflight"
    DUE_CLAIMING = "due_claiming"
    DUE_QUEUEING = "due_queueing"
    DUE_RECORDING = "due_recording"
    DUE_CONFIRMING = "due_confirming"


@frozen
class Row:
    """One row of the transition table.

    Attributes:
        stage: the stage before; None for an input that may arrive in any stage.
        signal: the input.
        case: what tells this row from others of the same stage and input.
        effects: the effects, in order. `SetTimer` is left out: it follows the rule of
            the timer (see above), not the row. So is the barrier of the next job, which
            begins whenever a job has ended.
        then: the stage after; None for the stage before.
    """

    stage: Stage | None
    signal: "type[Input]"  # quoted: attrs would spell out both unions at every import
    case: str
    effects: "tuple[type[Effect], ...]"
    then: Stage | None


_REST, _ANY = Stage.RESTING, None

TABLE: Final = (
    # From outside.
    Row(_ANY, Recompute, "queues a pass", (), None),
    Row(_ANY, TimerFired, "queues a pass", (), None),
    Row(_ANY, BecameIdle, "log holds schedule events: queues a pass", (), None),
    Row(_ANY, BecameIdle, "log holds none: nothing", (), None),
    Row(_ANY, IdleWatchEnded, "queues a pass", (), None),
    Row(_ANY, IdleWatchFailed, "no retry", (Report,), None),
    Row(_ANY, IdleWatchFailed, "stopped: nothing", (), None),
    Row(_ANY, Submitted, "queues a call", (), None),
    Row(_ANY, Submitted, "stopped: refused", (Reply,), None),
    Row(_ANY, Cancelled, "waiting: forgotten", (), None),
    Row(_ANY, Cancelled, "in preflight: will append nothing", (), None),
    Row(_ANY, Cancelled, "later, or unknown: ignored", (), None),
    Row(_ANY, Reset, "faulted: works again, queues a pass", (Report,), None),
    Row(_ANY, Reset, "not faulted: queues a pass", (), None),
    Row(_ANY, Stopped, "waiting calls are refused", (Reply,), None),
    Row(_ANY, Stopped, "nothing waiting", (), None),
    Row(_ANY, PhaseBroken, "fault", (Report,), None),
    Row(_ANY, PhaseBroken, "stopped: nothing", (), None),
    Row(Stage.DUE_CLAIMING, PhaseBroken, "fault", (Report,), _REST),
    Row(Stage.DUE_CLAIMING, PhaseBroken, "stopped: nothing", (), _REST),
    # A management call.
    Row(Stage.CALL_PREFLIGHT, BarrierFailed, "uncertain", (Reply,), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierFailed, "cancelled", (), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "answered at once", (Reply,), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "cancelled", (), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "stopped: refused", (Reply,), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "bad log", (Reply,), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "log is good again", (Report, Reply), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "log is good again, and cancelled", (Report,), _REST),
    Row(Stage.CALL_PREFLIGHT, BarrierPassed, "a change", (Append,), Stage.CALL_APPENDING),
    Row(
        Stage.CALL_PREFLIGHT,
        BarrierPassed,
        "log is good again, and a change",
        (Report, Append),
        Stage.CALL_APPENDING,
    ),
    Row(
        Stage.CALL_APPENDING,
        ChangeAppended,
        "now make it durable",
        (AwaitBarrier,),
        Stage.CALL_CONFIRMING,
    ),
    Row(Stage.CALL_APPENDING, AppendFailed, "internal error", (Reply,), _REST),
    Row(Stage.CALL_CONFIRMING, BarrierPassed, "done", (Reply,), _REST),
    Row(Stage.CALL_CONFIRMING, BarrierFailed, "uncertain", (Reply,), _REST),
    # A pass of due work.
    Row(Stage.DUE_PREFLIGHT, BarrierFailed, "waits for activity", (Report,), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierFailed, "stopped", (), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierPassed, "nothing due", (), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierPassed, "stopped", (), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierPassed, "faulted meanwhile", (), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierPassed, "bad log: fault", (Report,), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierPassed, "no clock", (Report,), _REST),
    Row(Stage.DUE_PREFLIGHT, BarrierPassed, "due", (ClaimPhase,), Stage.DUE_CLAIMING),
    Row(Stage.DUE_CLAIMING, PhaseBusy, "waits for idle", (WatchIdle,), _REST),
    Row(Stage.DUE_CLAIMING, PhaseBusy, "waits already", (), _REST),
    Row(Stage.DUE_CLAIMING, PhaseBusy, "busy right after idle: waits a second", (), _REST),
    Row(Stage.DUE_CLAIMING, PhaseBusy, "stopped: waits for nothing", (), _REST),
    Row(Stage.DUE_CLAIMING, PhaseFailed, "waits for activity", (Report,), _REST),
    Row(Stage.DUE_CLAIMING, PhaseClaimed, "nothing due any more", (ReleasePhase,), _REST),
    Row(Stage.DUE_CLAIMING, PhaseClaimed, "stopped", (ReleasePhase,), _REST),
    Row(Stage.DUE_CLAIMING, PhaseClaimed, "bad log: fault", (Report, ReleasePhase), _REST),
    Row(Stage.DUE_CLAIMING, PhaseClaimed, "no clock", (Report, ReleasePhase), _REST),
    Row(Stage.DUE_CLAIMING, PhaseClaimed, "due", (QueueFollowUp,), Stage.DUE_QUEUEING),
    Row(
        Stage.DUE_CLAIMING,
        PhaseClaimed,
        "due, and queued before a crash: only recorded",
        (Append,),
        Stage.DUE_RECORDING,
    ),
    Row(Stage.DUE_QUEUEING, FollowUpQueued, "record it", (Append,), Stage.DUE_RECORDING),
    Row(Stage.DUE_QUEUEING, FollowUpRefused, "waits for activity", (Report, ReleasePhase), _REST),
    Row(
        Stage.DUE_RECORDING,
        ChangeAppended,
        "now make it durable",
        (Report, ReleasePhase, AwaitBarrier),
        Stage.DUE_CONFIRMING,
    ),
    Row(Stage.DUE_RECORDING, AppendFailed, "fault", (Report, ReleasePhase), _REST),
    Row(Stage.DUE_CONFIRMING, BarrierPassed, "looks for the next one", (), _REST),
    Row(Stage.DUE_CONFIRMING, BarrierFailed, "waits for activity", (Report,), _REST),
    Row(Stage.DUE_CONFIRMING, BarrierFailed, "stopped", (), _REST),
)

_STEPS: Final = frozenset((row.stage, row.signal, row.then) for row in TABLE)

BUSY_RECHECK_MS: Final = SECOND_MS
"""Pause after a claim that was refused right after the agent was said to be idle.

Such an agent would otherwise be asked in a loop as fast as its barrier answers.
"""

CLOSING: Final = Failed(ErrorCode.INTERNAL_ERROR, "the session is closing")
_APPEND_FAILED: Final = Failed(
    ErrorCode.INTERNAL_ERROR, "the change could not be added to the session log"
)
_CORRUPT: Final = Failed(
    ErrorCode.CORRUPT_SCHEDULE_LOG,
    "the reminders in this session log cannot be read; nothing was changed",
)
_UNREADABLE: Final = Failed(ErrorCode.INTERNAL_ERROR, "the session log could not be read")

Activity = Literal["resting", "working", "waiting", "watching", "faulted", "stopped"]


@frozen
class OwnerState:
    """What a host may show of an owner (design decision 16).

    Attributes:
        activity: "resting" nothing to do; "working" a job in hand; "waiting" for `until`;
            "watching" something is due and waits for the agent to be idle; "faulted"
            nothing is delivered until a reset, see `fault`; "stopped" for good.
        until: the time the timer stands at.
        fault: why it is faulted.
        position: the event that made the log corrupt, where there is one.
    """

    activity: Activity
    until: Instant | None = None
    fault: Fault | None = None
    position: int | None = None


@define
class _Call:
    """A management call in the queue or in hand."""

    ticket: Ticket
    request: Request
    cancelled: bool = False


_DUE: Final = "due"
"""A pass of due work in the queue; there is never more than one."""


class ScheduleOwner:
    """The machine; create one for each live agent, and feed it `Recompute` to start it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._stage = Stage.RESTING
        self._waiting: deque[_Call | Literal["due"]] = deque()
        self._call: _Call | None = None  # set in the CALL_ stages
        self._change: ScheduleChange | None = None  # set once this call's change is out
        self._picked: ScheduleRecord | None = None  # set from the pick inside the claim on
        self._known: Schedules | None = None  # the last good reading; None before it
        self._now: Instant | None = None  # the clock at the last reading of a pass
        self._timer: Instant | None = None  # where the driver's timer stands
        self._watching = False  # an idle watch is out
        self._idle_was_said = False  # the last watch ended, and no claim came through since
        self._fault: Faulted | None = None
        self._unrecorded: ScheduleId | None = None  # queued, but its dispatch was refused
        self._stopped = False
        self._effects: list[Effect] = []  # of the step in hand

    @property
    def state(self) -> OwnerState:
        """What the owner is doing, for a host to show."""
        if self._stopped:
            return OwnerState("stopped")
        if self._fault is not None:
            return OwnerState("faulted", None, self._fault.fault, self._fault.position)
        if self._stage is not Stage.RESTING:
            return OwnerState("working", self._timer)
        if self._watching:
            return OwnerState("watching", self._timer)
        return OwnerState("resting" if self._timer is None else "waiting", self._timer)

    def handle(self, signal: Input) -> tuple[Effect, ...]:
        """Take one input; gives the effects to perform, in order.

        Raises:
            AssertionError: the driver broke its contract (see `signals`).
        """
        before = self._stage
        self._effects = []
        if not self._take_outside(signal):
            self._take_result(signal)
        then = self._stage if self._stage is not before else None
        assert (before, type(signal), self._stage) in _STEPS or (
            None,
            type(signal),
            then,
        ) in _STEPS, f"{before}: {type(signal).__name__} must not lead to {self._stage}"
        self._start_next()
        return tuple(self._effects)

    # Inputs from outside.

    def _take_outside(self, signal: Input) -> bool:  # noqa: C901 - one case per input
        match signal:
            case Recompute():
                self._want_pass()
            case TimerFired(at):
                self._timer_fired(at)
            case BecameIdle(has_schedule_events):
                if has_schedule_events:
                    self._want_pass()
            case IdleWatchEnded():
                self._watching, self._idle_was_said = False, True
                self._want_pass()
            case IdleWatchFailed():
                self._watching = False
                self._delay(Setback.IDLE_WATCH_FAILED)
            case Submitted(ticket, request):
                self._submit(_Call(ticket, request))
            case Cancelled(ticket):
                self._cancel(ticket)
            case Reset():
                self._recover()
                self._want_pass()
            case Stopped():
                self._stop()
            case PhaseBroken():
                self._phase_broken()
            case _:
                return False
        return True

    def _want_pass(self) -> None:
        if not self._stopped and self._fault is None and _DUE not in self._waiting:
            self._waiting.append(_DUE)

    def _timer_fired(self, at: Instant) -> None:
        if at == self._timer and self._known is not None:
            self._timer = None
            # Whatever becomes of the pass, the later reminders keep their timer.
            self._arm(self._known.next_target(after=at))
        self._want_pass()

    def _submit(self, call: _Call) -> None:
        if self._stopped:
            self._effects.append(Reply(call.ticket, CLOSING))
        else:
            self._waiting.append(call)

    def _cancel(self, ticket: Ticket) -> None:
        if self._call is not None and self._call.ticket == ticket:
            # Once the change is out this is not looked at: it is in the log.
            self._call.cancelled = True
        for job in self._waiting:
            if isinstance(job, _Call) and job.ticket == ticket:
                self._waiting.remove(job)
                return

    def _stop(self) -> None:
        self._stopped = True
        self._arm(None)
        for job in self._waiting:
            if isinstance(job, _Call):
                self._effects.append(Reply(job.ticket, CLOSING))
        self._waiting.clear()

    def _phase_broken(self) -> None:
        if not self._stopped:
            self._fail(Faulted(Fault.PHASE_BROKEN))
        if self._stage is Stage.DUE_CLAIMING:
            self._stage = Stage.RESTING

    # Results of effects.

    def _take_result(self, signal: Input) -> None:  # noqa: C901, PLR0912 - one case per step
        match self._stage, signal:
            case Stage.CALL_PREFLIGHT, BarrierPassed(reading):
                self._decide_call(reading)
            case Stage.CALL_PREFLIGHT, BarrierFailed():
                self._answer(uncertain(self._current_call().request))
            case Stage.CALL_APPENDING, ChangeAppended():
                self._await_barrier(Stage.CALL_CONFIRMING)
            case Stage.CALL_APPENDING, AppendFailed():
                self._answer(_APPEND_FAILED)
            case Stage.CALL_CONFIRMING, BarrierPassed(reading):
                self._bring_forward(reading)
                self._answer(confirm(self._current_change(), reading.now))
            case Stage.CALL_CONFIRMING, BarrierFailed():
                self._answer(self._unconfirmed())
            case Stage.DUE_PREFLIGHT, BarrierPassed(reading):
                self._look(reading)
            case Stage.DUE_PREFLIGHT, BarrierFailed():
                self._put_off(Setback.BARRIER_FAILED)
            case Stage.DUE_CLAIMING, PhaseBusy():
                self._wait_for_idle()
            case Stage.DUE_CLAIMING, PhaseFailed():
                self._put_off(Setback.CLAIM_FAILED)
            case Stage.DUE_CLAIMING, PhaseClaimed(reading):
                self._look_again(reading)
            case Stage.DUE_QUEUEING, FollowUpQueued():
                self._record_dispatch()
            case Stage.DUE_QUEUEING, FollowUpRefused():
                self._put_off(Setback.FOLLOWUP_REFUSED)
                self._effects.append(ReleasePhase())
            case Stage.DUE_RECORDING, ChangeAppended():
                self._dispatch_recorded()
            case Stage.DUE_RECORDING, AppendFailed():
                # The message is out: queueing it again in this process would repeat it.
                self._unrecorded = self._current_pick().id
                self._fail(Faulted(Fault.DISPATCH_NOT_RECORDED))
                self._effects.append(ReleasePhase())
                self._stage = Stage.RESTING
            case Stage.DUE_CONFIRMING, BarrierPassed():
                self._stage = Stage.RESTING
                self._want_pass()
            case Stage.DUE_CONFIRMING, BarrierFailed():
                self._put_off(Setback.DISPATCH_UNCONFIRMED)
            case _:
                raise AssertionError(f"{type(signal).__name__} cannot follow in {self._stage}")

    # A management call.

    def _decide_call(self, reading: Reading) -> None:
        call = self._current_call()
        if isinstance(reading.schedules, Schedules) and self._has_log_fault():
            self._recover()
        self._bring_forward(reading)
        self._want_pass()
        if call.cancelled or self._stopped:
            self._answer(CLOSING)
            return
        match reading.schedules:
            case ScheduleLogError():
                decision: ScheduleChange | Answer = _CORRUPT
            case None:
                decision = _UNREADABLE
            case schedules:
                decision = decide(call.request, schedules, reading.now, self._limits)
        if isinstance(decision, ScheduleChange):
            self._change = decision
            self._append(decision, Stage.CALL_APPENDING)
        else:
            self._answer(decision)

    def _unconfirmed(self) -> Answer:
        change = self._current_change()
        changed = change.schedule.id if isinstance(change, ScheduleCreateChange) else change.id
        return Uncertain(self._current_call().request.operation, changed)

    def _answer(self, answer: Answer) -> None:
        """Answer the call in hand, unless its caller left before anything was appended."""
        call = self._current_call()
        if not call.cancelled or self._change is not None:
            self._effects.append(Reply(call.ticket, answer))
        self._call = self._change = None
        self._stage = Stage.RESTING

    # A pass of due work.

    def _look(self, reading: Reading) -> None:
        if self._find_due(reading) is None:
            self._stage = Stage.RESTING
        else:
            self._effects.append(ClaimPhase())
            self._stage = Stage.DUE_CLAIMING

    def _look_again(self, reading: Reading) -> None:
        """Pick inside the claim: what was due at the preflight may have changed since."""
        self._idle_was_said = False
        self._picked = self._find_due(reading)
        if self._picked is None:
            self._effects.append(ReleasePhase())
            self._stage = Stage.RESTING
        elif self._picked.id in reading.admitted or self._picked.id == self._unrecorded:
            self._record_dispatch()
        else:
            message = FollowUp(self._picked.id, render_reminder(self._picked))
            self._effects.append(QueueFollowUp(message))
            self._stage = Stage.DUE_QUEUEING

    def _find_due(self, reading: Reading) -> ScheduleRecord | None:
        """The earliest due reminder, if there is one; sets the timer for those to come."""
        if self._stopped or self._fault is not None:
            return None
        if isinstance(reading.schedules, ScheduleLogError):
            self._fail(Faulted(Fault.CORRUPT_LOG, reading.schedules.position))
            return None
        if reading.schedules is None:
            self._fail(Faulted(Fault.UNREADABLE_LOG))
            return None
        self._known = reading.schedules
        if reading.now is None:
            self._delay(Setback.CLOCK_UNREADABLE)
            return None
        self._now = reading.now
        self._arm(reading.schedules.next_target(after=reading.now))
        earliest = reading.schedules.earliest()
        return earliest if earliest and earliest.scheduled_at <= reading.now else None

    def _wait_for_idle(self) -> None:
        self._stage = Stage.RESTING
        if self._watching or self._stopped:
            return
        if self._idle_was_said and self._now is not None:
            self._idle_was_said = False
            recheck = Instant(self._now + BUSY_RECHECK_MS)
            self._arm(recheck if self._timer is None else min(recheck, self._timer))
        else:
            self._watching = True
            self._effects.append(WatchIdle())

    def _record_dispatch(self) -> None:
        self._append(ScheduleDispatchChange(self._current_pick().id), Stage.DUE_RECORDING)

    def _dispatch_recorded(self) -> None:
        record, now = self._current_pick(), self._now
        assert now is not None, "a pick has a reading of the clock"
        self._report(Admitted(record.id, record.scheduled_at, now))
        self._effects.append(ReleasePhase())
        self._await_barrier(Stage.DUE_CONFIRMING)

    def _put_off(self, setback: Setback) -> None:
        """End the pass; the reminder stays active, and later activity tries again."""
        self._stage = Stage.RESTING
        self._delay(setback)

    # Pieces of both.

    def _start_next(self) -> None:
        if self._stage is Stage.RESTING and self._waiting:
            job = self._waiting.popleft()
            self._call = job if isinstance(job, _Call) else None
            self._await_barrier(Stage.DUE_PREFLIGHT if self._call is None else Stage.CALL_PREFLIGHT)

    def _await_barrier(self, stage: Stage) -> None:
        self._effects.append(AwaitBarrier())
        self._stage = stage

    def _append(self, change: ScheduleChange, stage: Stage) -> None:
        self._effects.append(Append(change))
        self._stage = stage

    def _arm(self, at: Instant | None) -> None:
        if at != self._timer:
            self._timer = at
            self._effects.append(SetTimer(at))

    def _bring_forward(self, reading: Reading) -> None:
        """A call's reading may set the timer earlier; only a pass puts it off again."""
        if self._stopped or self._fault is not None or reading.now is None:
            return
        if isinstance(reading.schedules, Schedules):
            self._known = reading.schedules
            target = reading.schedules.next_target(after=reading.now)
            if target is not None and (self._timer is None or target < self._timer):
                self._arm(target)

    def _delay(self, setback: Setback) -> None:
        self._report(Delayed(setback))

    def _fail(self, fault: Faulted) -> None:
        self._fault = fault
        self._arm(None)
        if _DUE in self._waiting:
            self._waiting.remove(_DUE)
        self._effects.append(Report(fault))  # also when stopped: the host must hear of it

    def _recover(self) -> None:
        if self._fault is not None:
            self._fault = None
            if self._known is not None and self._now is not None and not self._stopped:
                self._arm(self._known.next_target(after=self._now))
            self._report(Recovered())

    def _has_log_fault(self) -> bool:
        return self._fault is not None and self._fault.fault in _LOG_FAULTS

    def _report(self, fact: Fact) -> None:
        if not self._stopped:
            self._effects.append(Report(fact))

    def _current_call(self) -> _Call:
        assert self._call is not None, "a CALL_ stage has a call"
        return self._call

    def _current_change(self) -> ScheduleChange:
        assert self._change is not None, "a change was appended"
        return self._change

    def _current_pick(self) -> ScheduleRecord:
        assert self._picked is not None, "a record was picked inside the claim"
        return self._picked


_LOG_FAULTS: Final = {Fault.CORRUPT_LOG, Fault.UNREADABLE_LOG}


def drive(owner: ScheduleOwner, signal: Input, perform: Callable[[Effect], Input | None]) -> None:
    """Feed one input and all that follows from it at once: the contract of every driver.

    Args:
        owner: the machine.
        signal: the input from outside.
        perform: performs one effect; gives its immediate result, if it has one.
    """
    following: Input | None = signal
    while following is not None:
        effects, following = owner.handle(following), None
        for effect in effects:
            assert following is None, "an effect with an immediate result is the last one"
            following = perform(effect)


def diagram() -> str:
    """The stages as a Mermaid state diagram, made from `TABLE`."""
    arrows: dict[tuple[Stage, Stage], list[str]] = {}
    for row in TABLE:
        if row.stage is not None and row.then is not None:
            names = arrows.setdefault((row.stage, row.then), [])
            if row.signal.__name__ not in names:
                names.append(row.signal.__name__)
    starts = [
        f"    {Stage.RESTING} --> {first}: takes the next job"
        for first in (Stage.CALL_PREFLIGHT, Stage.DUE_PREFLIGHT)
    ]
    steps = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in arrows.items()]
    return "\n".join(["stateDiagram-v2", *starts, *steps])
