"""Strict version 1: what is not exactly a change is refused, and the fault is named."""

import json
from copy import deepcopy
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from schedule_core.decoder import (
    decode_change,
    decode_change_json,
    encode_change,
    encode_change_json,
    encode_record,
    view_json,
)
from schedule_core.errors import LogFault, ScheduleLogError
from schedule_core.instants import Instant, parse_instant
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

Payload = dict[str, Any]
TARGET = "2026-12-05T12:00:00.000Z"

CREATE_AFTER: Payload = {
    "version": 1,
    "operation": "create",
    "schedule": {
        "id": "schedule-1",
        "kind": "after",
        "prompt": "check logs",
        "afterSeconds": 30,
        "scheduledAt": TARGET,
    },
}
CREATE_AT: Payload = {
    "version": 1,
    "operation": "create",
    "schedule": {"id": "s", "kind": "at", "prompt": "p", "scheduledAt": TARGET},
}
DELETE: Payload = {"version": 1, "operation": "delete", "id": "schedule-1"}
DISPATCH: Payload = {"version": 1, "operation": "dispatch", "id": "schedule-1"}


def _fault(payload: object) -> ScheduleLogError:
    with pytest.raises(ScheduleLogError) as caught:
        decode_change(payload)
    return caught.value


@pytest.mark.parametrize(
    ("payload", "change"),
    [
        (
            CREATE_AFTER,
            ScheduleCreateChange(
                AfterScheduleRecord(
                    ScheduleId("schedule-1"),
                    Prompt("check logs"),
                    DelaySeconds(30),
                    parse_instant(TARGET),
                )
            ),
        ),
        (
            CREATE_AT,
            ScheduleCreateChange(
                AtScheduleRecord(ScheduleId("s"), Prompt("p"), parse_instant(TARGET))
            ),
        ),
        (DELETE, ScheduleDeleteChange(ScheduleId("schedule-1"))),
        (DISPATCH, ScheduleDispatchChange(ScheduleId("schedule-1"))),
    ],
)
def test_each_change_reads_and_writes(payload: Payload, change: ScheduleChange) -> None:
    assert change == decode_change(payload)
    assert payload == encode_change(change)
    # Key order is part of the text that both products write.
    assert json.dumps(payload, separators=(",", ":")) == encode_change_json(change)


@given(change=...)
def test_any_change_survives_its_encoding(change: ScheduleChange) -> None:
    """All of Unicode and lone surrogates included, as a value, as text and as bytes."""
    text = encode_change_json(change)

    assert change == decode_change(encode_change(change))
    assert change == decode_change_json(text)
    assert change == decode_change_json(text.encode())
    assert "\n" not in text


@given(change=...)
def test_any_change_without_one_of_its_fields_is_refused(change: ScheduleChange) -> None:
    payload = encode_change(change)
    for name in payload:
        less = {key: payload[key] for key in payload if key != name}
        assert LogFault.MISSING_FIELD == _fault(less).fault
        assert f"{name} is missing" == _fault(less).detail


def _with(changes: Payload, payload: Payload = CREATE_AFTER) -> Payload:
    return {**deepcopy(payload), **changes}


def _with_record(changes: Payload, payload: Payload = CREATE_AFTER) -> Payload:
    return _with({"schedule": {**payload["schedule"], **changes}}, payload)


def _without_record(name: str) -> Payload:
    damaged = deepcopy(CREATE_AFTER)
    del damaged["schedule"][name]
    return damaged


_NO_OPERATIONS: list[object] = ["", "Create", "update", "create ", None, 1, ["create"], {}]

