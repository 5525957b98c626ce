"""The log decides: what is active, which ids are spent, and where a bad log is bad."""

from collections.abc import Iterable

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from schedule_core.decoder import encode_change
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.fold import LogFold, Schedules, fold_log
from schedule_core.instants import Instant
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from schedule_core.records import (
    AtScheduleRecord,
    Prompt,
    ScheduleChange,
    ScheduleCreateChange,
    ScheduleDeleteChange,
    ScheduleDispatchChange,
    ScheduleId,
    ScheduleRecord,
)

IDS = [ScheduleId(text) for text in ("schedule-1", "schedule-2", "schedule-3", "a")]
FOREIGN = SessionEvent("user/message", {"text": "hi"})


def _record(schedule_id: str, at: int = 1_000) -> AtScheduleRecord:
    return AtScheduleRecord(ScheduleId(schedule_id), Prompt("check logs"), Instant(at))


def _create(schedule_id: str, at: int = 1_000) -> SessionEvent:
    return _event(ScheduleCreateChange(_record(schedule_id, at)))


def _delete(schedule_id: str) -> SessionEvent:
    return _event(ScheduleDeleteChange(ScheduleId(schedule_id)))


def _dispatch(schedule_id: str) -> SessionEvent:
    return _event(ScheduleDispatchChange(ScheduleId(schedule_id)))


def _event(change: ScheduleChange) -> SessionEvent:
    return SessionEvent(SCHEDULE_EVENT_TYPE, encode_change(change))


@define
class ListLog:
    """The smallest session log: a list, which the tests replace and shorten at will."""

    events: list[SessionEvent] = field(factory=list)
    seed_length: object = 0
    reads: list[int] = field(factory=list)
    """How many events each look gave away."""

    def events_from(self, position: int) -> Iterable[SessionEvent]:
        """The events from there on."""
        assert position >= 0
        suffix = self.events[position:]
        self.reads.append(len(suffix))
        return suffix

    def append_change(self, change: ScheduleChange) -> None:
        """Add one schedule event."""
        self.events.append(_event(change))


Outcome = tuple[tuple[ScheduleRecord, ...], tuple[ScheduleId, ...], ScheduleId] | tuple[str, object]


def _state(schedules: Schedules) -> Outcome:
    return schedules.active, schedules.seen, schedules.next_id()


def _fault(error: ScheduleLogError) -> Outcome:
    return str(error), error.position


def _full(events: list[SessionEvent], seed_length: object = 0) -> Outcome:
    try:
        return _state(fold_log(events, seed_length))
    except ScheduleLogError as error:
        return _fault(error)


def _caught_up(fold: LogFold, log: ListLog) -> Outcome:
    try:
        return _state(fold.catch_up(log))
    except ScheduleLogError as error:
        return _fault(error)


@st.composite
def _valid_logs(draw: st.DrawFn) -> list[SessionEvent]:
    """A log in which every transition is allowed, with foreign events in between."""
    events: list[SessionEvent] = []
    active: list[str] = []
    for number in range(draw(st.integers(0, 12))):
        step = draw(st.sampled_from(["create", "create", "end", "foreign"]))
        if step == "create":
            active.append(f"schedule-{number}")
            events.append(_create(active[-1], draw(st.integers(0, 3))))
        elif step == "end" and active:
            gone = active.pop(draw(st.integers(0, len(active) - 1)))
            events.append(draw(st.sampled_from([_delete, _dispatch]))(gone))
        else:
            events.append(FOREIGN)
    return events


# Mostly wrong: ids used again, transitions of inactive ids, damaged payloads.
_any_events = st.lists(
    st.builds(_create, st.sampled_from(IDS), st.integers(0, 3))
    | st.builds(_delete, st.sampled_from(IDS))
    | st.builds(_dispatch, st.sampled_from(IDS))
    | st.sampled_from([FOREIGN, FOREIGN, SessionEvent(SCHEDULE_EVENT_TYPE, {"version": 2})]),
    max_size=12,
)
_logs = _valid_logs() | _any_events
_boundaries = st.integers(-1, 14) | st.sampled_from([0, 0, 0, 1.0, 1.5, True, None, "1", 2**53])


