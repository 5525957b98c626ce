"""Every row of `owner.TABLE` as one trace: how to get there, the input, exactly these effects."""

from collections.abc import Iterator
from typing import Final, get_args

import pytest
from attrs import frozen

from schedule_core import owner as owner_module
from schedule_core.decide import Created, Failed, Listed, Uncertain
from schedule_core.errors import ErrorCode
from schedule_core.owner import (
    BUSY_RECHECK_MS,
    CLOSING,
    TABLE,
    Row,
    ScheduleOwner,
    Stage,
    diagram,
)
from schedule_core.records import (
    ScheduleCreateChange,
    ScheduleDispatchChange,
    ScheduleView,
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
    TimerFired,
    WatchIdle,
)
from tests.core.owner_world import (
    CORRUPT,
    CREATED,
    DELETE,
    FIRST,
    LIST,
    NOW,
    ONE,
    OVERDUE,
    SECOND,
    THREE,
    TO_CALL_APPENDING,
    TO_CALL_CONFIRMING,
    TO_CALL_PREFLIGHT,
    TO_DUE_CLAIMING,
    TO_DUE_CONFIRMING,
    TO_DUE_PREFLIGHT,
    TO_DUE_QUEUEING,
    TO_DUE_RECORDING,
    TWO,
    WAYS,
    Step,
    World,
    admitted,
    at,
    claimed,
    corrupt,
    follow_up,
    holds,
    lost,
    no_clock,
    passed,
    readable,
)

Key = tuple[Stage | None, type[Input], str]


@frozen
class Trace:
    """One row, played.

    Attributes:
        given: the steps from a fresh owner to the stage of the row; for a row of any
            stage, to one of them.
        when: the input of the row.
        then: exactly the effects, those of the next job included.
        stage: the stage afterwards, the first one of the next job if that began.
    """

    given: tuple[Step, ...]
    when: Step
    then: tuple[Effect, ...]
    stage: Stage


IDLE, CALL, DUE = Stage.RESTING, Stage.CALL_PREFLIGHT, Stage.DUE_PREFLIGHT
UNREADABLE_CLOCK: Final = Report(Delayed(Setback.CLOCK_UNREADABLE))
CORRUPT_LOG: Final = Report(Faulted(Fault.CORRUPT_LOG, CORRUPT.position))
DISPATCH: Final = ScheduleDispatchChange(FIRST)
TO_TIMER: Final[tuple[Step, ...]] = (holds(FIRST, 5), holds(SECOND, 9), Recompute(), passed)
TO_WATCH: Final[tuple[Step, ...]] = (*TO_DUE_CLAIMING, PhaseBusy())
TO_CORRUPT: Final[tuple[Step, ...]] = (corrupt, Recompute(), passed)

