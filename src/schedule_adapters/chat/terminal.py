"""The chat in a terminal: the prompt stays usable while a reminder arrives."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.text import Text

from schedule_adapters.chat.commands import Commands
from schedule_adapters.chat.transcript import Kind, Transcript
from schedule_adapters.conversation import Conversation
from schedule_adapters.wording import (
    duration,
    one_line,
    printable,
    reminder_count,
    state_line,
)
from schedule_core import Clock, Instant, ScheduleLogError, ScheduleView

_STYLES: dict[Kind, str] = {
    "assistant": "",
    "reminder": "bold yellow",
    "note": "dim",
    "error": "bold red",
}
_MARKS: dict[Kind, str] = {"assistant": "", "reminder": "⏰ ", "note": "", "error": "! "}


class _Keyboard(Vt100Input):
    """Keys stay keys while lines are written: not echoed, no signals, none lost."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Change nothing: what is written needs no other mode."""
        return nullcontext()


class Screen:
    """Writes whole lines above the prompt."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def show(self, kind: Kind, text: str) -> None:
        """Write one line, wrapped between words; the text is never read as markup."""
        self._console.print(Text(_MARKS[kind] + printable(text), style=_STYLES[kind]))


async def run_terminal(conversation: Conversation, commands: Commands, clock: Clock) -> None:
    """Talk until the person leaves."""
    runtime = conversation.runtime

    def interrupt() -> None:
        if runtime.cancel_turn():
            return
        if not prompts.default_buffer.text:
            commands.show("note", "Ctrl-D leaves")
        prompts.default_buffer.reset()

    prompts: PromptSession[str] = PromptSession(
        input=_Keyboard(sys.stdin),
        message=FormattedText([("bold", "you> ")]),
        key_bindings=_key_bindings(interrupt),
        bottom_toolbar=lambda: status_line(conversation, clock),
        refresh_interval=1.0,
        erase_when_done=False,
    )
    with prompts.input.raw_mode(), patch_stdout(raw=True):
        runtime.subscribe(Transcript(commands.show).take)
        runtime.start()
        while True:
            try:
                line = await prompts.prompt_async()
            except EOFError:
                return
            if line.startswith("/"):
                if not await commands.run(line):
                    return
            elif line.strip():
                runtime.prompt(line, time_zone=commands.time_zone)


def status_line(conversation: Conversation, clock: Clock) -> str:
    """How many reminders are pending, when the next is due, and what the agent does."""
    schedule = conversation.schedule
    parts = [one_line(conversation.session.header.id, 30)]
    if conversation.runtime.phase == "turn":
        parts.append("answering (Ctrl-C ends it)")
    try:
        parts.append(state_line(schedule.state) or _pending(schedule.views(), clock.now()))
    except ScheduleLogError as error:
        parts.append(str(error))
    return " " + " · ".join(parts)


def _pending(views: Sequence[ScheduleView], now: Instant) -> str:
    count = reminder_count(len(views))
    if not views:
        return count
    following = min((view.record for view in views), key=lambda record: record.scheduled_at)
    ahead = following.scheduled_at - now
    when = f"in {duration(ahead)}" if ahead > 0 else "now"
    return f"{count}, next {one_line(following.id, 30)} {when}"


def _key_bindings(interrupt: Callable[[], None]) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("c-c")
    def end_turn(_: KeyPressEvent) -> None:
        interrupt()

    @bindings.add(Keys.Vt100MouseEvent)
    def ignore(_: KeyPressEvent) -> None:
        """Colour codes in pasted text look like the mouse, and break on prompt_toolkit's own."""

    return bindings
