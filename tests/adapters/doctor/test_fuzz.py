"""The fuzz targets, a little of them in every test run."""

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_core.decoder import encode_change_json
from schedule_core.records import ScheduleChange
from schedule_core.text import json_text
from tests.adapters.doctor.log_world import change, create, json_values
from tests.fuzz.decoder import TARGETS

_words = st.sampled_from(
    ["version", "operation", "schedule", "create", "delete", "dispatch", "id", "kind", "prompt",
     "afterSeconds", "scheduledAt", "at", "after", "2027-01-01T00:00:00.000Z", 1, 1.0, "a", True]
)  # fmt: skip
_almost_changes = st.dictionaries(
    _words.map(str), _words | st.dictionaries(_words.map(str), _words | json_values)
)
_changes: st.SearchStrategy[ScheduleChange] = st.one_of(
    *(st.from_type(member) for member in get_args(ScheduleChange))
)
_documents = (
    st.binary()
    | _changes.map(lambda value: encode_change_json(value).encode())
    | _almost_changes.map(lambda value: json_text(value).encode())
    | _almost_changes.map(lambda value: change(0, value))
    | st.lists(st.sampled_from([create(0), b"\n", b"\0", b"{", b'"'])).map(b"".join)
)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=200)
@given(data=_documents)
def test_nothing_but_coded_errors(target: Callable[[bytes], None], data: bytes) -> None:
    target(data)