FROM_OUTSIDE: Final[dict[Key, Trace]] = {
    (None, Recompute, "queues a pass"): Trace((), Recompute(), (AwaitBarrier(),), DUE),
    (None, TimerFired, "queues a pass"): Trace(
        TO_TIMER, TimerFired(at(5)), (SetTimer(at(9)), AwaitBarrier()), DUE
    ),
    (None, BecameIdle, "log holds schedule events: queues a pass"): Trace(
        (), BecameIdle(has_schedule_events=True), (AwaitBarrier(),), DUE
    ),
    (None, BecameIdle, "log holds none: nothing"): Trace(
        (), BecameIdle(has_schedule_events=False), (), IDLE
    ),
    (None, IdleWatchEnded, "queues a pass"): Trace(
        TO_WATCH, IdleWatchEnded(), (AwaitBarrier(),), DUE
    ),
    (None, IdleWatchFailed, "no retry"): Trace(
        TO_WATCH, IdleWatchFailed(), (Report(Delayed(Setback.IDLE_WATCH_FAILED)),), IDLE
    ),
    (None, IdleWatchFailed, "stopped: nothing"): Trace(
        (*TO_WATCH, Stopped()), IdleWatchFailed(), (), IDLE
    ),
    (None, Submitted, "queues a call"): Trace((), Submitted(ONE, LIST), (AwaitBarrier(),), CALL),
    (None, Submitted, "stopped: refused"): Trace(
        (Stopped(),), Submitted(ONE, LIST), (Reply(ONE, CLOSING),), IDLE
    ),
    (None, Cancelled, "waiting: forgotten"): Trace(
        (*TO_CALL_PREFLIGHT, Submitted(TWO, LIST)), Cancelled(TWO), (), CALL
    ),
    (None, Cancelled, "in preflight: will append nothing"): Trace(
        TO_CALL_PREFLIGHT, Cancelled(ONE), (), CALL
    ),
    (None, Cancelled, "later, or unknown: ignored"): Trace(
        TO_CALL_CONFIRMING, Cancelled(ONE), (), Stage.CALL_CONFIRMING
    ),
    (None, Reset, "faulted: works again, queues a pass"): Trace(
        TO_CORRUPT, Reset(), (Report(Recovered()), AwaitBarrier()), DUE
    ),
    (None, Reset, "not faulted: queues a pass"): Trace((), Reset(), (AwaitBarrier(),), DUE),
    (None, Stopped, "waiting calls are refused"): Trace(
        (*TO_TIMER, *TO_CALL_PREFLIGHT, Submitted(TWO, LIST), Recompute(), Submitted(THREE, LIST)),
        Stopped(),
        (SetTimer(None), Reply(TWO, CLOSING), Reply(THREE, CLOSING)),
        CALL,
    ),
    (None, Stopped, "nothing waiting"): Trace((), Stopped(), (), IDLE),
    (None, PhaseBroken, "fault"): Trace(
        (holds(SECOND, 9), *TO_DUE_CONFIRMING, Recompute()),
        PhaseBroken(),
        (SetTimer(None), Report(Faulted(Fault.PHASE_BROKEN))),
        Stage.DUE_CONFIRMING,
    ),
    (None, PhaseBroken, "stopped: nothing"): Trace(
        (*TO_DUE_CONFIRMING, Stopped()), PhaseBroken(), (), Stage.DUE_CONFIRMING
    ),
    (Stage.DUE_CLAIMING, PhaseBroken, "fault"): Trace(
        TO_DUE_CLAIMING, PhaseBroken(), (Report(Faulted(Fault.PHASE_BROKEN)),), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseBroken, "stopped: nothing"): Trace(
        (*TO_DUE_CLAIMING, Stopped()), PhaseBroken(), (), IDLE
    ),
}

OF_A_CALL: Final[dict[Key, Trace]] = {
    (CALL, BarrierFailed, "uncertain"): Trace(
        TO_CALL_PREFLIGHT, BarrierFailed(), (Reply(ONE, Uncertain("create")),), IDLE
    ),
    (CALL, BarrierFailed, "cancelled"): Trace(
        (*TO_CALL_PREFLIGHT, Cancelled(ONE)), BarrierFailed(), (), IDLE
    ),
    (CALL, BarrierPassed, "answered at once"): Trace(
        (Submitted(ONE, LIST),), passed, (Reply(ONE, Listed(())), AwaitBarrier()), DUE
    ),
    (CALL, BarrierPassed, "cancelled"): Trace(
        (*TO_CALL_PREFLIGHT, Cancelled(ONE)), passed, (AwaitBarrier(),), DUE
    ),
    (CALL, BarrierPassed, "stopped: refused"): Trace(
        (*TO_CALL_PREFLIGHT, Stopped()), passed, (Reply(ONE, CLOSING),), IDLE
    ),
    (CALL, BarrierPassed, "bad log"): Trace(
        (corrupt, Submitted(ONE, DELETE)),
        passed,
        (
            Reply(
                ONE,
                Failed(
                    ErrorCode.CORRUPT_SCHEDULE_LOG,
                    "the reminders in this session log cannot be read; nothing was changed",
                ),
            ),
            AwaitBarrier(),
        ),
        DUE,
    ),
    (CALL, BarrierPassed, "log is good again"): Trace(
        (*TO_CORRUPT, Submitted(ONE, LIST), readable),
        passed,
        (Report(Recovered()), Reply(ONE, Listed(())), AwaitBarrier()),
        DUE,
    ),
    (CALL, BarrierPassed, "log is good again, and cancelled"): Trace(
        (*TO_CORRUPT, *TO_CALL_PREFLIGHT, Cancelled(ONE), readable),
        passed,
        (Report(Recovered()), AwaitBarrier()),
        DUE,
    ),
    (CALL, BarrierPassed, "log is good again, and a change"): Trace(
        (*TO_CORRUPT, *TO_CALL_PREFLIGHT, readable),
        passed,
        (Report(Recovered()), Append(ScheduleCreateChange(CREATED))),
        Stage.CALL_APPENDING,
    ),
    (CALL, BarrierPassed, "a change"): Trace(
        TO_CALL_PREFLIGHT,
        passed,
        (Append(ScheduleCreateChange(CREATED)),),
        Stage.CALL_APPENDING,
    ),
    (Stage.CALL_APPENDING, ChangeAppended, "now make it durable"): Trace(
        TO_CALL_APPENDING, ChangeAppended(), (AwaitBarrier(),), Stage.CALL_CONFIRMING
    ),
    (Stage.CALL_APPENDING, AppendFailed, "internal error"): Trace(
        TO_CALL_APPENDING,
        AppendFailed(),
        (
            Reply(
                ONE,
                Failed(
                    ErrorCode.INTERNAL_ERROR, "the change could not be added to the session log"
                ),
            ),
            AwaitBarrier(),
        ),
        DUE,
    ),
    (Stage.CALL_CONFIRMING, BarrierPassed, "done"): Trace(
        TO_CALL_CONFIRMING,
        passed,
        (SetTimer(at(60)), Reply(ONE, Created(ScheduleView(CREATED, "scheduled"))), AwaitBarrier()),
        DUE,
    ),
    (Stage.CALL_CONFIRMING, BarrierFailed, "uncertain"): Trace(
        TO_CALL_CONFIRMING,
        BarrierFailed(),
        (Reply(ONE, Uncertain("create", FIRST)), AwaitBarrier()),
        DUE,
    ),
}

