"""A small log, damaged in every way that is small enough to try them all."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_adapters.doctor.findings import FindingCode, Severity
from schedule_adapters.doctor.report import LogReport
from schedule_adapters.stores.log_format import BadLine, parse_events
from tests.adapters.doctor.log_world import (
    TIME,
    Life,
    agrees,
    checkpoint,
    create,
    dispatch,
    header,
    line,
    lives,
)

GOLDEN = b"".join(
    [
        header(),
        checkpoint(0, -1),
        create(1),
        create(2, "é", TIME + 1),
        checkpoint(3, 2),
        dispatch(4),
        line(5),
    ]
)
LAST_DURABLE = GOLDEN.index(checkpoint(3, 2))
"""Where what a later checkpoint calls durable ends."""


def events(log: bytes) -> dict[int, Any]:
    """What each readable line but the header holds, by its index."""
    found: dict[int, Any] = {}
    for index, text in enumerate(log.split(b"\n")[:-1]):
        try:
            found[index] = json.loads(text) if index == 0 else parse_events(text)
        except (BadLine, ValueError):
            continue
    return found


def is_found(report: LogReport) -> bool:
    """Whether the report speaks of an error."""
    return any(finding.severity is Severity.ERROR for finding in report.findings)


def check_damage(log: bytes, damaged: bytes) -> None:
    """Damage is found, or changes at most the one event it lies in.

    The format has no checksums: a letter that becomes another one inside a string is a
    different string, and no reader can know. Nothing else may change without a word.
    """
    report = agrees(damaged)
    if is_found(report):
        return
    before, after = events(log), events(damaged)
    assert before.keys() == after.keys()
    assert sum(before[index] != after[index] for index in before) <= 1


def test_golden_log_is_sound() -> None:
    report = agrees(GOLDEN)

    assert report.findings == ()
    assert (report.seen, len(report.active)) == (("schedule-1", "é"), 1)


def test_every_truncation_is_read_up_to_the_last_whole_line() -> None:
    """Nothing that a checkpoint calls durable is cut, and nothing torn is read."""
    for size in range(len(GOLDEN)):
        report = agrees(GOLDEN[:size])

        whole = GOLDEN[: GOLDEN.rfind(b"\n", 0, size) + 1]
        if whole == b"":
            assert [f.code for f in report.findings] == [FindingCode.BAD_HEADER]
        else:
            assert report.events == whole.count(b"\n") - 1
            assert is_found(report) == (len(whole) < size)


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_found_or_stays_in_its_event(bit: int) -> None:
    for position in range(len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[position] ^= 1 << bit
        check_damage(GOLDEN, bytes(damaged))


def test_every_lost_byte_is_found_or_stays_in_its_event() -> None:
    for position in range(len(GOLDEN)):
        check_damage(GOLDEN, GOLDEN[:position] + GOLDEN[position + 1 :])


def test_damage_below_a_checkpoint_is_never_called_a_torn_tail() -> None:
    """Whatever byte it is: where it makes a line unreadable, the log is refused, not cut."""
    start = len(header())
    for position in range(start, LAST_DURABLE):
        damaged = GOLDEN[:position] + b"\0" + GOLDEN[position + 1 :]
        report = agrees(damaged)

        assert report.torn is None
        assert is_found(report)


@settings(max_examples=300)
@given(lives(), st.data(), st.integers(0, 255))
def test_any_changed_byte_is_found_or_stays_in_its_event(
    life: Life, data: st.DataObject, byte: int
) -> None:
    log = life.log()
    position = data.draw(st.integers(0, len(log) - 1))

    check_damage(log, log[:position] + bytes([byte]) + log[position + 1 :])
