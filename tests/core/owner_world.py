"""A small scripted world around one owner: what the log holds, what the clock says.

`World.feed` plays steps and gives the effects of the last one, so that a test reads as
given, when, exactly these effects. The reminders are a real fold; an `Append` enters it
when its `ChangeAppended` is fed.
"""

from collections.abc import Callable
from itertools import chain
from typing import Final, Literal

from attrs import define, field

from schedule_core.decide import CreateRequest, DeleteRequest, ListRequest
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.fold import Schedules
from schedule_core.framing import render_reminder
from schedule_core.instants import Instant
from schedule_core.owner import ScheduleOwner, Stage
from schedule_core.ports import FollowUp
from schedule_core.records import (
    AfterScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
)
from schedule_core.signals import (
    Append,
    BarrierPassed,
    ChangeAppended,
    Effect,
    FollowUpQueued,
    Input,
    PhaseClaimed,
    QueueFollowUp,
    Reading,
    Recompute,
    Submitted,
    Ticket,
)

NOW: Final = Instant(1_800_000_000_000)
"""2027-01-15T08:00:00Z, when every scenario begins."""
ONE, TWO, THREE = Ticket(1), Ticket(2), Ticket(3)
FIRST, SECOND, THIRD = (ScheduleId(f"schedule-{number}") for number in (1, 2, 3))
CREATE: Final = CreateRequest(Prompt("tea"), DelaySeconds(60))
LIST: Final = ListRequest()
DELETE: Final = DeleteRequest(FIRST)
CORRUPT: Final = ScheduleLogError(LogFault.UNKNOWN_VERSION, "version 2", 7)


def at(seconds: int) -> Instant:
    """The instant that many seconds from `NOW`; negative for the past."""
    return Instant(NOW + seconds * 1_000)


def reminder(schedule_id: ScheduleId, seconds: int) -> AfterScheduleRecord:
    """The record of a reminder whose target is that many seconds from `NOW`."""
    return AfterScheduleRecord(schedule_id, Prompt("tea"), DelaySeconds(60), at(seconds))


CREATED: Final = reminder(FIRST, 60)
"""What `CREATE` makes at `NOW` in an empty log."""


@define
class World:
    """What the owner's driver would find when it looks; a test may change any of it."""

    owner: ScheduleOwner = field(factory=ScheduleOwner)
    schedules: Schedules = field(factory=Schedules)
    now: Instant | None = NOW
    log_fault: ScheduleLogError | Literal["unreadable"] | None = None
    admitted: set[ScheduleId] = field(factory=set)
    _asked: ScheduleChange | None = None

    @property
    def stage(self) -> Stage:
        """The stage that the owner is in."""
        return self.owner._stage

    def reading(self) -> Reading:
        """Look at the clock, the log and the agent."""
        schedules: Schedules | ScheduleLogError | None = self.schedules
        if self.log_fault is not None:
            schedules = None if self.log_fault == "unreadable" else self.log_fault
        return Reading(self.now, schedules, frozenset(self.admitted))

    def feed(self, *steps: "Step") -> tuple[Effect, ...]:
        """Play the steps in order; gives the effects of the last input."""
        effects: tuple[Effect, ...] = ()
        for step in steps:
            signal = step if isinstance(step, Input) else step(self)
            if signal is not None:
                effects = self._feed_one(signal)
        return effects

    def _feed_one(self, signal: Input) -> tuple[Effect, ...]:
        if isinstance(signal, ChangeAppended) and self._asked is not None:
            self.schedules.evolve(self._asked)
            self._asked = None
        effects = self.owner.handle(signal)
        for effect in effects:
            if isinstance(effect, Append):
                self._asked = effect.change
        return effects


Step = Input | Callable[[World], Input | None]
"""An input, or one that is made of the world as it is then, or a change of the world."""


def passed(world: World) -> Input:
    """The barrier passes, and the driver looks."""
    return BarrierPassed(world.reading())


def claimed(world: World) -> Input:
    """The claimed phase begins, and the driver looks."""
    return PhaseClaimed(world.reading())


def holds(schedule_id: ScheduleId, seconds: int) -> Callable[[World], None]:
    """The log holds one more reminder, due that many seconds from `NOW`."""

    def change(world: World) -> None:
        world.schedules.evolve(ScheduleCreateChange(reminder(schedule_id, seconds)))

    return change


def lost(schedule_id: ScheduleId) -> Callable[[World], None]:
    """That reminder is not active any more, and the owner was not the one who ended it."""

    def change(world: World) -> None:
        world.schedules.evolve(ScheduleDispatchChange(schedule_id))

    return change


def clock(seconds: int) -> Callable[[World], None]:
    """The wall clock says that many seconds from `NOW`, forward or back."""

    def change(world: World) -> None:
        world.now = at(seconds)

    return change


def no_clock(world: World) -> None:
    """The clock cannot be read."""
    world.now = None


def corrupt(world: World) -> None:
    """The log is not a valid one; event 7 is the first bad one."""
    world.log_fault = CORRUPT


def unreadable(world: World) -> None:
    """The log cannot be read at all."""
    world.log_fault = "unreadable"


def readable(world: World) -> None:
    """The log is good again."""
    world.log_fault = None


def admitted(schedule_id: ScheduleId) -> Callable[[World], None]:
    """The log holds the follow-up of that reminder already."""

    def change(world: World) -> None:
        world.admitted.add(schedule_id)

    return change


def follow_up(record: ScheduleRecord) -> QueueFollowUp:
    """The one message that delivers that reminder."""
    return QueueFollowUp(FollowUp(record.id, render_reminder(record)))


def all_effects(world: World, *steps: Step) -> list[Effect]:
    """Every effect of every step, in order."""
    return list(chain.from_iterable(world.feed(step) for step in steps))


# Ways to each stage. The due ones deliver `FIRST`, one second late.

OVERDUE: Final = reminder(FIRST, -1)
TO_CALL_PREFLIGHT: Final[tuple[Step, ...]] = (Submitted(ONE, CREATE),)
TO_CALL_APPENDING: Final[tuple[Step, ...]] = (*TO_CALL_PREFLIGHT, passed)
TO_CALL_CONFIRMING: Final[tuple[Step, ...]] = (*TO_CALL_APPENDING, ChangeAppended())
TO_DUE_PREFLIGHT: Final[tuple[Step, ...]] = (holds(FIRST, -1), Recompute())
TO_DUE_CLAIMING: Final[tuple[Step, ...]] = (*TO_DUE_PREFLIGHT, passed)
TO_DUE_QUEUEING: Final[tuple[Step, ...]] = (*TO_DUE_CLAIMING, claimed)
TO_DUE_RECORDING: Final[tuple[Step, ...]] = (*TO_DUE_QUEUEING, FollowUpQueued())
TO_DUE_CONFIRMING: Final[tuple[Step, ...]] = (*TO_DUE_RECORDING, ChangeAppended())

WAYS: Final[dict[Stage, tuple[Step, ...]]] = {
    Stage.RESTING: (),
    Stage.CALL_PREFLIGHT: TO_CALL_PREFLIGHT,
    Stage.CALL_APPENDING: TO_CALL_APPENDING,
    Stage.CALL_CONFIRMING: TO_CALL_CONFIRMING,
    Stage.DUE_PREFLIGHT: TO_DUE_PREFLIGHT,
    Stage.DUE_CLAIMING: TO_DUE_CLAIMING,
    Stage.DUE_QUEUEING: TO_DUE_QUEUEING,
    Stage.DUE_RECORDING: TO_DUE_RECORDING,
    Stage.DUE_CONFIRMING: TO_DUE_CONFIRMING,
}
