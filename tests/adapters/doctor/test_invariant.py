"""The companion of a live log: what is there, and what is to join it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.doctor.invariant import ScheduleInvariant
from schedule_adapters.sessions import SessionHeader
from schedule_adapters.stores.live_log import LiveLog
from schedule_adapters.testing.stores import SetClock
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.fold import LogFold, fold_log
from schedule_core.ports import SCHEDULE_EVENT_TYPE, SessionEvent
from tests.adapters.doctor.log_world import Life, lives

CREATE = {
    "version": 1,
    "operation": "create",
    "schedule": {
        "id": "a", "kind": "at", "prompt": "tea", "scheduledAt": "2027-01-01T00:00:00.000Z",
    },
}  # fmt: skip
DELETE = {"version": 1, "operation": "delete", "id": "a"}


def log_of(*data: Any, seed_length: object = 0) -> LiveLog:
    """A live log of schedule events."""
    events = [SessionEvent(SCHEDULE_EVENT_TYPE, item, seq=seq) for seq, item in enumerate(data)]
    return LiveLog(SessionHeader("one", 1, seed_length=seed_length), events, SetClock())


def test_bad_log_is_refused_with_the_position() -> None:
    with pytest.raises(ScheduleLogError) as caught:
        ScheduleInvariant.attach(log_of(CREATE, DELETE, DELETE))

    assert (caught.value.fault, caught.value.position) == (LogFault.INACTIVE_ID, 2)


def test_boundary_beyond_the_log_is_refused() -> None:
    log = log_of(CREATE, seed_length=2)
    with pytest.raises(ScheduleLogError) as caught:
        ScheduleInvariant.attach(log)

    assert caught.value.position is None
    assert log.checks == []


def test_bad_events_before_the_boundary_are_ignored() -> None:
    """And its ids are free."""
    log = log_of(7, CREATE, seed_length=2)
    ScheduleInvariant.attach(log)

    log.append(SCHEDULE_EVENT_TYPE, CREATE)


@pytest.mark.parametrize("bad", [7, CREATE, {**DELETE, "id": "b"}, {**DELETE, "extra": 1}])
def test_bad_event_is_kept_out(bad: Any) -> None:
    """The log stays as it was, and good events still enter."""
    log = log_of(CREATE)
    ScheduleInvariant.attach(log)

    for length in (1, 1):
        with pytest.raises(ScheduleLogError) as caught:
            log.append(SCHEDULE_EVENT_TYPE, bad)
        assert log.length == length
        assert caught.value.position == 2  # a checkpoint would stand before it
    log.append("x", bad)
    log.append(SCHEDULE_EVENT_TYPE, DELETE)
    with pytest.raises(ScheduleLogError):
        log.append(SCHEDULE_EVENT_TYPE, DELETE)


def test_other_types_are_not_looked_at() -> None:
    log = log_of()
    ScheduleInvariant.attach(log)

    assert log.append("schedule/changed", 7).data == 7


@given(lives(), st.data())
def test_it_lets_in_what_the_fold_takes(life: Life, data: st.DataObject) -> None:
    """Any event, in any order: refused exactly if the whole log would be."""
    log = log_of()
    ScheduleInvariant.attach(log)
    for event_type, payload in data.draw(st.permutations(life.events)):
        candidate = [*log.events_from(0), SessionEvent(event_type, payload)]
        try:
            fold_log(candidate)
        except ScheduleLogError:
            with pytest.raises(ScheduleLogError):
                log.append(event_type, payload)
        else:
            log.append(event_type, payload)


def test_each_event_is_folded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A look costs what is new, however long the log is."""
    read = 0
    advance = LogFold.advance

    def count(self: LogFold, events: Any) -> None:
        nonlocal read
        before = self.position
        advance(self, events)
        read += self.position - before

    monkeypatch.setattr(LogFold, "advance", count)
    log = log_of()
    ScheduleInvariant.attach(log)
    for number in range(200):
        schedule = {**CREATE["schedule"], "id": f"r{number}"}  # type: ignore[dict-item]
        log.append(SCHEDULE_EVENT_TYPE, {**CREATE, "schedule": schedule})

    assert read <= log.length
