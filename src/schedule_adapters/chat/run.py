"""Open a session and talk in it, at a terminal or from a script."""

import asyncio
import signal
import sys
from typing import Final

from schedule_adapters.agents.pydantic_ai import (
    ConversationError,
    ModelUnavailable,
    PydanticAITurns,
    make_agent,
)
from schedule_adapters.chat.commands import Commands
from schedule_adapters.chat.script import run_script, show_plainly
from schedule_adapters.chat.terminal import Screen, run_terminal
from schedule_adapters.chat.warnings import show_warnings
from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.live import LiveOptions, SystemClock
from schedule_adapters.sessions import Session, SessionStore
from schedule_adapters.wording import reminder_count
from schedule_core import ScheduleLogError


class ChatError(Exception):
    """The chat cannot begin; one line for the person who started it."""


_OPTIONS: Final = LiveOptions(retry_s=30.0)
"""A person waits here: a reminder that a failing disk held back is tried again by itself."""


async def chat(
    store: SessionStore,
    session_id: str,
    *,
    model: str,
    time_zone: str | None,
    linger_s: float,
) -> int:
    """Talk until the person leaves, or standard input ends; gives the exit code.

    SIGTERM cancels it.

    Raises:
        ChatError: the model cannot be used, or the conversation in the log cannot be read.
        StoreError: the session cannot be opened.
    """
    clock = SystemClock()
    try:
        agent = make_agent(model, clock=clock)
    except ModelUnavailable as error:
        raise ChatError(str(error)) from error

    def make_driver(session: Session) -> PydanticAITurns:
        try:
            return PydanticAITurns(agent, session)
        except ConversationError as error:
            raise ChatError(str(error)) from error

    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    show = Screen().show if at_terminal else show_plainly
    show_warnings(show)
    # Asked to end from outside: leave in order, as when the person leaves.
    this_task = asyncio.current_task()
    assert this_task is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this_task.cancel)
    is_well = True
    async with open_conversation(
        store,
        session_id,
        make_driver,
        clock=clock,
        options=_OPTIONS,
    ) as conversation:
        commands = Commands(conversation, clock, time_zone, show)
        if at_terminal:
            _greet(conversation, commands, model)
            await run_terminal(conversation, commands, clock)
            _take_leave(conversation, commands)
        else:
            is_well = await run_script(conversation, commands, clock, linger_s=linger_s)
        is_faulted = conversation.schedule.state.activity == "faulted"
    return 0 if is_well and not is_faulted else 1


def _greet(conversation: Conversation, commands: Commands, model: str) -> None:
    show = commands.show
    about = "the offline model (rules, no AI)" if model == "offline" else model
    zone = commands.time_zone or "unknown; name one with --time-zone"
    show("note", f"session {conversation.session.header.id} · {about} · time zone {zone}")
    pending = _pending(conversation)
    if pending:
        show("note", f"{pending} from before: /list shows what")
    show("note", "try: remind me in 20 seconds to stretch · /help for more")


def _take_leave(conversation: Conversation, commands: Commands) -> None:
    pending = _pending(conversation)
    if pending:
        kept = f"{pending} kept in session {conversation.session.header.id}"
        commands.show("note", f"{kept}; open it again and what is due comes back")


def _pending(conversation: Conversation) -> str | None:
    """How many reminders are to come; None if none are, or (as the status says) who knows."""
    try:
        views = conversation.schedule.views()
    except ScheduleLogError:
        return None
    return reminder_count(len(views)) if views else None