# --- one state ---------------------------------------------------------------------------


def test_create_delete_and_dispatch() -> None:
    schedules = fold_log(
        [_create("a"), FOREIGN, _create("b"), _delete("a"), _create("c"), _dispatch("c")]
    )

    assert (_record("b"),) == schedules.active
    assert ("a", "b", "c") == schedules.seen
    assert 1 == schedules.active_count
    assert _record("b") == schedules.get(ScheduleId("b"))
    assert schedules.get(ScheduleId("a")) is None
    assert schedules.get(ScheduleId("unknown")) is None


def test_an_id_stays_seen_when_its_reminder_has_ended() -> None:
    schedules = fold_log([_create("a"), _create("b"), _delete("a")])

    assert [True, True, False] == [schedules.has_seen(ScheduleId(each)) for each in "abc"]


def test_check_refuses_what_evolve_would_refuse_and_changes_nothing() -> None:
    schedules = fold_log([_create("a"), _create("b"), _delete("a")])
    before = _state(schedules)
    accepted: list[ScheduleChange] = [
        ScheduleCreateChange(_record("c")),
        ScheduleDeleteChange(ScheduleId("b")),
        ScheduleDispatchChange(ScheduleId("b")),
    ]
    refused: dict[ScheduleChange, LogFault] = {
        ScheduleCreateChange(_record("a")): LogFault.REUSED_ID,
        ScheduleCreateChange(_record("b")): LogFault.REUSED_ID,
        ScheduleDeleteChange(ScheduleId("a")): LogFault.INACTIVE_ID,
        ScheduleDispatchChange(ScheduleId("c")): LogFault.INACTIVE_ID,
    }

    for change in accepted:
        schedules.check(change)
    for change, fault in refused.items():
        with pytest.raises(ScheduleLogError) as caught:
            schedules.check(change)
        assert fault == caught.value.fault
    assert before == _state(schedules)


def test_empty_log_has_nothing() -> None:
    assert ((), (), "schedule-1") == _full([])
    assert fold_log([]).earliest() is None
    assert fold_log([]).next_target(Instant(0)) is None


@pytest.mark.parametrize(
    ("events", "fault", "position"),
    [
        pytest.param([_create("a"), _create("a")], LogFault.REUSED_ID, 1, id="active id again"),
        pytest.param(
            [_create("a"), _delete("a"), _create("a")], LogFault.REUSED_ID, 2, id="deleted id again"
        ),
        pytest.param(
            [_create("a"), FOREIGN, _dispatch("a"), _create("a", 2)],
            LogFault.REUSED_ID,
            3,
            id="dispatched id again",
        ),
        pytest.param([_delete("a")], LogFault.INACTIVE_ID, 0, id="delete of an unknown id"),
        pytest.param(
            [FOREIGN, _dispatch("a")], LogFault.INACTIVE_ID, 1, id="dispatch of an unknown id"
        ),
        pytest.param(
            [_create("a"), _delete("a"), _delete("a")], LogFault.INACTIVE_ID, 2, id="delete twice"
        ),
        pytest.param(
            [_create("a"), _delete("a"), _dispatch("a")],
            LogFault.INACTIVE_ID,
            2,
            id="dispatch after delete",
        ),
        pytest.param(
            [_create("a"), _dispatch("a"), _delete("a")],
            LogFault.INACTIVE_ID,
            2,
            id="delete after dispatch",
        ),
        pytest.param(
            [FOREIGN, SessionEvent(SCHEDULE_EVENT_TYPE, None), _delete("a")],
            LogFault.WRONG_TYPE,
            1,
            id="the first bad event counts",
        ),
        # A record without an id, with an empty one, with a padded one.
        *(
            pytest.param(
                [_create("a"), SessionEvent(SCHEDULE_EVENT_TYPE, data)], fault, 1, id=f"{fault}"
            )
            for data, fault in (
                ({"version": 1, "operation": "delete"}, LogFault.MISSING_FIELD),
                ({"version": 1, "operation": "delete", "id": ""}, LogFault.UNTRIMMED_TEXT),
                ({"version": 1, "operation": "delete", "id": " a"}, LogFault.UNTRIMMED_TEXT),
            )
        ),
    ],
)
def test_bad_log_names_its_first_bad_event(
    events: list[SessionEvent], fault: LogFault, position: int
) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        fold_log(events)
    assert (fault, position) == (caught.value.fault, caught.value.position)


