"""What of a session's output is shown, as whole lines; the same for a terminal and a script."""

from collections.abc import Callable
from typing import Literal

from schedule_adapters.inbox import QueuedInput
from schedule_adapters.turn_driver import TextDelta, ToolCalled
from schedule_adapters.turns import SessionOutput, TurnEnded, TurnStarted
from schedule_adapters.wording import one_line

Kind = Literal["assistant", "reminder", "note", "error"]


class Transcript:
    """Turns what a session puts out into lines; a turn's text arrives line by line."""

    def __init__(self, show: Callable[[Kind, str], None]) -> None:
        self._show = show
        self._pending = ""  # the assistant's text since its last line break

    def take(self, output: SessionOutput) -> None:
        """Show one output."""
        match output:
            case TurnStarted(queued):
                if queued.source == "reminder":
                    self._show("reminder", f"reminder {one_line(queued.schedule_id or '')}")
            case TextDelta(text):
                *lines, self._pending = (self._pending + text).split("\n")
                for line in lines:
                    self._show("assistant", line)
            case ToolCalled(name):
                self._flush()
                self._show("note", f"[{one_line(name)}]")
            case TurnEnded():
                self._flush()
                self._show_end(output)

    def _flush(self) -> None:
        if self._pending:
            self._show("assistant", self._pending)
            self._pending = ""

    def _show_end(self, ended: TurnEnded) -> None:
        if ended.outcome == "interrupted":
            self._show("note", f"[cut off when the program ended: {_what(ended.input)}]")
        elif ended.outcome == "cancelled":
            self._show("note", "[turn ended]")
        if ended.outcome == "failed":
            self._show("error", f"this turn failed: {_why(ended.error)}")
        elif ended.error is not None:
            self._show("error", f"this turn may not be saved: {_why(ended.error)}")


def _what(queued: QueuedInput) -> str:
    """What the turn was about; a reminder's text stands in the last line of its frame."""
    _, _, framed = queued.text.rpartition("reminder_prompt_json: ")
    return one_line(framed if queued.source == "reminder" else queued.text)


def _why(error: Exception | None) -> str:
    if error is None:
        return "for an unknown reason"
    return one_line(f"{type(error).__name__}: {error}", 300)
