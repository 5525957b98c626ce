"""What holds of the owner whatever happens: a random world, driven by the production loop.

`owner_random_world` has the rules that are checked at each step. At the end of a run
everything heals and time passes, and every reminder must have come.

One simulation, two sources of chance: many long runs from seeds (a failure names its
seed), and short ones from hypothesis, which finds the shortest way to a failure.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_core.decide import CreateRequest, DeleteRequest, ListRequest, Request
from schedule_core.instants import Instant
from schedule_core.ports import FollowUp
from schedule_core.records import DelaySeconds, Prompt, ScheduleDispatchChange, ScheduleId
from schedule_core.signals import (
    Cancelled,
    IdleWatchEnded,
    IdleWatchFailed,
    PhaseBroken,
    Recompute,
    Reset,
    Stopped,
    Submitted,
    Ticket,
    TimerFired,
)
from tests.core.owner_random_world import Part, RandomWorld

PARTS: Final[tuple[Part, ...]] = (
    "claim",
    "follow-up",
    "append",
    "clock",
    "corrupt log",
    "unreadable log",
)
TROUBLE: Final = (0, 10, 25, 50)
"""Of a hundred steps so many go wrong; drawn anew for each run."""
BATCHES: Final = 10
LONG, SHORT = 120, 40


@define
class Simulation:
    """One run; `draw(n)` is one of `range(n)`, and 0 is always the dullest choice."""

    draw: Callable[[int], int]
    world: RandomWorld = field(factory=RandomWorld)
    tickets: int = 0
    released: bool = False

    def run(self, steps: int) -> None:
        """Begin, let anything happen, and let everything heal."""
        trouble = TROUBLE[self.draw(len(TROUBLE))]
        self.world.feed(Recompute())
        for _ in range(steps):
            usual = self.draw(100) >= trouble
            choices = USUAL if usual else UNUSUAL
            choices[self.draw(len(choices))](self)
            self.check()
        self.heal()

    def check(self) -> None:
        """Check what must hold between any two inputs."""
        self.world.check()
        follow_ups = Counter(e.schedule_id for e in self.world.log if isinstance(e, FollowUp))
        dispatched = {e.id for e in self.world.log if isinstance(e, ScheduleDispatchChange)}
        assert set(follow_ups.values()) <= {1}, "at most one follow-up of each reminder"
        assert dispatched <= follow_ups.keys(), "no dispatch without its follow-up"

    def heal(self) -> None:
        """Everything works again and time passes: every reminder comes."""
        world = self.world
        world.broken = set()
        promised = set() if world.stopped else world.promised()
        world.let_time_pass()
        assert not world.open, "every call is answered"
        left = {record.id for record in world.schedules.active}
        assert not promised & left, "a known target needs no other activity to be kept"
        if world.stopped:
            world.reopen(len(world.log) - world.durable)
        world.feed(Reset())
        world.let_time_pass()
        assert () == world.schedules.active, "every due reminder is delivered"
        self.check()

    # The usual course of things.

    def go_on(self) -> None:
        self.released |= self.world.claim
        if not self.world.go_on() and self.world.timer is not None:
            self.world.now = max(self.world.now, self.world.timer)

    def submit(self) -> None:
        self.tickets += 1
        ticket = Ticket(self.tickets)
        self.world.open.add(ticket)
        self.world.feed(Submitted(ticket, self.draw_request()))

    def draw_request(self) -> Request:
        match self.draw(4):
            case 0 | 1:
                return CreateRequest(Prompt("tea"), DelaySeconds(1 + self.draw(20)))
            case 2:
                return ListRequest()
            case _:
                return DeleteRequest(ScheduleId(f"schedule-{1 + self.draw(5)}"))

    def cancel(self) -> None:
        if self.world.open:
            ticket = sorted(self.world.open)[self.draw(len(self.world.open))]
            self.world.open.remove(ticket)
            self.world.deserted.add(ticket)
            self.world.feed(Cancelled(ticket))

    def wait(self) -> None:
        self.world.now = Instant(self.world.now + 1_000 * self.draw(20))
        if self.world.is_due:
            assert self.world.timer is not None
            self.world.feed(TimerFired(self.world.timer))

    def begin_turn(self) -> None:
        if self.world.phase == "idle" and not self.world.stopped:
            self.world.phase = "turn"

    def recompute(self) -> None:
        self.world.feed(Recompute())

    def reset(self) -> None:
        if self.world.owner.state.fault is not None:
            self.world.broken -= {"corrupt log", "unreadable log"}
            self.world.feed(Reset())

    # The unusual.

    def fail_barrier(self) -> None:
        if self.world.barrier is not None:
            self.world.end_barrier(passes=False, lands=bool(self.draw(2)))

    def break_phase(self) -> None:
        if self.world.claim:
            self.world.break_phase()
        elif self.released:  # the phase failed after the owner gave it back
            self.released = False
            self.world.feed(PhaseBroken())

    def end_watch(self) -> None:
        """The watch fails, or it ends and the agent is busy again at once."""
        if self.world.watch:
            self.begin_turn()
            self.world.end_watch((IdleWatchEnded(), IdleWatchFailed())[self.draw(2)])

    def step_clock(self) -> None:
        self.world.now = Instant(self.world.now + 1_000 * (self.draw(40) - 20))

    def break_or_mend(self) -> None:
        self.world.broken = {PARTS[self.draw(len(PARTS))] for _ in range(self.draw(3))}

    def stop(self) -> None:
        self.world.stopped = True
        self.world.feed(Stopped())

    def crash(self) -> None:
        self.released = False
        self.world.reopen(self.draw(1 + len(self.world.log) - self.world.durable))


Step = Callable[[Simulation], None]
USUAL: Final[tuple[Step, ...]] = (
    *(Simulation.go_on,) * 8,
    *(Simulation.submit, Simulation.wait) * 2,
    *(Simulation.cancel, Simulation.begin_turn, Simulation.recompute, Simulation.reset),
)
UNUSUAL: Final[tuple[Step, ...]] = (
    *(Simulation.fail_barrier, Simulation.end_watch, Simulation.break_or_mend) * 4,
    *(Simulation.break_phase, Simulation.step_clock) * 2,
    *(Simulation.crash, Simulation.stop, Simulation.crash),
)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_seeded_runs_keep_every_rule_and_end_with_every_reminder_delivered(batch: int) -> None:
    size = settings().max_examples
    for seed in range(batch * size, (batch + 1) * size):
        try:
            Simulation(Random(seed).randrange).run(LONG)  # noqa: S311 - chance, not a secret
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@given(st.data())
def test_no_short_run_breaks_a_rule(data: st.DataObject) -> None:
    Simulation(lambda n: data.draw(st.integers(0, n - 1))).run(SHORT)
