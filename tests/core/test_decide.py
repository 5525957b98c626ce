"""Given a state and a request: what is appended, or what is answered at once."""

import pytest

from schedule_core.decide import (
    CLOCK_UNREADABLE,
    Answer,
    Created,
    CreateRequest,
    Deleted,
    DeleteRequest,
    Failed,
    Limits,
    Listed,
    ListRequest,
    NotFound,
    Request,
    Uncertain,
    confirm,
    decide,
    uncertain,
)
from schedule_core.errors import ErrorCode, ScheduleInputError
from schedule_core.fold import Schedules
from schedule_core.instants import MAX_INSTANT, Instant
from schedule_core.normalizer import new_record
from schedule_core.records import (
    AfterScheduleRecord,
    AtScheduleRecord,
    DelaySeconds,
    Prompt,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    view,
)
from schedule_core.text import MAX_SAFE_INTEGER

NOW = Instant(1_795_996_800_000)  # 2026-11-30T00:00:00Z
LIMITS = Limits()


def _record(number: int, at: Instant = NOW) -> AtScheduleRecord:
    return AtScheduleRecord(ScheduleId(f"schedule-{number}"), Prompt("tea"), at)


def _schedules(*records: AtScheduleRecord) -> Schedules:
    schedules = Schedules()
    for record in records:
        schedules.evolve(ScheduleCreateChange(record))
    return schedules


def _after(seconds: int) -> CreateRequest:
    return CreateRequest(Prompt("tea"), after_seconds=DelaySeconds(seconds))


def test_create_after_a_delay() -> None:
    target = Instant(NOW + 7_200_000)

    assert ScheduleCreateChange(
        AfterScheduleRecord(ScheduleId("schedule-2"), Prompt("tea"), DelaySeconds(7_200), target)
    ) == decide(_after(7_200), _schedules(_record(1)), NOW, LIMITS)


@pytest.mark.parametrize(
    "at",
    [
        "2026-11-30T01:00:00.001+01:00",
        {"date": "2026-11-30", "time": "01:00:00.001", "time_zone": "Europe/Berlin"},
    ],
    ids=["offset", "local"],
)
def test_create_at_a_time(at: object) -> None:
    assert ScheduleCreateChange(_record(1, Instant(NOW + 1))) == decide(
        CreateRequest(Prompt("tea"), at=at), Schedules(), NOW, LIMITS
    )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (_after(MAX_SAFE_INTEGER), ErrorCode.TIME_OUT_OF_RANGE),
        (_after((MAX_INSTANT - NOW) // 1_000 + 1), ErrorCode.TIME_OUT_OF_RANGE),
        (CreateRequest(Prompt("tea"), at="soon"), ErrorCode.INVALID_RULE),
        (CreateRequest(Prompt("tea"), at=None), ErrorCode.INVALID_RULE),
        (CreateRequest(Prompt("tea"), at="2026-11-30T00:00:00Z"), ErrorCode.NOT_FUTURE),
        (
            CreateRequest(
                Prompt("tea"), at={"date": "2030-01-01", "time": "09:00:00", "time_zone": "Here"}
            ),
            ErrorCode.INVALID_TIME_ZONE,
        ),
    ],
)
def test_refused_create_appends_nothing(request_: CreateRequest, code: ErrorCode) -> None:
    answer = decide(request_, Schedules(), NOW, LIMITS)

    assert isinstance(answer, Failed)
    assert code == answer.code


def test_null_at_is_refused_as_a_bad_at() -> None:
    """The model sent `"at": null`; a word about after_seconds would not help it."""
    answer = decide(CreateRequest(Prompt("tea"), at=None), Schedules(), NOW, LIMITS)

    assert Failed(ErrorCode.INVALID_RULE, "at is neither text nor an object") == answer


def test_record_is_made_from_exactly_one_selector() -> None:
    """The tools refuse two at once; so does the function that hosts may call."""
    with pytest.raises(ScheduleInputError) as refusal:
        new_record("schedule-1", "tea", after_seconds=1, at="2030-01-01T09:00:00Z", now=NOW)
    assert ErrorCode.INVALID_SELECTOR == refusal.value.code


