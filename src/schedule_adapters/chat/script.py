"""The chat without a terminal: lines in, lines out, so that it can be scripted."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, TextIO

from schedule_adapters.chat.commands import Commands
from schedule_adapters.chat.transcript import Kind, Transcript
from schedule_adapters.conversation import Conversation
from schedule_adapters.turns import SessionOutput, TurnEnded
from schedule_adapters.wording import printable
from schedule_core import Clock
from schedule_core.instants import MINUTE_MS, SECOND_MS

_LOOK_S: Final = 1.0
"""How often a lingering chat looks whether the reminders it waits for are gone."""
_PATIENCE_MS: Final = 2 * MINUTE_MS
"""How late a reminder may be before lingering for it ends: its disk may never take it."""


async def run_script(
    conversation: Conversation, commands: Commands, clock: Clock, *, linger_s: float
) -> bool:
    """Send each line of standard input as a prompt and await its turn; then linger.

    Gives whether all went well: no turn failed, and what was waited for came back.

    Args:
        conversation: opened, not started.
        commands: runs lines that begin with a slash.
        clock: the wall clock.
        linger_s: after the last line, wait until the reminders due within this many
            seconds have come back.
    """
    runtime = conversation.runtime
    failed: list[TurnEnded] = []
    runtime.subscribe(Transcript(commands.show).take)
    runtime.subscribe(lambda output: failed.extend(_failures(output)))
    runtime.start()
    await runtime.when_idle()
    async for line in _lines(sys.stdin):
        if line.startswith("/"):
            if not await commands.run(line):
                return not failed
        elif line.strip():
            runtime.prompt(line, time_zone=commands.time_zone)
            await runtime.when_idle()
    return await _linger(conversation, clock, linger_s) and not failed


def show_plainly(kind: Kind, text: str) -> None:
    """Write one line: errors beside standard output, all else to it."""
    out = sys.stderr if kind == "error" else sys.stdout
    line = printable(text)
    print(f"* {line}" if kind == "reminder" else line, file=out, flush=True)


def _failures(output: SessionOutput) -> Iterator[TurnEnded]:
    if isinstance(output, TurnEnded) and output.outcome == "failed":
        yield output


async def _linger(conversation: Conversation, clock: Clock, linger_s: float) -> bool:
    """Wait for the reminders due within that time; False if they cannot be delivered."""
    turn_over = asyncio.Event()
    conversation.runtime.subscribe(lambda _: turn_over.set())
    until = clock.now() + int(linger_s * SECOND_MS)
    while any(view.record.scheduled_at <= until for view in conversation.schedule.views()):
        is_faulted = conversation.schedule.state.activity == "faulted"
        if is_faulted or clock.now() > until + _PATIENCE_MS:
            return False
        turn_over.clear()
        try:
            async with asyncio.timeout(_LOOK_S):
                await turn_over.wait()
        except TimeoutError:
            continue
    await conversation.runtime.when_idle()
    return True


async def _lines(source: TextIO) -> AsyncIterator[str]:
    """The lines of a file or pipe, without their ends, read in a thread of their own."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def put(line: str | None) -> None:
        put_now: Callable[[str | None], None] = lines.put_nowait
        loop.call_soon_threadsafe(put_now, line)

    def read() -> None:
        for line in source:
            put(line.rstrip("\n"))
        put(None)

    threading.Thread(target=read, name="chat input", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
