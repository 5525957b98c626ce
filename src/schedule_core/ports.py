"""The four ports that an adapter fills, and the event that a session log is made of.

Who may call what, and when, is part of each port's contract; `schedule_adapters.testing`
holds the kits that check it.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from attrs import frozen

from schedule_core.instants import Instant
from schedule_core.records import ScheduleChange, ScheduleId

SCHEDULE_EVENT_TYPE: Final = "schedule/change"
"""The one event type that this project reads and writes as Schedule authority."""


@frozen
class SessionEvent:
    """One event of a session's append-only log.

    Attributes:
        type: `SCHEDULE_EVENT_TYPE` or a foreign type, which the fold passes over.
        data: the JSON value of the event; for a schedule event, one version-1 change.
        seq: number of the event in its session, from 0; the fold counts for itself.
        time: when it was appended, milliseconds since the epoch; never decides anything.
    """

    type: str
    data: Any
    seq: int = 0
    time: int = 0


@frozen
class FollowUp:
    """One user-role message that delivers one due reminder.

    `schedule_id` marks where the message came from, so that a host can show it as a
    reminder and lower its rights: its text is untrusted (design decision 18).
    """

    schedule_id: ScheduleId
    text: str


class AgentBusy(Exception):  # noqa: N818 - a refusal, not an error: the claim is tried again
    """The idle phase is not free: a turn, other maintenance, or a non-empty inbox."""


class Clock(Protocol):
    """The wall clock."""

    def now(self) -> Instant:
        """Whole milliseconds since the epoch, now; it may step either way between calls."""
        ...


class SessionLog(Protocol):
    """The live event log of one session, durable or not yet."""

    @property
    def seed_length(self) -> object:
        """How many leading events a fork took over from its parent; 0 when it is none.

        Whatever the header holds is passed on: judging it is the fold's business.
        """
        ...

    def events_from(self, position: int) -> Iterable[SessionEvent]:
        """The live events from index `position` on, in order; none if there are fewer."""
        ...

    def append_change(self, change: ScheduleChange) -> None:
        """Add one schedule event: live when this returns, durable after the next barrier.

        Raises:
            Exception: nothing was added.
        """
        ...


class Persistence(Protocol):
    """The durability of one session log."""

    async def barrier(self) -> None:
        """Return once everything appended before the call is durable.

        Raises:
            Exception: that is not certain; it may or may not be durable.
        """
        ...


class AgentPort(Protocol):
    """One live agent bound to one session; called on the agent's own loop only."""

    @property
    def is_root(self) -> bool:
        """False for a sub-agent; those get neither tools nor an owner."""
        ...

    @property
    def is_live(self) -> bool:
        """True until this very agent is closed or replaced; never true again after that."""
        ...

    def has_admitted(self, schedule_id: ScheduleId) -> bool:
        """Tell whether the log of this session already holds the follow-up of that reminder.

        A runtime whose inbox is not part of the log answers False: there, a crash between
        the follow-up and its dispatch repeats the reminder.
        """
        ...

    def followup(self, message: FollowUp) -> None:
        """Queue one user-role message for exactly one later turn, in order with user input.

        It stays parked while a turn or maintenance owns the agent.

        Raises:
            Exception: nothing was queued.
        """
        ...

    def run_maintenance(self, task: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Claim the idle phase before returning, run `task` inside it, then release it.

        The phase is released on return, exception and cancellation alike, after which
        parked input starts. Awaiting the result re-raises what `task` raised.

        Raises:
            AgentBusy: at the call itself, not when awaited; `task` never runs.
        """
        ...

    async def when_idle(self) -> None:
        """Return when the agent is idle and its inbox empty; reserves nothing.

        Never awaited inside a turn, a tool or maintenance: each would wait for itself.
        """
        ...

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` at each change to idle; gives the function that ends that."""
        ...

    def on_close(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` once when the agent closes; gives the function that ends that."""
        ...
