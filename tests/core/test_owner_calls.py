"""The management calls of the owner: what each does, step by step, and what it answers.

"B49" in a docstring is the number of the behaviour in the survey of the published original
that the rule comes from.
"""

from typing import Final

import pytest

from schedule_core.decide import (
    Created,
    CreateRequest,
    Deleted,
    DeleteRequest,
    Failed,
    Limits,
    Listed,
    NotFound,
    Request,
    Uncertain,
)
from schedule_core.errors import ErrorCode
from schedule_core.owner import ScheduleOwner, Stage
from schedule_core.records import (
    Prompt,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleView,
)
from schedule_core.signals import (
    Append,
    AppendFailed,
    AwaitBarrier,
    BarrierFailed,
    Cancelled,
    ChangeAppended,
    Delayed,
    Fault,
    Faulted,
    Recompute,
    Reply,
    Report,
    Setback,
    SetTimer,
    Submitted,
)
from tests.core.owner_world import (
    CREATE,
    CREATED,
    DELETE,
    FIRST,
    LIST,
    ONE,
    SECOND,
    THIRD,
    THREE,
    TO_CALL_CONFIRMING,
    TWO,
    Step,
    World,
    all_effects,
    at,
    clock,
    corrupt,
    holds,
    lost,
    no_clock,
    passed,
    reminder,
    unreadable,
)

CORRUPT_ANSWER: Final = Failed(
    ErrorCode.CORRUPT_SCHEDULE_LOG,
    "the reminders in this session log cannot be read; nothing was changed",
)
UNREADABLE_ANSWER: Final = Failed(ErrorCode.INTERNAL_ERROR, "the session log could not be read")
NO_CLOCK_ANSWER: Final = Failed(ErrorCode.INTERNAL_ERROR, "the clock could not be read")
APPEND_ANSWER: Final = Failed(
    ErrorCode.INTERNAL_ERROR, "the change could not be added to the session log"
)


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        (None, ErrorCode.INVALID_RULE),
        (7, ErrorCode.INVALID_RULE),
        ("2027-01-15T08:00:00.000Z", ErrorCode.NOT_FUTURE),
        ("9999-12-31T23:59:59.999-01:00", ErrorCode.TIME_OUT_OF_RANGE),
        (
            {"date": "2027-02-01", "time": "08:00:00", "time_zone": "Berlin"},
            ErrorCode.INVALID_TIME_ZONE,
        ),
    ],
)
def test_a_selector_is_judged_after_the_preflight(selector: object, code: ErrorCode) -> None:
    """B48. One barrier, no append, and the owner looks for due work all the same."""
    world = World()
    request = CreateRequest(Prompt("tea"), at=selector)
    assert (AwaitBarrier(),) == world.feed(Submitted(ONE, request))
    reply, following = world.feed(passed)
    assert isinstance(reply, Reply)
    assert isinstance(reply.answer, Failed)
    assert (ONE, code) == (reply.ticket, reply.answer.code)
    assert AwaitBarrier() == following


def test_a_create_is_answered_when_it_is_durable() -> None:
    """B49, W1. Barrier, append, barrier, timer, answer; then a pass."""
    world = World()
    assert [
        AwaitBarrier(),
        Append(ScheduleCreateChange(CREATED)),
        AwaitBarrier(),
        SetTimer(CREATED.scheduled_at),
        Reply(ONE, Created(ScheduleView(CREATED, "scheduled"))),
        AwaitBarrier(),
    ] == all_effects(world, Submitted(ONE, CREATE), passed, ChangeAppended(), passed, passed)


def test_a_create_that_took_until_its_target_is_answered_as_overdue() -> None:
    """B49. The view is of the clock at the answer, not at the decision."""
    world = World()
    world.feed(*TO_CALL_CONFIRMING, clock(60))
    answer = Created(ScheduleView(CREATED, "overdue"))
    assert (Reply(ONE, answer), AwaitBarrier()) == world.feed(passed)


def test_a_list_is_one_barrier_and_one_look_at_the_clock() -> None:
    """B50. In the order of the creates; then a pass."""
    world = World()
    world.feed(holds(FIRST, 5), holds(SECOND, 0), Submitted(ONE, LIST))
    views = (
        ScheduleView(reminder(FIRST, 5), "scheduled"),
        ScheduleView(reminder(SECOND, 0), "overdue"),
    )
    assert (SetTimer(at(5)), Reply(ONE, Listed(views)), AwaitBarrier()) == world.feed(passed)


