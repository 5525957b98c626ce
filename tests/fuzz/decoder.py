"""Fuzz targets: whatever the bytes, nothing but the coded errors comes out.

Run in the test suite by hypothesis. With the optional package atheris, and for as long as
you like: `python -m tests.fuzz.decoder`.
"""

import contextlib
import sys

from schedule_adapters.doctor.findings import FindingCode
from schedule_adapters.stores.log_format import BadLine, parse_events
from schedule_core.decoder import decode_change_json, encode_change_json
from schedule_core.errors import ScheduleLogError
from tests.adapters.doctor.log_world import both, header


def change_target(data: bytes) -> None:
    """The decoder of one change: refused with a code, or read the same again."""
    try:
        change = decode_change_json(data)
    except ScheduleLogError:
        return
    assert decode_change_json(encode_change_json(change)) == change


def line_target(data: bytes) -> None:
    """The reader of one line."""
    with contextlib.suppress(BadLine):
        assert parse_events(data)


def log_target(data: bytes) -> None:
    """The doctor, on the bytes alone and as the events of a log; both ways to read agree."""
    for log in (data, header() + data):
        for finding in both(log).findings:
            assert finding.code in set(FindingCode)


TARGETS = (change_target, line_target, log_target)


def target(data: bytes) -> None:
    """All of them."""
    for one in TARGETS:
        one(data)


if __name__ == "__main__":
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore] # optional

    atheris.instrument_all()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