FAULTS: list[tuple[object, LogFault]] = [
    *((value, LogFault.WRONG_TYPE) for value in (None, True, 1, "x", [], [DELETE])),
    (_with({"schedule": None}), LogFault.WRONG_TYPE),
    (_with({"schedule": [CREATE_AFTER["schedule"]]}), LogFault.WRONG_TYPE),
    (_with({"id": 5}, DELETE), LogFault.WRONG_TYPE),
    (_with({"id": None}, DISPATCH), LogFault.WRONG_TYPE),
    (_with_record({"id": 1}), LogFault.WRONG_TYPE),
    (_with_record({"prompt": ["x"]}), LogFault.WRONG_TYPE),
    ({}, LogFault.MISSING_FIELD),
    ({"version": 1}, LogFault.MISSING_FIELD),
    ({"version": 1, "operation": "create"}, LogFault.MISSING_FIELD),
    ({"version": 1, "operation": "delete"}, LogFault.MISSING_FIELD),
    (_with({"schedule": {}}), LogFault.MISSING_FIELD),
    *(
        (_without_record(name), LogFault.MISSING_FIELD)
        for name in ("id", "kind", "prompt", "afterSeconds", "scheduledAt")
    ),
    (_with({"extra": 1}), LogFault.EXTRA_FIELD),
    (_with({"id": "x"}), LogFault.EXTRA_FIELD),
    (_with({"schedule": 1}, DELETE), LogFault.EXTRA_FIELD),
    (_with({"every_seconds": 60}), LogFault.EXTRA_FIELD),
    (_with({5: 1}, DELETE), LogFault.EXTRA_FIELD),  # type: ignore[dict-item] # no JSON key
    (_with_record({"timeZone": "UTC"}), LogFault.EXTRA_FIELD),
    (_with_record({"afterSeconds": 30}, CREATE_AT), LogFault.EXTRA_FIELD),
    (_with_record({"after_seconds": 30}), LogFault.EXTRA_FIELD),
    *(
        (_with({"version": version}), LogFault.UNKNOWN_VERSION)
        for version in (0, 2, -1, 1.5, True, "1", None, [1], float("nan"))
    ),
    *((_with({"operation": word}), LogFault.UNKNOWN_OPERATION) for word in _NO_OPERATIONS),
    *(
        (_with_record({"kind": word}), LogFault.UNKNOWN_KIND)
        for word in ("", "AFTER", "every", "cron", None, 1, ["at"])
    ),
    *(
        (_with({"id": text}, DELETE), LogFault.UNTRIMMED_TEXT)
        for text in ("", " ", " a", "a\n", "\ufeffa", "a\u2029")
    ),
    (_with_record({"id": "a "}), LogFault.UNTRIMMED_TEXT),
    (_with_record({"prompt": ""}), LogFault.UNTRIMMED_TEXT),
    (_with_record({"prompt": "\ta"}), LogFault.UNTRIMMED_TEXT),
    *(
        (_with_record({"afterSeconds": seconds}), LogFault.INVALID_DELAY)
        for seconds in (0, -1, 0.5, True, "30", None, [30], 2**53, float("inf"), float("nan"))
    ),
    *(
        (_with_record({"scheduledAt": text}), LogFault.NON_CANONICAL_INSTANT)
        for text in ("", "2026-12-05T12:00:00Z", "2026-02-30T12:00:00.000Z", None, 0, [TARGET])
    ),
]


@pytest.mark.parametrize(("payload", "fault"), FAULTS)
def test_each_damage_has_its_own_fault(payload: object, fault: LogFault) -> None:
    error = _fault(payload)

    assert fault == error.fault
    assert error.position is None
    assert "check logs" not in str(error), "never the text of a prompt"


def test_every_fault_of_a_payload_was_tried() -> None:
    """The rest of the closed set belongs to the text around it and to the fold."""
    elsewhere = {
        LogFault.NOT_JSON,
        LogFault.REUSED_ID,
        LogFault.INACTIVE_ID,
        LogFault.INVALID_SEED_LENGTH,
    }
    assert set(LogFault) == {fault for _, fault in FAULTS} | elsewhere


@pytest.mark.parametrize("text", ["", "{", "NaN", b"\xff", "[" * 100_000, "1" * 5_000, "{}\n{}"])
def test_text_that_is_no_json_is_a_fault_of_its_own(text: str | bytes) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        decode_change_json(text)
    assert LogFault.NOT_JSON == caught.value.fault
    assert "not_json: the change is not JSON" == str(caught.value)