def test_a_delete_is_answered_when_it_is_durable() -> None:
    """B51. Two barriers, and a pass after each look at the log, of which one is enough."""
    world = World()
    assert [
        AwaitBarrier(),
        SetTimer(at(5)),
        Append(ScheduleDeleteChange(FIRST)),
        AwaitBarrier(),
        Reply(ONE, Deleted(FIRST)),
        AwaitBarrier(),
        SetTimer(None),
    ] == all_effects(
        world, holds(FIRST, 5), Submitted(ONE, DELETE), passed, ChangeAppended(), passed, passed
    )


def test_a_delete_takes_its_reminder_off_the_timer() -> None:
    """B51. The pass after it sets the timer for the next one, or for none."""
    world = World()
    world.feed(holds(FIRST, 5), holds(SECOND, 9), Recompute(), passed)
    world.feed(Submitted(ONE, DELETE), passed, ChangeAppended(), passed)
    assert (SetTimer(at(9)),) == world.feed(passed)
    world.feed(Submitted(TWO, DeleteRequest(SECOND)), passed, ChangeAppended(), passed)
    assert (SetTimer(None),) == world.feed(passed)


def test_a_delete_of_what_is_not_active_appends_nothing() -> None:
    """B51. Unknown and finished ids alike; one barrier."""
    world = World()
    world.feed(holds(FIRST, 5), lost(FIRST))
    for request in (DELETE, DeleteRequest(SECOND)):
        world.feed(Submitted(ONE, request))
        assert (Reply(ONE, NotFound(request.id)), AwaitBarrier()) == world.feed(passed)
        world.feed(passed)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (CREATE, Uncertain("create")),
        (LIST, Uncertain("list")),
        (DELETE, Uncertain("delete", FIRST)),
    ],
)
def test_a_failed_preflight_of_a_call_is_uncertain_and_nothing_is_looked_at(
    request_: Request, answer: Uncertain
) -> None:
    """B52. Not even a corrupt log; and no pass follows."""
    world = World()
    world.feed(corrupt, Submitted(ONE, request_))
    assert (Reply(ONE, answer),) == world.feed(BarrierFailed())
    assert Stage.RESTING is world.stage


def test_an_unconfirmed_create_is_found_by_the_next_call() -> None:
    """B53. Uncertain, with its id; a later list shows it and the pass after it arms it."""
    world = World()
    world.feed(Submitted(ONE, CREATE), passed, ChangeAppended())
    reply = Reply(ONE, Uncertain("create", FIRST))
    assert (reply, AwaitBarrier()) == world.feed(BarrierFailed())  # of the preflight's wish
    world.feed(BarrierFailed(), Submitted(TWO, LIST))
    listed = Listed((ScheduleView(CREATED, "scheduled"),))
    timer = SetTimer(CREATED.scheduled_at)
    assert (timer, Reply(TWO, listed), AwaitBarrier()) == world.feed(passed)
    assert () == world.feed(passed)


def test_an_unconfirmed_delete_keeps_its_effect_in_the_live_log() -> None:
    """B53. It is not delivered either."""
    world = World()
    world.feed(holds(FIRST, -1), Submitted(ONE, DELETE), passed, ChangeAppended())
    reply = Reply(ONE, Uncertain("delete", FIRST))
    assert (reply, AwaitBarrier()) == world.feed(BarrierFailed())
    assert () == world.feed(passed)


@pytest.mark.parametrize("request_", [CREATE, LIST, DELETE])
@pytest.mark.parametrize(
    ("trouble", "answer", "fault"),
    [
        (corrupt, CORRUPT_ANSWER, Faulted(Fault.CORRUPT_LOG, 7)),
        (unreadable, UNREADABLE_ANSWER, Faulted(Fault.UNREADABLE_LOG)),
    ],
)
def test_a_bad_log_is_answered_in_fixed_words(
    request_: Request, trouble: Step, answer: Failed, fault: Faulted
) -> None:
    """B54. By every call, also once the pass after the first one has faulted."""
    world = World()
    world.feed(trouble, Submitted(ONE, request_))
    assert (Reply(ONE, answer), AwaitBarrier()) == world.feed(passed)
    assert (Report(fault),) == world.feed(passed)
    world.feed(Submitted(TWO, request_))
    assert (Reply(TWO, answer),) == world.feed(passed)


@pytest.mark.parametrize("request_", [CREATE, DELETE])
def test_a_refused_append_has_no_second_barrier(request_: Request) -> None:
    """B55. The barrier that follows is the one of the pass."""
    world = World()
    world.feed(*([holds(FIRST, 90)] if request_ is DELETE else []))
    world.feed(Submitted(ONE, request_), passed)
    assert (Reply(ONE, APPEND_ANSWER), AwaitBarrier()) == world.feed(AppendFailed())
    assert Stage.DUE_PREFLIGHT is world.stage


