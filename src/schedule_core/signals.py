"""Every input of the owner and every effect it asks for.

**The contract of a driver: feed one input; perform the returned effects in order; if an
effect has an immediate result, feed that before anything from outside.** Such an effect is
always the last of its tuple. One input per source: never reuse an input because its effect
looks the same today. `owner.drive` is that contract as a loop.
"""

from enum import StrEnum, unique
from typing import NewType

from attrs import frozen

from schedule_core.decide import Answer, Request
from schedule_core.errors import ScheduleLogError
from schedule_core.fold import Schedules
from schedule_core.instants import Instant
from schedule_core.ports import FollowUp
from schedule_core.records import ScheduleChange, ScheduleId

Ticket = NewType("Ticket", int)
"""A driver's name for one management call; never used again."""


@frozen
class Reading:
    """What the driver finds when it looks: at the clock, the log and the agent, in one go.

    Attributes:
        now: the wall clock; None when it could not be read.
        schedules: the fold of the live log; a `ScheduleLogError` when the log is corrupt,
            None when it could not be read.
        admitted: ids of active reminders whose follow-up the log of the session already
            holds although their dispatch is missing (design decision 12).
    """

    now: Instant | None
    schedules: Schedules | ScheduleLogError | None
    admitted: frozenset[ScheduleId] = frozenset()


class _Bare:
    """A signal that carries nothing: all of its instances are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


# Inputs: from outside, at any time.


class Recompute(_Bare):
    """The host, or the start, asks for one pass of due work."""

    __slots__ = ()


@frozen
class TimerFired:
    """The wall clock has reached `at`, the time that a `SetTimer` named."""

    at: Instant


@frozen
class BecameIdle:
    """The agent changed to idle; `has_schedule_events` tells whether its log holds any."""

    has_schedule_events: bool


class IdleWatchEnded(_Bare):
    """The wait that `WatchIdle` began is over: the agent was idle."""

    __slots__ = ()


class IdleWatchFailed(_Bare):
    """The wait that `WatchIdle` began failed."""

    __slots__ = ()


@frozen
class Submitted:
    """A management call arrived."""

    ticket: Ticket
    request: Request


@frozen
class Cancelled:
    """The caller of that ticket has gone."""

    ticket: Ticket


class Reset(_Bare):
    """The host asks a faulted owner to try again."""

    __slots__ = ()


class Stopped(_Bare):
    """The agent closes or is no longer live; it never comes back."""

    __slots__ = ()


class PhaseBroken(_Bare):
    """The claimed phase ended with an error of its own, after the claim was accepted."""

    __slots__ = ()


# Inputs: results of effects.


@frozen
class BarrierPassed:
    """Everything appended before `AwaitBarrier` is durable; read afterwards."""

    reading: Reading


class BarrierFailed(_Bare):
    """It is not certain that everything appended is durable."""

    __slots__ = ()


@frozen
class PhaseClaimed:
    """The agent is ours until `ReleasePhase`; read inside the phase."""

    reading: Reading


class PhaseBusy(_Bare):
    """The claim was refused: the agent is busy."""

    __slots__ = ()


class PhaseFailed(_Bare):
    """The claim failed for another reason than busy."""

    __slots__ = ()


class FollowUpQueued(_Bare):
    """The message is in the agent's inbox."""

    __slots__ = ()


class FollowUpRefused(_Bare):
    """Nothing was queued."""

    __slots__ = ()


class ChangeAppended(_Bare):
    """The change is in the live log."""

    __slots__ = ()


class AppendFailed(_Bare):
    """Nothing was appended."""

    __slots__ = ()


Input = (
    Recompute
    | TimerFired
    | BecameIdle
    | IdleWatchEnded
    | IdleWatchFailed
    | Submitted
    | Cancelled
    | Reset
    | Stopped
    | PhaseBroken
    | BarrierPassed
    | BarrierFailed
    | PhaseClaimed
    | PhaseBusy
    | PhaseFailed
    | FollowUpQueued
    | FollowUpRefused
    | ChangeAppended
    | AppendFailed
)


# Effects.


class AwaitBarrier(_Bare):
    """Await the persistence barrier, then read: `BarrierPassed` or `BarrierFailed`."""

    __slots__ = ()


@frozen
class Append:
    """Append one change; immediate result: `ChangeAppended` or `AppendFailed`."""

    change: ScheduleChange


class ClaimPhase(_Bare):
    """Claim the idle phase; immediate result: `PhaseBusy` or `PhaseFailed`.

    A claim that is accepted has no immediate result: `PhaseClaimed` follows from inside.
    """

    __slots__ = ()


@frozen
class QueueFollowUp:
    """Queue the message; immediate result: `FollowUpQueued` or `FollowUpRefused`."""

    message: FollowUp


class ReleasePhase(_Bare):
    """Give the agent back; parked input starts."""

    __slots__ = ()


class WatchIdle(_Bare):
    """Wait for idle without holding anything: `IdleWatchEnded` or `IdleWatchFailed`."""

    __slots__ = ()


@frozen
class SetTimer:
    """Feed `TimerFired` once the wall clock reaches `at`, never earlier; None: no timer."""

    at: Instant | None


@frozen
class Reply:
    """Answer one management call."""

    ticket: Ticket
    answer: Answer


@unique
class Setback(StrEnum):
    """A failure that costs nothing but time: the reminder stays active."""

    BARRIER_FAILED = "barrier_failed"
    DISPATCH_UNCONFIRMED = "dispatch_unconfirmed"
    CLOCK_UNREADABLE = "clock_unreadable"
    CLAIM_FAILED = "claim_failed"
    FOLLOWUP_REFUSED = "followup_refused"
    IDLE_WATCH_FAILED = "idle_watch_failed"


@unique
class Fault(StrEnum):
    """Why an owner delivers nothing any more, until it is reset."""

    CORRUPT_LOG = "corrupt_log"
    UNREADABLE_LOG = "unreadable_log"
    DISPATCH_NOT_RECORDED = "dispatch_not_recorded"
    PHASE_BROKEN = "phase_broken"


@frozen
class Delayed:
    """Due work was put off; later activity tries again."""

    setback: Setback


@frozen
class Faulted:
    """The owner stopped delivering; `position` is the bad event's, where there is one."""

    fault: Fault
    position: int | None = None


class Recovered(_Bare):
    """A faulted owner works again."""

    __slots__ = ()


@frozen
class Admitted:
    """A reminder entered the conversation: `now - scheduled_at` milliseconds late."""

    schedule_id: ScheduleId
    scheduled_at: Instant
    now: Instant


Fact = Delayed | Faulted | Recovered | Admitted


@frozen
class Report:
    """Tell the host; never carries the text of a prompt."""

    fact: Fact


Effect = (
    AwaitBarrier
    | Append
    | ClaimPhase
    | QueueFollowUp
    | ReleasePhase
    | WatchIdle
    | SetTimer
    | Reply
    | Report
)