OF_A_PREFLIGHT: Final[dict[Key, Trace]] = {
    (DUE, BarrierFailed, "waits for activity"): Trace(
        TO_DUE_PREFLIGHT, BarrierFailed(), (Report(Delayed(Setback.BARRIER_FAILED)),), IDLE
    ),
    (DUE, BarrierFailed, "stopped"): Trace(
        (*TO_DUE_PREFLIGHT, Stopped()), BarrierFailed(), (), IDLE
    ),
    (DUE, BarrierPassed, "nothing due"): Trace(
        (holds(FIRST, 5), Recompute()), passed, (SetTimer(at(5)),), IDLE
    ),
    (DUE, BarrierPassed, "stopped"): Trace((*TO_DUE_PREFLIGHT, Stopped()), passed, (), IDLE),
    (DUE, BarrierPassed, "faulted meanwhile"): Trace(
        (*TO_DUE_PREFLIGHT, PhaseBroken()), passed, (), IDLE
    ),
    (DUE, BarrierPassed, "bad log: fault"): Trace(
        (*TO_TIMER, Recompute(), corrupt), passed, (SetTimer(None), CORRUPT_LOG), IDLE
    ),
    (DUE, BarrierPassed, "no clock"): Trace(
        (*TO_DUE_PREFLIGHT, no_clock), passed, (UNREADABLE_CLOCK,), IDLE
    ),
    (DUE, BarrierPassed, "due"): Trace(
        (holds(SECOND, 9), *TO_DUE_PREFLIGHT),
        passed,
        (SetTimer(at(9)), ClaimPhase()),
        Stage.DUE_CLAIMING,
    ),
}

OF_A_CLAIM: Final[dict[Key, Trace]] = {
    (Stage.DUE_CLAIMING, PhaseBusy, "waits for idle"): Trace(
        TO_DUE_CLAIMING, PhaseBusy(), (WatchIdle(),), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseBusy, "waits already"): Trace(
        (*TO_WATCH, Recompute(), passed), PhaseBusy(), (), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseBusy, "busy right after idle: waits a second"): Trace(
        (*TO_WATCH, IdleWatchEnded(), passed), PhaseBusy(), (SetTimer(at(1)),), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseBusy, "stopped: waits for nothing"): Trace(
        (*TO_DUE_CLAIMING, Stopped()), PhaseBusy(), (), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseFailed, "waits for activity"): Trace(
        TO_DUE_CLAIMING, PhaseFailed(), (Report(Delayed(Setback.CLAIM_FAILED)),), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseClaimed, "nothing due any more"): Trace(
        (*TO_DUE_CLAIMING, lost(FIRST)), claimed, (ReleasePhase(),), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseClaimed, "stopped"): Trace(
        (*TO_DUE_CLAIMING, Stopped()), claimed, (ReleasePhase(),), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseClaimed, "bad log: fault"): Trace(
        (*TO_DUE_CLAIMING, corrupt), claimed, (CORRUPT_LOG, ReleasePhase()), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseClaimed, "no clock"): Trace(
        (*TO_DUE_CLAIMING, no_clock), claimed, (UNREADABLE_CLOCK, ReleasePhase()), IDLE
    ),
    (Stage.DUE_CLAIMING, PhaseClaimed, "due"): Trace(
        (*TO_DUE_CLAIMING, holds(SECOND, 9)),
        claimed,
        (SetTimer(at(9)), follow_up(OVERDUE)),
        Stage.DUE_QUEUEING,
    ),
    (
        Stage.DUE_CLAIMING,
        PhaseClaimed,
        "due, and queued before a crash: only recorded",
    ): Trace(
        (*TO_DUE_CLAIMING, admitted(FIRST)), claimed, (Append(DISPATCH),), Stage.DUE_RECORDING
    ),
}