@given(events=_logs)
def test_refused_change_leaves_the_state_alone(events: list[SessionEvent]) -> None:
    fold = LogFold()
    try:
        fold.advance(events)
    except ScheduleLogError as error:
        assert fold.position == error.position  # noqa: PT017 - the state after it is the point
    assert _state(fold.schedules) == _full(events[: fold.position])


def test_ids_are_never_given_twice() -> None:
    """The count of ids ever seen plus one, and up past collisions; gaps are not filled."""
    assert "schedule-2" == fold_log([_create("schedule-1"), _delete("schedule-1")]).next_id()
    assert "schedule-2" == fold_log([_create("x")]).next_id()
    assert "schedule-4" == fold_log([_create("schedule-2"), _create("schedule-3")]).next_id()
    assert "schedule-3" == fold_log([_create("schedule-5"), _create("schedule-1")]).next_id()


@given(events=_valid_logs())
def test_next_id_makes_a_valid_create(events: list[SessionEvent]) -> None:
    schedules = fold_log(events)
    schedule_id = schedules.next_id()

    schedules.evolve(ScheduleCreateChange(_record(schedule_id)))

    assert schedule_id == schedules.seen[-1]
    assert schedule_id != schedules.next_id()


def test_earliest_is_the_smallest_target_and_of_equal_ones_the_earlier_create() -> None:
    schedules = fold_log([_create("a", 3), _create("b", 1), _create("c", 1)])

    order = []
    while (record := schedules.earliest()) is not None:
        order.append(record.id)
        schedules.evolve(ScheduleDispatchChange(record.id))

    assert ["b", "c", "a"] == order


def test_next_target_is_strictly_later() -> None:
    schedules = fold_log([_create("a", 3), _create("b", 1), _create("c", 2)])

    assert [1, 2, 3, None] == [schedules.next_target(Instant(after)) for after in range(4)]


# --- forks -------------------------------------------------------------------------------


def test_fork_neither_lists_nor_ends_what_it_inherited_and_may_use_the_ids_again() -> None:
    events = [_create("schedule-1"), FOREIGN, _create("schedule-1", 5)]

    assert ((_record("schedule-1", 5),), ("schedule-1",), "schedule-2") == _full(events, 2)
    assert ((), (), "schedule-1") == _full(events[:2], 2)
    assert LogFault.INACTIVE_ID == _fold_fault([_create("a"), _delete("a")], 1).fault


def test_bad_events_before_the_boundary_are_the_parents_business() -> None:
    assert ((_record("a"),), ("a",), "schedule-2") == _full([_delete("x"), _create("a")], 1)


@pytest.mark.parametrize(
    "boundary", [-1, 1.5, 3, 2**53, True, None, "1", [1], float("nan"), float("inf")], ids=str
)
def test_boundary_that_counts_no_events_of_the_log_is_refused(boundary: object) -> None:
    """It belongs to no event, so it has no position, even if an event is bad too."""
    for events in ([_create("a"), _create("b")], [_delete("a"), FOREIGN]):
        error = _fold_fault(events, boundary)
        assert (LogFault.INVALID_SEED_LENGTH, None) == (error.fault, error.position)


def _fold_fault(events: list[SessionEvent], boundary: object) -> ScheduleLogError:
    with pytest.raises(ScheduleLogError) as caught:
        fold_log(events, boundary)
    return caught.value


# --- a growing log -------------------------------------------------------------------------


@given(events=_logs, boundary=_boundaries, cuts=st.lists(st.integers(0, 12)))
def test_fold_in_any_pieces_equals_the_fold_of_the_whole(
    events: list[SessionEvent], boundary: object, cuts: list[int]
) -> None:
    """At every look, forks and faults included; so an operation need cost the suffix only."""
    log = ListLog(seed_length=boundary)
    fold = LogFold(boundary)
    for cut in (*sorted(cuts), len(events)):
        log.events = events[:cut]
        assert _full(log.events, boundary) == _caught_up(fold, log)
        assert _full(log.events, boundary) == _caught_up(fold, log), "a second look is the same"


