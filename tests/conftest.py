"""What every test may count on: hypothesis profiles, and how to draw values of the core.

The types register their strategies here, so a test asks for a value by its type alone:
`st.from_type(ScheduleChange)`.
"""

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from schedule_core.instants import MAX_INSTANT, MIN_INSTANT, Instant
from schedule_core.records import DelaySeconds, Prompt, ScheduleId
from schedule_core.text import MAX_SAFE_INTEGER, trim

settings.register_profile("fast", max_examples=100, deadline=None)
settings.register_profile("thorough", max_examples=5_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_AWKWARD = (
    '"\\/\b\t\n\v\f\r\0\x1c\x1f\x7f\x85\xa0\u2028\u2029\u202e\ufeff\ud800\udbff\udc00\udfff😀'
)
"""Characters that some reader escapes, trims, splits at or refuses."""


def _as_utf16(text: str) -> str:
    """The text as JavaScript has it, where a surrogate pair is one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


# st.text() alone leaves surrogates out; characters() has every code point.
_any_text = st.text(st.characters() | st.sampled_from(_AWKWARD)).map(_as_utf16)
_trimmed_text = _any_text.map(trim).filter(bool)

st.register_type_strategy(str, _any_text)
st.register_type_strategy(Instant, st.integers(MIN_INSTANT, MAX_INSTANT).map(Instant))
st.register_type_strategy(Prompt, _trimmed_text.map(Prompt))
st.register_type_strategy(ScheduleId, _trimmed_text.map(ScheduleId))
st.register_type_strategy(DelaySeconds, st.integers(1, MAX_SAFE_INTEGER).map(DelaySeconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each fault script counted; here, for under xdist no other conftest is asked."""
    for test in terminalreporter.getreports("passed"):
        for name, words in test.user_properties:
            if name == "faults":
                terminalreporter.write_line(f"{test.nodeid.rpartition('::')[2]}: {words}")
