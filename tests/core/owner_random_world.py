"""A world in which anything may fail, around one owner, with what must never happen in it.

The log keeps a durable prefix, the clock steps both ways, the agent is busy, refuses,
breaks and goes. `feed` is the production loop, so what is checked here is what runs.
"""

from typing import Final, Literal

from attrs import define, field

from schedule_core.decide import Answer, Created, Deleted, Listed
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.fold import Schedules
from schedule_core.framing import render_reminder
from schedule_core.instants import Instant
from schedule_core.owner import BUSY_RECHECK_MS, TABLE, ScheduleOwner, Stage, drive
from schedule_core.ports import FollowUp
from schedule_core.records import (
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
)
from schedule_core.signals import (
    Append,
    AppendFailed,
    AwaitBarrier,
    BarrierFailed,
    BarrierPassed,
    BecameIdle,
    ChangeAppended,
    ClaimPhase,
    Effect,
    FollowUpQueued,
    FollowUpRefused,
    IdleWatchEnded,
    Input,
    PhaseBroken,
    PhaseBusy,
    PhaseClaimed,
    PhaseFailed,
    QueueFollowUp,
    Reading,
    Recompute,
    ReleasePhase,
    Reply,
    Report,
    SetTimer,
    Stopped,
    Ticket,
    TimerFired,
    WatchIdle,
)
from tests.core.owner_world import NOW

Part = Literal["claim", "follow-up", "append", "clock", "corrupt log", "unreadable log"]
_CORRUPT: Final = ScheduleLogError(LogFault.UNKNOWN_VERSION, "version 2", 7)
_FIRST_STAGES: Final = {Stage.CALL_PREFLIGHT, Stage.DUE_PREFLIGHT}


class CheckedOwner(ScheduleOwner):
    """An owner whose every step must be one that a row of the table speaks of."""

    def handle(self, signal: Input) -> tuple[Effect, ...]:
        """Take one input, and look for its row."""
        before = self._stage
        effects = super().handle(signal)
        shown = [type(effect) for effect in effects if not isinstance(effect, SetTimer)]
        then = self._stage
        if then in _FIRST_STAGES and shown[-1:] == [AwaitBarrier]:
            shown.pop()
            then = Stage.RESTING
        if isinstance(signal, Stopped):
            shown = list(dict.fromkeys(shown))  # one `Reply` for each call that waited
        assert any(
            row.signal is type(signal)
            and row.stage in {None, before}
            and (row.then or before) is then
            and list(row.effects) == shown
            for row in TABLE
        ), f"no row: {before}, {signal}: {shown}, {then}"
        return effects