@pytest.mark.parametrize("number", [pytest.param(1, id="integer"), pytest.param(1.0, id="float")])
def test_integral_float_is_an_integer(number: float) -> None:
    """JSON has one number type: 1.0 is the version 1, and what is kept is an integer."""
    change = decode_change(
        _with_record({"afterSeconds": number * 30}) | {"version": number, "operation": "create"}
    )

    assert decode_change(CREATE_AFTER) == change
    assert isinstance(change, ScheduleCreateChange)
    assert isinstance(change.schedule, AfterScheduleRecord)
    assert type(change.schedule.after_seconds) is int


json_values: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    change=...,
    path=st.sampled_from(["version", "operation", "id", "schedule"]),
    inner=st.sampled_from([None, "id", "kind", "prompt", "afterSeconds", "scheduledAt"]),
    value=json_values,
)
def test_foreign_value_is_never_coerced(
    change: ScheduleChange, path: str, inner: str | None, value: object
) -> None:
    """With any one value replaced, the payload is refused or is read exactly as it stands."""
    payload = encode_change(change)
    place = payload
    if path == "schedule" and inner is not None and "schedule" in payload:
        place, path = payload["schedule"], inner
    place[path] = value
    try:
        again = encode_change(decode_change(payload))
    except ScheduleLogError:
        return
    assert payload == again


@given(text=st.text(st.characters()) | st.binary() | json_values.map(json.dumps))
def test_any_input_is_a_change_or_a_fault_of_the_log(text: str | bytes) -> None:
    try:
        decode_change_json(text)
    except ScheduleLogError as error:
        assert error.position is None  # noqa: PT017 - nothing else may come out


@given(change=..., data=st.data())
def test_any_damage_to_the_text_is_a_change_or_a_fault_of_the_log(
    change: ScheduleChange, data: st.DataObject
) -> None:
    """One byte of a real line altered, dropped or doubled."""
    line = encode_change_json(change).encode()
    place = data.draw(st.integers(0, len(line) - 1))
    put = data.draw(st.sampled_from([b"", bytes([line[place]]) * 2]) | st.binary(max_size=2))
    damaged = line[:place] + put + line[place + 1 :]
    try:
        decode_change_json(damaged)
    except ScheduleLogError as error:
        assert error.position is None  # noqa: PT017 - nothing else may come out


def test_decoded_change_is_a_copy_that_nobody_can_change() -> None:
    payload = deepcopy(CREATE_AFTER)
    change = decode_change(payload)
    assert isinstance(change, ScheduleCreateChange)

    payload["schedule"]["prompt"] = "something else"

    assert "check logs" == change.schedule.prompt
    with pytest.raises(FrozenInstanceError):
        change.schedule.prompt = Prompt("x")  # type: ignore[misc] # that is the point


def test_missing_fields_are_named_in_a_stable_order() -> None:
    """Which of several is named must not change from one process to the next."""
    assert "afterSeconds is missing" == _fault(_with({"schedule": {"kind": "after"}})).detail


def test_extra_fields_are_counted_but_not_quoted() -> None:
    """Their names are a stranger's text."""
    assert "2 unexpected fields" == _fault(_with({"ignore all": 1, "rules": 2})).detail


@given(record=...)
def test_view_is_the_record_with_state_and_delivery_mode(
    record: AfterScheduleRecord | AtScheduleRecord,
) -> None:
    seen = view_json(view(record, record.scheduled_at))

    assert {**encode_record(record), "state": "overdue", "deliveryMode": "session-local"} == seen
    assert ["state", "deliveryMode"] == list(seen)[-2:]
    assert ["id", "kind", "prompt"] == list(seen)[:3]


def test_state_turns_overdue_at_the_target_itself() -> None:
    record = AtScheduleRecord(ScheduleId("s"), Prompt("p"), Instant(1_000))

    assert ["scheduled", "overdue", "overdue"] == [
        view(record, Instant(now)).state for now in (999, 1_000, 1_001)
    ]
