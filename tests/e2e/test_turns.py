"""Turns that take long: what ends them, and what waits for their end."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from schedule_core import render_reminder
from tests.adapters.agents.agent_world import ScriptedProvider
from tests.e2e.chat_process import TIMEOUT_S, Chat, Story

CREATE: Final[dict[str, Any]] = {
    "name": "schedule_create",
    "arguments": {"prompt": "stretch", "after_seconds": 3},
}


class Stalled(list[str]):
    """An answer that does not come before it is released."""

    def __init__(self, *pieces: str) -> None:
        super().__init__(pieces)
        self.asked, self.released = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.asked.set()
        self.released.wait(TIMEOUT_S)
        return super().__iter__()


def model_of(provider: ScriptedProvider) -> dict[str, str]:
    return {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "not-a-key"}


def test_what_falls_due_in_a_turn_waits_for_its_end_and_for_what_was_typed(tmp_path: Path) -> None:
    """Ctrl-C ends the turn; the typed-ahead message is next, then the reminder, each its own."""
    stalled = Stalled("too late")
    answers = (CREATE, ["It is set."], stalled, ["The second answer."], ["Time to stretch."])
    with (
        ScriptedProvider(*answers) as provider,
        Chat(tmp_path, ("--model", "openai-chat:scripted"), model_of(provider)) as chat,
    ):
        chat.started().say("in 3 seconds: stretch")
        chat.expect("^It is set")
        chat.say("think about it")
        chat.expect_status(r"answering \(Ctrl-C ends it\)")
        chat.say("and this?")
        chat.type("half a line")
        chat.expect_status("a due reminder waits for the turn to end$")
        assert stalled.asked.wait(TIMEOUT_S)  # else the next turn would get this answer
        assert "⏰" not in chat.text
        chat.type("\x03")
        chat.expect(r"^\[turn ended\]\n(?:you> .*\n)*The second answer\.\n⏰ reminder schedule-1")
        chat.expect("^Time to stretch")
        chat.rests()
        assert "half a line" == chat.input
        stalled.released.set()
        chat.type("\x03")
        chat.until(lambda: chat.input == "")
        assert 0 == chat.leave()
    story = Story.of(tmp_path)
    assert ["in 3 seconds: stretch", "think about it", "and this?", "schedule-1"] == story.turns
    assert ["completed", "cancelled", "completed", "completed"] == story.outcomes
    story.assert_delivered_once("schedule-1")
    (record,) = story.created
    assert render_reminder(record) == provider.requests[-1]["messages"][-1]["content"]


def test_a_failed_turn_is_one_line_and_the_chat_goes_on(tmp_path: Path) -> None:
    """The model's server is gone: the turn fails, the next one works with what was said."""
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "not-a-key"}
    with Chat(tmp_path, ("--model", "openai-chat:scripted"), environ) as chat:
        chat.started().say("hello")
        chat.expect("^! this turn failed: ModelConnectionError")
        chat.say("/list")
        chat.expect("^no reminders")
        assert 0 == chat.leave()
        assert "Traceback" not in chat.text
    assert ["failed"] == Story.of(tmp_path).outcomes