OF_A_DELIVERY: Final[dict[Key, Trace]] = {
    (Stage.DUE_QUEUEING, FollowUpQueued, "record it"): Trace(
        TO_DUE_QUEUEING, FollowUpQueued(), (Append(DISPATCH),), Stage.DUE_RECORDING
    ),
    (Stage.DUE_QUEUEING, FollowUpRefused, "waits for activity"): Trace(
        TO_DUE_QUEUEING,
        FollowUpRefused(),
        (Report(Delayed(Setback.FOLLOWUP_REFUSED)), ReleasePhase()),
        IDLE,
    ),
    (Stage.DUE_RECORDING, ChangeAppended, "now make it durable"): Trace(
        TO_DUE_RECORDING,
        ChangeAppended(),
        (Report(Admitted(FIRST, at(-1), NOW)), ReleasePhase(), AwaitBarrier()),
        Stage.DUE_CONFIRMING,
    ),
    (Stage.DUE_RECORDING, AppendFailed, "fault"): Trace(
        (holds(SECOND, 9), *TO_DUE_RECORDING),
        AppendFailed(),
        (SetTimer(None), Report(Faulted(Fault.DISPATCH_NOT_RECORDED)), ReleasePhase()),
        IDLE,
    ),
    (Stage.DUE_CONFIRMING, BarrierPassed, "looks for the next one"): Trace(
        TO_DUE_CONFIRMING, passed, (AwaitBarrier(),), DUE
    ),
    (Stage.DUE_CONFIRMING, BarrierFailed, "waits for activity"): Trace(
        TO_DUE_CONFIRMING, BarrierFailed(), (Report(Delayed(Setback.DISPATCH_UNCONFIRMED)),), IDLE
    ),
    (Stage.DUE_CONFIRMING, BarrierFailed, "stopped"): Trace(
        (*TO_DUE_CONFIRMING, Stopped()), BarrierFailed(), (), IDLE
    ),
}

TRACES: Final = FROM_OUTSIDE | OF_A_CALL | OF_A_PREFLIGHT | OF_A_CLAIM | OF_A_DELIVERY
INPUTS: Final[tuple[type[Input], ...]] = get_args(Input)


def key(row: Row) -> Key:
    return row.stage, row.signal, row.case


def name(row: Row) -> str:
    return f"{row.stage or 'any'}-{row.signal.__name__}-{row.case}"


each_row = pytest.mark.parametrize("row", TABLE, ids=name)


@each_row
def test_a_row_gives_exactly_its_effects(row: Row) -> None:
    trace, world = TRACES[key(row)], World()
    world.feed(*trace.given)
    assert row.stage in {None, world.stage}, "the way leads to the stage of the row"
    assert trace.then == world.feed(trace.when)
    assert trace.stage is world.stage


def test_every_row_has_a_trace_and_every_trace_a_row() -> None:
    assert [] == [key(row) for row in TABLE if key(row) not in TRACES]
    assert TRACES.keys() == {key(row) for row in TABLE}
    assert len(TRACES) == len(TABLE), "no two rows are the same"


@each_row
def test_a_row_says_what_its_trace_shows(row: Row) -> None:
    """Effects and stage, without `SetTimer` and the next job, which no row speaks of."""
    trace, world = TRACES[key(row)], World()
    world.feed(*trace.given)
    before = world.stage
    then = before if row.then is None else row.then
    began = trace.stage is not then
    shown = [type(effect) for effect in trace.then if not isinstance(effect, SetTimer)]
    if began:
        assert Stage.RESTING is then, "only a resting owner takes the next job"
        assert AwaitBarrier is shown.pop(), "which begins with its barrier"
        assert trace.stage in {CALL, DUE}
    if row.signal is Stopped:
        shown = list(dict.fromkeys(shown))  # one `Reply` for each call that waited
    assert list(row.effects) == shown