@define
class RandomWorld:
    """What is outside of the owner.

    Attributes:
        log: changes and follow-ups, in order; the inbox is part of it.
        durable: how many of them survive a crash for certain.
        broken: what fails now.
        phase: who owns the agent.
        inbox: messages that wait for their turn.
        barrier: how long the log was when the barrier that is out began.
        claim: a claim was accepted, and its phase has not begun yet.
        watch: an idle watch is out.
        timer: where the timer stands.
        looked: up to when the owner has looked for future targets; None: not yet, or a
            fault came after it.
        known: the targets it saw then.
        open: calls that are owed an answer.
        deserted: calls whose caller has gone; one may be answered, but need not.
        answered: the last call that was answered.
    """

    owner: ScheduleOwner = field(factory=CheckedOwner)
    log: list[ScheduleChange | FollowUp] = field(factory=list)
    durable: int = 0
    schedules: Schedules = field(factory=Schedules)
    now: Instant = NOW
    broken: set[Part] = field(factory=set)
    phase: Literal["idle", "turn", "maintenance"] = "idle"
    inbox: list[FollowUp] = field(factory=list)
    barrier: int | None = None
    claim: bool = False
    watch: bool = False
    timer: Instant | None = None
    looked: Instant | None = None
    known: list[Instant] = field(factory=list)
    open: set[Ticket] = field(factory=set)
    deserted: set[Ticket] = field(factory=set)
    answered: int = 0
    stopped: bool = False

    @property
    def is_due(self) -> bool:
        """Whether the wall clock has reached the timer."""
        return self.timer is not None and self.timer <= self.now

    # The driver.

    def feed(self, signal: Input) -> None:
        """Feed one input, and perform all that follows at once."""
        match signal:
            case TimerFired():
                self._note_look(self.timer)
                self.timer = None
            case PhaseClaimed(reading):
                self._note_reading(reading)
            case BarrierPassed(reading) if self.owner._stage is Stage.DUE_PREFLIGHT:
                self._note_reading(reading)
        drive(self.owner, signal, self._perform)
        if self.owner.state.fault is not None:
            self.looked = None

    def _note_reading(self, reading: Reading) -> None:
        if isinstance(reading.schedules, Schedules) and reading.now is not None:
            self._note_look(reading.now)

    def _note_look(self, until: Instant | None) -> None:
        if self.looked is not None or self.owner.state.fault is None:
            self.looked = until
            self.known = [record.scheduled_at for record in self.schedules.active]

    def _perform(self, effect: Effect) -> Input | None:
        match effect:
            case AwaitBarrier():
                assert self.barrier is None, "one job at a time"
                self.barrier = len(self.log)
            case Append(change):
                return self._append(change)
            case ClaimPhase():
                return self._claim()
            case QueueFollowUp(message):
                return self._queue(message)
            case ReleasePhase():
                assert self.phase == "maintenance", "only what was claimed is released"
                self._free()
            case WatchIdle():
                assert not self.watch, "one idle watch at a time"
                assert not self.stopped, "a closed agent is never idle"
                self.watch = True
            case SetTimer(at):
                assert at != self.timer, "a timer that stands right is left alone"
                self.timer = at
            case Reply(ticket, answer):
                self._answer(ticket, answer)
            case Report():
                pass
        return None

    def _append(self, change: ScheduleChange) -> Input:
        if isinstance(change, ScheduleDispatchChange):
            assert self.phase == "maintenance", "the turn must not start before the dispatch"
            assert self._is_admitted(change.id), "no dispatch without its follow-up"
        if "append" in self.broken:
            return AppendFailed()
        self.schedules.evolve(change)
        self.log.append(change)
        return ChangeAppended()

    def _claim(self) -> Input | None:
        if self.phase != "idle":
            return PhaseBusy()
        if "claim" in self.broken:
            return PhaseFailed()
        self.phase, self.claim = "maintenance", True
        return None

    def _queue(self, message: FollowUp) -> Input:
        record = self.schedules.get(message.schedule_id)
        assert record is not None, "only an active reminder is sent"
        assert record.scheduled_at <= self.now, "never early"
        assert self.phase == "maintenance", "only inside a claim"
        assert not self.stopped, "nothing for an agent that has gone"
        assert not self._is_admitted(record.id), "at most once"
        assert render_reminder(record) == message.text
        if "follow-up" in self.broken:
            return FollowUpRefused()
        self.log.append(message)
        self.inbox.append(message)
        return FollowUpQueued()

    def _answer(self, ticket: Ticket, answer: Answer) -> None:
        assert ticket in self.open | self.deserted, "one answer for each call"
        self.open.discard(ticket)
        self.deserted.discard(ticket)
        assert self.stopped or ticket > self.answered, "in the order of arrival"
        self.answered = ticket
        durable = self.log[: self.durable]
        match answer:
            case Created(view):
                assert ScheduleCreateChange(view.record) in durable, "confirmed means durable"
            case Deleted(id):
                assert ScheduleDeleteChange(id) in durable, "confirmed means durable"
            case Listed(views):
                assert self.schedules.active == tuple(view.record for view in views)
            case _:
                pass

    def _is_admitted(self, schedule_id: ScheduleId) -> bool:
        return any(isinstance(e, FollowUp) and e.schedule_id == schedule_id for e in self.log)

    def _reading(self) -> Reading:
        schedules: Schedules | ScheduleLogError | None = self.schedules
        if self.broken & {"corrupt log", "unreadable log"}:
            schedules = _CORRUPT if "corrupt log" in self.broken else None
        admitted = frozenset(r.id for r in self.schedules.active if self._is_admitted(r.id))
        return Reading(None if "clock" in self.broken else self.now, schedules, admitted)

    def _free(self) -> None:
        """Parked input starts a turn; otherwise the agent is idle."""
        self.phase = "turn" if self.inbox else "idle"
        del self.inbox[:1]

    # What may happen.

    def end_barrier(self, *, passes: bool, lands: bool = False) -> None:
        """The barrier ends; one that fails may have made everything durable, or nothing."""
        assert self.barrier is not None
        if passes or lands:
            self.durable = max(self.durable, self.barrier)
        self.barrier = None
        self.feed(BarrierPassed(self._reading()) if passes else BarrierFailed())

    def begin_phase(self) -> None:
        """The claimed phase begins."""
        self.claim = False
        self.feed(PhaseClaimed(self._reading()))

    def break_phase(self) -> None:
        """The claimed phase ends before it began."""
        self.claim = False
        self._free()
        self.feed(PhaseBroken())

    def end_watch(self, result: Input) -> None:
        """The idle watch ends, whatever the agent does now."""
        self.watch = False
        self.feed(result)

    def end_turn(self) -> None:
        """A turn ends; the next one begins if a message waits."""
        self._free()
        if self.phase == "idle":
            self.feed(BecameIdle(has_schedule_events=bool(self.log)))

    def reopen(self, keeps: int) -> None:
        """The process dies, and a new owner begins with what is left of the log.

        `keeps` is how many events survive that no barrier has confirmed.
        """
        self.__init__(  # type: ignore[misc] # everything but the log and the clock is new
            log=self.log[: self.durable + keeps], now=self.now, broken=self.broken
        )
        self.durable = len(self.log)
        for event in self.log:
            if not isinstance(event, FollowUp):
                self.schedules.evolve(event)
        self.feed(Recompute())

    def promised(self) -> set[ScheduleId]:
        """The reminders that come by the timer alone, if only everything works."""
        if self.looked is None:
            return set()
        targets = {target for target in self.known if target > self.looked}
        return {r.id for r in self.schedules.active if r.scheduled_at in targets}

    def go_on(self) -> bool:
        """Bring the next thing under way to its good end; tells whether there was one."""
        if self.barrier is not None:
            self.end_barrier(passes=True)
        elif self.claim:
            self.begin_phase()
        elif self.phase == "turn":
            self.end_turn()
        elif self.watch and not self.stopped:
            self.end_watch(IdleWatchEnded())
        elif self.is_due:
            assert self.timer is not None
            self.feed(TimerFired(self.timer))
        else:
            return False
        return True

    def settle(self) -> None:
        """Let everything that is under way come to its good end; time stands still."""
        left = 100 + 20 * len(self.log)
        while self.go_on():
            left -= 1
            assert left, "it never comes to rest"

    def let_time_pass(self) -> None:
        """Go to each time that the timer names, until it names none."""
        self.settle()
        left = 100
        while self.timer is not None:
            self.now = max(self.now, self.timer)
            self.settle()
            left -= 1
            assert left, "the timer never comes to an end"

    # What must always hold.

    def check(self) -> None:
        """Check what holds between any two inputs."""
        assert (self.phase == "maintenance") == self.claim, "every claim is given back"
        state = self.owner.state
        if self.stopped or state.fault is not None:
            assert self.timer is None, "nothing to wait for"
        elif self.looked is not None:
            self._check_timer(self.looked)

    def _check_timer(self, looked: Instant) -> None:
        future = min((target for target in self.known if target > looked), default=None)
        if self.timer == future:
            return
        assert self.timer is not None, "every known target has the timer before it"
        assert future is None or self.timer < future, "the timer never stands too late"
        targets = {e.schedule.scheduled_at for e in self.log if isinstance(e, ScheduleCreateChange)}
        assert self.timer in targets | {looked + BUSY_RECHECK_MS}, "a timer has its reason"