@pytest.mark.parametrize("request_", [CREATE, LIST])
def test_without_a_clock_nothing_is_appended(request_: Request) -> None:
    """B56."""
    world = World()
    world.feed(no_clock, Submitted(ONE, request_))
    assert (Reply(ONE, NO_CLOCK_ANSWER), AwaitBarrier()) == world.feed(passed)
    assert (Report(Delayed(Setback.CLOCK_UNREADABLE)),) == world.feed(passed)


def test_a_clock_that_fails_after_the_append_leaves_the_reminder_there() -> None:
    """B56. There is no view to give; the next list shows it."""
    world = World()
    world.feed(*TO_CALL_CONFIRMING, no_clock)
    assert (Reply(ONE, NO_CLOCK_ANSWER), AwaitBarrier()) == world.feed(passed)
    assert world.schedules.active == (CREATED,)


def test_a_delete_needs_no_clock() -> None:
    """B56. Which reminder is active does not depend on the time."""
    world = World()
    world.feed(holds(FIRST, 5), no_clock, Submitted(ONE, DELETE))
    assert (Append(ScheduleDeleteChange(FIRST)),) == world.feed(passed)


CHANGES: Final = (CREATE, DeleteRequest(SECOND))


@pytest.mark.parametrize("request_", CHANGES)
def test_a_call_cancelled_before_its_turn_never_begins(request_: Request) -> None:
    """B57. No barrier, no answer."""
    world = World()
    world.feed(Submitted(ONE, LIST), Submitted(TWO, request_), Submitted(THREE, LIST))
    assert () == world.feed(Cancelled(TWO))
    world.feed(passed)
    assert Reply(THREE, Listed(())) == world.feed(passed)[0]


@pytest.mark.parametrize("request_", CHANGES)
def test_a_call_cancelled_during_its_preflight_appends_nothing(request_: Request) -> None:
    """B57. The barrier was made, so the owner looks for due work; nobody is answered."""
    world = World()
    world.feed(holds(SECOND, 9), Submitted(ONE, request_), Cancelled(ONE))
    assert (SetTimer(at(9)), AwaitBarrier()) == world.feed(passed)
    assert Stage.DUE_PREFLIGHT is world.stage


def test_a_change_of_an_earlier_call_does_not_answer_for_a_cancelled_one() -> None:
    """B57. Whether anything was appended is asked of each call anew."""
    world = World()
    world.feed(*TO_CALL_CONFIRMING, passed, passed, Submitted(TWO, LIST), Cancelled(TWO))
    assert (AwaitBarrier(),) == world.feed(passed)


@pytest.mark.parametrize("request_", CHANGES)
@pytest.mark.parametrize("when", [Stage.CALL_APPENDING, Stage.CALL_CONFIRMING])
def test_after_the_append_a_cancellation_is_not_looked_at(request_: Request, when: Stage) -> None:
    """B57, W11. The barrier completes, and a later list tells the truth."""
    world = World()
    world.feed(holds(SECOND, 9), Submitted(ONE, request_), passed)
    if when is Stage.CALL_APPENDING:
        world.feed(Cancelled(ONE), ChangeAppended())
    else:
        world.feed(ChangeAppended(), Cancelled(ONE))
    assert Stage.CALL_CONFIRMING is world.stage
    answered, _ = world.feed(passed)
    assert isinstance(answered, Reply)
    assert isinstance(answered.answer, (Created, Deleted))
    world.feed(passed)
    left = [reminder(SECOND, 9), reminder(THIRD, 60)] if request_ is CREATE else []
    views = tuple(ScheduleView(record, "scheduled") for record in left)
    assert Reply(TWO, Listed(views)) == world.feed(Submitted(TWO, LIST), passed)[0]


def test_ids_are_never_used_again() -> None:
    """B59. Neither of a deleted reminder nor of a delivered one."""
    world = World()
    world.feed(holds(FIRST, 5), lost(FIRST), holds(THIRD, 5), Submitted(ONE, CREATE))
    _, append = world.feed(passed)
    assert isinstance(append, Append)
    assert isinstance(append.change, ScheduleCreateChange)
    assert append.change.schedule.id == "schedule-4"


def test_no_more_reminders_than_the_host_allows() -> None:
    """The limit is the host's, and counts the active ones."""
    world = World(ScheduleOwner(Limits(active=1)))
    world.feed(holds(FIRST, 5), Submitted(ONE, CREATE))
    refusal = Failed(ErrorCode.INVALID_RULE, "there are already 1 active reminders")
    assert (SetTimer(at(5)), Reply(ONE, refusal), AwaitBarrier()) == world.feed(passed)