def test_last_delay_in_range_is_accepted() -> None:
    change = decide(_after((MAX_INSTANT - NOW) // 1_000), Schedules(), NOW, LIMITS)

    assert isinstance(change, ScheduleCreateChange)
    assert MAX_INSTANT - 999 == change.schedule.scheduled_at


def test_thousandth_reminder_is_the_last_one() -> None:
    """Counted over active ones: ended reminders make room."""
    schedules = _schedules(*map(_record, range(1, 1_000)))
    last = decide(_after(1), schedules, NOW, LIMITS)
    assert isinstance(last, ScheduleCreateChange)
    schedules.evolve(last)

    assert 1_000 == schedules.active_count
    assert Failed(ErrorCode.INVALID_RULE, "there are already 1000 active reminders") == decide(
        _after(1), schedules, NOW, LIMITS
    )

    schedules.evolve(ScheduleDispatchChange(ScheduleId("schedule-7")))

    change = decide(_after(1), schedules, NOW, LIMITS)
    assert isinstance(change, ScheduleCreateChange)
    assert "schedule-1001" == change.schedule.id


def test_host_sets_the_limits() -> None:
    assert Failed(ErrorCode.INVALID_RULE, "there are already 1 active reminders") == decide(
        _after(1), _schedules(_record(1)), NOW, Limits(active=1)
    )


def test_list_is_in_the_order_of_the_creates_at_one_reading_of_the_clock() -> None:
    late, due = _record(1, Instant(NOW + 1)), _record(2)

    assert Listed((view(late, NOW), view(due, NOW))) == decide(
        ListRequest(), _schedules(late, due), NOW, LIMITS
    )
    assert ["scheduled", "overdue"] == [view(late, NOW).state, view(due, NOW).state]
    assert Listed(()) == decide(ListRequest(), Schedules(), NOW, LIMITS)


def test_delete_of_an_active_reminder() -> None:
    schedule_id = ScheduleId("schedule-1")
    for now in (NOW, None):  # a delete needs no clock
        assert ScheduleDeleteChange(schedule_id) == decide(
            DeleteRequest(schedule_id), _schedules(_record(1)), now, LIMITS
        )


def test_delete_of_an_unknown_or_ended_reminder_appends_nothing() -> None:
    schedules = _schedules(_record(1), _record(2))
    schedules.evolve(ScheduleDeleteChange(ScheduleId("schedule-1")))
    schedules.evolve(ScheduleDispatchChange(ScheduleId("schedule-2")))

    for text in ("schedule-1", "schedule-2", "schedule-3", "Schedule-1"):
        schedule_id = ScheduleId(text)
        assert NotFound(schedule_id) == decide(DeleteRequest(schedule_id), schedules, NOW, LIMITS)


@pytest.mark.parametrize("request_", [_after(1), ListRequest()])
def test_unreadable_clock_decides_nothing(request_: Request) -> None:
    assert CLOCK_UNREADABLE == decide(request_, Schedules(), None, LIMITS)
    assert ErrorCode.INTERNAL_ERROR == CLOCK_UNREADABLE.code


@pytest.mark.parametrize(
    ("change", "now", "answer"),
    [
        (
            ScheduleCreateChange(_record(1, Instant(NOW + 1_000))),
            NOW,
            Created(view(_record(1, Instant(NOW + 1_000)), NOW)),
        ),
        (ScheduleCreateChange(_record(1)), None, CLOCK_UNREADABLE),
        (
            ScheduleDeleteChange(ScheduleId("schedule-1")),
            None,
            Deleted(ScheduleId("schedule-1")),
        ),
    ],
)
def test_durable_change_is_confirmed(
    change: ScheduleChange, now: Instant | None, answer: Answer
) -> None:
    assert answer == confirm(change, now)


def test_slow_barrier_shows_in_the_answer() -> None:
    """The confirmation has its own reading of the clock: due by then is overdue."""
    answer = confirm(ScheduleCreateChange(_record(1)), NOW)

    assert isinstance(answer, Created)
    assert "overdue" == answer.view.state


def test_dispatch_is_no_answer_to_anyone() -> None:
    with pytest.raises(AssertionError, match="no management call dispatches"):
        confirm(ScheduleDispatchChange(ScheduleId("schedule-1")), NOW)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (_after(1), Uncertain("create")),
        (ListRequest(), Uncertain("list")),
        (DeleteRequest(ScheduleId("x")), Uncertain("delete", ScheduleId("x"))),
    ],
)
def test_failed_first_barrier_names_what_was_asked(request_: Request, answer: Uncertain) -> None:
    """The id only for delete: a create has none yet."""
    assert answer == uncertain(request_)
