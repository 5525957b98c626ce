"""The chat in a terminal, as a person sees it, on the real clock."""

import os
import re
import signal
from pathlib import Path

from tests.e2e.chat_process import Chat, Story, script, seed


def test_a_reminder_comes_back_as_a_later_turn_and_the_typed_line_survives(tmp_path: Path) -> None:
    """The answer names id and time; talk goes on; the status counts down; nothing is lost."""
    with Chat(tmp_path) as chat:
        chat.started()
        assert "no reminders" in chat.status
        chat.say("remind me in 3 seconds to stretch")
        chat.expect(r"I will remind you at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*stretch")
        chat.expect(r"\(schedule-1\)")
        chat.expect_status(r"1 reminder, next schedule-1 in \d s")
        chat.say("hello")
        chat.expect("^Hello!")
        chat.type("half a th")
        chat.expect("^⏰ reminder schedule-1")
        chat.expect(r"^Reminder: stretch \(schedule-1")
        chat.until(lambda: chat.input == "half a th" and "no reminders" in chat.status)
        chat.say("ought")
        chat.until(lambda: chat.text.count("I understand sentences such as") == 1)
        assert 0 == chat.leave()
    story = Story.of(tmp_path)
    assert ["remind me in 3 seconds to stretch", "hello", "schedule-1", "half a thought"] == (
        story.turns
    )
    assert ["completed"] * 4 == story.outcomes
    story.assert_delivered_once("schedule-1")


def test_a_killed_chat_loses_no_reminder_and_repeats_none(tmp_path: Path) -> None:
    """SIGKILL before it is due; the next chat delivers it once, the one after it never."""
    with Chat(tmp_path) as chat:
        chat.started().say("remind me in 4 seconds to stretch")
        chat.expect(r"\(schedule-1\)")
        chat.kill()
    assert ["create"] == Story.of(tmp_path).operations
    with Chat(tmp_path) as chat:
        chat.started().expect("^⏰ reminder schedule-1")
        chat.expect("^Reminder: stretch")
        chat.rests()
        assert 0 == chat.leave()
    Story.of(tmp_path).assert_delivered_once("schedule-1")
    with Chat(tmp_path) as chat:
        chat.started().say("hello")
        chat.expect("^Hello!")
        chat.rests()
        assert 0 == chat.leave()
        assert "⏰" not in chat.text
    Story.of(tmp_path).assert_delivered_once("schedule-1")


def test_a_session_that_is_open_is_refused_to_a_second_process(tmp_path: Path) -> None:
    """One line that names the owner, exit code 1; free again once the owner was killed."""
    with Chat(tmp_path) as chat:
        chat.started()
        refused = script("hello", root=tmp_path)
        assert (1, "") == (refused.returncode, refused.stdout)
        (line,) = refused.stderr.splitlines()
        assert line.endswith(f"the session is open in process {chat.pid}")
        chat.kill()
    assert 0 == script("/list", root=tmp_path).returncode


def test_commands_answer_at_the_prompt(tmp_path: Path) -> None:
    """/help, /list, /delete, /events and what is none of them; /quit says what stays."""
    with Chat(tmp_path) as chat:
        chat.started().say("/help")
        chat.expect("^Everything else goes to the assistant")
        chat.say("/nonsense")
        chat.expect("^! there is no /nonsense; /help lists the commands")
        chat.say("/delete")
        chat.expect("^! which one?")
        chat.say("/delete schedule-7")
        chat.expect("^! there is no active reminder schedule-7")
        chat.say("remind me in 1 hour to rest")
        chat.expect(r"\(schedule-1\)")
        chat.say("remind me in 2 hours to sleep")
        chat.expect(r"\(schedule-2\)")
        chat.say("/list")
        chat.expect(r"^schedule-2  .*\(in 1:59:\d\d\)  sleep")
        chat.say("/delete schedule-1")
        chat.expect("^deleted schedule-1")
        chat.say("/events 1")
        chat.expect("schedule/change +delete schedule-1")
        chat.say("/events many")
        chat.expect("^how many?")
        chat.say("/quit")
        assert 0 == chat.ended()
        assert "1 reminder kept in session main" in chat.text
    assert ["create", "create", "delete"] == Story.of(tmp_path).operations


def test_keys_never_end_the_chat_by_accident(tmp_path: Path) -> None:
    """Ctrl-C clears the line, even while lines are written; Ctrl-D on a line does nothing."""
    with Chat(tmp_path) as chat:
        chat.started().type("not this")
        chat.until(lambda: chat.input == "not this")
        chat.type("\x04")
        chat.type("\x03")
        chat.until(lambda: chat.input == "")
        chat.say("/help")
        for _ in range(20):
            chat.type("\x03")
        chat.expect("^Ctrl-D leaves")
        chat.say("hello")
        chat.expect("^Hello!")
        assert 0 == chat.leave()
        assert "Traceback" not in chat.text
    assert ["hello"] == Story.of(tmp_path).turns


def test_hostile_text_is_shown_and_moves_nothing(tmp_path: Path) -> None:
    """Escapes, marks that reorder a line, markup, a huge word: shown as text, on every path."""
    hostile = "\x1b[2J\x1b]0;owned\x07\u202eEVIL\u202c <b>[red]x[/red] 🧘 日本語"
    word = "w" * 5_000
    seed(tmp_path, f"say {hostile}", word)
    with Chat(tmp_path) as chat:
        chat.started().until(lambda: word in chat.text.replace("\n", ""))
        chat.rests()
        chat.type("half")
        # A pasted colour code looks like a mouse event to prompt_toolkit.
        chat.type("\x1b[31m typed")
        chat.until(lambda: chat.input == "half typed")
        assert chat.text.index("time zone UTC") < chat.text.index("⏰ reminder schedule-1")
        assert "<b>[red]x[/red]" in chat.text
        assert "\u202e" not in chat.text
        assert "Traceback" not in chat.text
        chat.type("\x03")
        chat.until(lambda: chat.input == "")
        assert 0 == chat.leave()


def test_a_narrow_window_and_a_resize_keep_the_typed_line(tmp_path: Path) -> None:
    """40 columns: words are kept whole; after a resize the prompt and its line are there."""
    half = "a line that is longer than forty columns are"
    with Chat(tmp_path, columns=40, rows=20) as chat:
        chat.started().say("remind me in 2 seconds to drink")
        chat.expect(r"\(schedule-1\)")
        assert re.search(r"\bdrink\b", chat.text)
        chat.type(half)
        chat.expect("^⏰ reminder schedule-1")
        chat.expect("^Reminder: drink")
        chat.until(lambda: chat.input.replace("\n", "") == half and "no reminders" in chat.status)
        chat.resize(120, 30)
        chat.until(lambda: chat.input == half and "no reminders" in chat.status)
        chat.type("\x03")
        chat.until(lambda: chat.input == "")
        assert 0 == chat.leave()


def test_a_chat_that_is_asked_to_end_leaves_in_order(tmp_path: Path) -> None:
    """SIGTERM: the session is closed, the terminal is as it was, and the lock is free."""
    with Chat(tmp_path) as chat:
        chat.started()
        os.kill(chat.pid, signal.SIGTERM)
        assert 128 + signal.SIGTERM == chat.ended()
    with Chat(tmp_path) as again:
        again.started()
        assert 0 == again.leave()