@given(events=_logs, replacement=_logs, boundary=st.integers(0, 2))
def test_fold_notices_a_log_that_was_replaced_or_shortened(
    events: list[SessionEvent], replacement: list[SessionEvent], boundary: int
) -> None:
    """Told apart by the last event read, which carries its number and its time."""
    log = ListLog(_numbered(events, time=1), boundary)
    fold = LogFold(boundary)
    _caught_up(fold, log)

    log.events = _numbered(replacement, time=2)

    assert _full(replacement, boundary) == _caught_up(fold, log)


@given(events=_logs, kept=st.integers(0, 12))
def test_fold_notices_a_log_that_lost_its_end(events: list[SessionEvent], kept: int) -> None:
    log = ListLog(_numbered(events, time=1))
    fold = LogFold()
    _caught_up(fold, log)

    del log.events[kept:]

    assert _full(log.events) == _caught_up(fold, log)


def _numbered(events: list[SessionEvent], time: int) -> list[SessionEvent]:
    return [SessionEvent(event.type, event.data, seq, time) for seq, event in enumerate(events)]


def test_replaced_log_brings_its_own_boundary() -> None:
    log = ListLog([_create("a"), _create("b")])
    fold = LogFold(log.seed_length)
    fold.catch_up(log)

    log.events, log.seed_length = [_create("c"), _create("d")], 1

    assert ("d",) == fold.catch_up(log).seen


def test_emptied_log_has_nothing() -> None:
    log = ListLog([_create("a")])
    fold = LogFold()
    fold.catch_up(log)

    log.events = []

    assert () == fold.catch_up(log).seen
    assert 0 == fold.position


def test_catch_up_takes_the_boundary_from_the_log() -> None:
    """A fold that was made without it, or for another log, must not adopt the parent's."""
    log = ListLog([_create("a"), _create("b")], 1)
    fold = LogFold()

    assert ("b",) == fold.catch_up(log).seen

    log.seed_length = 0

    assert ("a", "b") == fold.catch_up(log).seen


def test_look_costs_the_new_suffix_only() -> None:
    """Each event is read once, and the last one again to prove that the log only grew."""
    log = ListLog([FOREIGN] * 1_000)
    fold = LogFold()

    for number in range(3):
        fold.catch_up(log)
        log.append_change(ScheduleCreateChange(_record(f"schedule-{number}")))

    assert [1_000, 2, 2] == log.reads


def test_bad_event_stays_unread_and_is_met_again() -> None:
    log = ListLog([_create("a"), _delete("x"), _create("b")])
    fold = LogFold()

    assert _caught_up(fold, log) == _caught_up(fold, log)
    assert 1 == fold.position

    log.events[1] = _delete("a")

    assert ((_record("b"),), ("a", "b"), "schedule-3") == _caught_up(fold, log)


def test_boundary_may_still_be_reached_by_a_growing_log() -> None:
    log = ListLog([_create("a")], 2)
    fold = LogFold(2)
    assert LogFault.INVALID_SEED_LENGTH in str(_caught_up(fold, log)[0])

    log.events += [FOREIGN, _create("b")]

    assert ("b",) == fold.catch_up(log).seen


@pytest.mark.parametrize(
    ("events", "seed_length", "expected"),
    [
        ([], 0, False),
        ([FOREIGN], 0, False),
        ([FOREIGN, _create("a")], 0, True),
        ([_create("a"), FOREIGN], 2, True),
    ],
)
def test_fold_knows_whether_the_log_ever_held_a_schedule_event(
    events: list[SessionEvent], seed_length: int, *, expected: bool
) -> None:
    """An inherited one counts, and so does one that cannot be read."""
    fold = LogFold(seed_length)
    fold.catch_up(ListLog(events, seed_length))
    assert expected is fold.has_schedule_events


def test_unreadable_schedule_event_counts_as_one() -> None:
    fold = LogFold()
    with pytest.raises(ScheduleLogError):
        fold.advance([SessionEvent(SCHEDULE_EVENT_TYPE, None)])
    assert fold.has_schedule_events
