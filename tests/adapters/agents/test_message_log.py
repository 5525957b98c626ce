"""A framework's conversation in the session's log: what goes in, comes out, or is refused."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.agents.message_log import (
    ConversationError,
    MessageLog,
    sendable,
    sendable_value,
)
from schedule_adapters.events import MESSAGES
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_core.ports import SessionEvent
from tests.adapters.agents.agent_world import MemorySession


def numbers(session: MemorySession) -> MessageLog[int]:
    return MessageLog(session, "numbers/1", int, str)


def test_each_turn_is_read_as_the_messages_that_it_added() -> None:
    session = MemorySession()
    assert [1, 2] == numbers(session).add([1, 2])
    assert [] == numbers(session).add([])
    assert [3] == numbers(session).add([3])
    assert [[1, 2], [], [3]] == numbers(session).turns()
    assert {"format": "numbers/1", "messages": ["1", "2"]} == session.events[0].data


def test_events_of_others_are_passed_over() -> None:
    session = MemorySession(
        [
            SessionEvent("schedule/change", {"format": "numbers/1", "messages": ["1"]}),
            SessionEvent(MESSAGES.name, {"format": "letters/1", "messages": ["a"]}),
            SessionEvent(MESSAGES.name, ["1"]),
        ]
    )
    assert [] == numbers(session).turns()


@pytest.mark.parametrize("rest", [{}, {"messages": None}, {"messages": ["one"]}])
def test_what_cannot_be_read_is_refused_with_its_event(rest: dict[str, Any]) -> None:
    session = MemorySession([SessionEvent(MESSAGES.name, {"format": "numbers/1", **rest}, 7)])
    with pytest.raises(ConversationError, match="event 7 is not numbers/1") as caught:
        numbers(session).turns()
    assert 7 == caught.value.seq


def test_what_could_not_be_read_again_is_not_added() -> None:
    session = MemorySession()
    with pytest.raises(ValueError, match="one"):
        MessageLog(session, "numbers/1", int, lambda _: "one").add([1])
    assert [] == session.events


def test_a_log_that_refuses_says_so() -> None:
    refusal = StoreError(StoreErrorCode.SESSION_CLOSED, "closed")
    with pytest.raises(StoreError):
        numbers(MemorySession(refuse=refusal)).add([1])


@given(st.text(st.characters() | st.sampled_from("\ud800\udfff\ude00\U0001f600")))
def test_every_text_becomes_one_that_utf_8_can_hold(text: str) -> None:
    sent = sendable(text)
    assert sent == sent.encode("utf-8").decode("utf-8")
    assert sent == sendable(sent)


def test_halves_that_belong_together_become_one_character() -> None:
    assert "a\U0001f600\ufffd" == sendable("a\ud83d\ude00\ud83d")


def test_what_json_cannot_hold_becomes_its_text() -> None:
    value = {"day": date(2026, 11, 30), "texts": ["\ud800"]}
    assert {"day": "2026-11-30", "texts": ["\ufffd"]} == sendable_value(value)