def test_the_diagram_in_the_docstring_is_the_one_of_the_table() -> None:
    document = owner_module.__doc__ or ""
    _, _, rest = document.partition("<diagram>\n")
    drawn, _, _ = rest.partition("\n</diagram>")
    assert diagram() == drawn


def test_the_table_speaks_of_every_stage_and_every_input() -> None:
    assert set(Stage) == {row.stage for row in TABLE if row.stage} | {Stage.RESTING}
    assert set(INPUTS) == {row.signal for row in TABLE}
    assert all((row.stage is None) == (row.then is None) for row in TABLE), "both, or neither"


def every_input(world: World) -> Iterator[Input]:
    """One of each type; readings are of the world as it is."""
    yield from (Recompute(), TimerFired(at(0)), BecameIdle(has_schedule_events=True))
    yield from (IdleWatchEnded(), IdleWatchFailed(), Submitted(THREE, LIST), Cancelled(THREE))
    yield from (Reset(), Stopped(), PhaseBroken())
    yield from (BarrierPassed(world.reading()), BarrierFailed())
    yield from (PhaseClaimed(world.reading()), PhaseBusy(), PhaseFailed())
    yield from (FollowUpQueued(), FollowUpRefused(), ChangeAppended(), AppendFailed())


ALLOWED: Final = {(row.stage, row.signal) for row in TABLE}
PAIRS: Final = [(stage, signal) for stage in Stage for signal in INPUTS]
WRONG: Final = [(s, i) for s, i in PAIRS if not ALLOWED & {(s, i), (None, i)}]
OUTSIDE: Final = [(s, i) for s, i in PAIRS if (None, i) in ALLOWED and (s, i) not in ALLOWED]


def pair_name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.mark.parametrize(("stage", "signal"), WRONG, ids=pair_name)
def test_an_input_that_cannot_follow_is_refused_and_changes_nothing(
    stage: Stage, signal: type[Input]
) -> None:
    world, twin = World(), World()
    assert world.feed(*WAYS[stage]) == twin.feed(*WAYS[stage])
    (wrong,) = (given for given in every_input(world) if type(given) is signal)
    with pytest.raises(AssertionError, match=f"^{signal.__name__} cannot follow in {stage}$"):
        world.owner.handle(wrong)
    assert stage is world.stage
    assert twin.owner.state == world.owner.state
    for step in every_input(twin):  # whatever is right next, works as if nothing had been
        if (stage, type(step)) in ALLOWED:
            assert twin.feed(step) == world.feed(step)
            return


@pytest.mark.parametrize(("stage", "signal"), OUTSIDE, ids=pair_name)
def test_an_input_from_outside_may_arrive_at_any_time(stage: Stage, signal: type[Input]) -> None:
    """It never moves a job that is under way; an owner at rest may take one."""
    world = World()
    world.feed(*WAYS[stage])
    (outside,) = (given for given in every_input(world) if type(given) is signal)
    effects = world.feed(outside)
    if stage is not Stage.RESTING:
        assert stage is world.stage
        assert AwaitBarrier() not in effects
    else:
        assert (AwaitBarrier() in effects) == (world.stage in {CALL, DUE})


def test_every_stage_can_be_reached_the_way_its_name_says() -> None:
    for stage, way in WAYS.items():
        world = World()
        world.feed(*way)
        assert stage is world.stage
    assert set(Stage) == WAYS.keys()


def test_the_pause_after_a_busy_claim_is_one_second() -> None:
    assert at(1) - NOW == BUSY_RECHECK_MS


def test_signals_that_carry_nothing_are_told_apart_by_kind_alone() -> None:
    """So tests and drivers may compare them, and keep them in sets."""
    once, again = (
        [signal for signal in every_input(World()) if repr(signal).endswith("()")] for _ in "ab"
    )
    assert 13 == len(once)
    assert once == again
    assert 13 == len({*once, *again})
    assert 13 == len({hash(signal) for signal in once}), "a set finds each at its first look"
    assert [type(signal).__name__ + "()" for signal in once] == [repr(signal) for signal in once]
    assert all(one != other for one in once for other in once if one is not other)


def test_a_step_that_is_not_in_the_table_is_refused() -> None:
    """The table is not only told of the machine: each step is held against it."""

    class Astray(ScheduleOwner):
        def _want_pass(self) -> None:
            self._stage = Stage.DUE_RECORDING

    with pytest.raises(AssertionError) as caught:
        Astray().handle(Recompute())
    assert "resting: Recompute must not lead to due_recording" == str(caught.value)
