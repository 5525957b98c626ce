"""Open a session and talk in it to an ACP agent, at a terminal or from a script."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from schedule_adapters.acp.permissions import AcpCommands, AskingPerson, unattended
from schedule_adapters.agents.acp import AcpTurns
from schedule_adapters.agents.acp_client import Ask
from schedule_adapters.agents.acp_process import spawning
from schedule_adapters.chat.script import run_script, show_plainly
from schedule_adapters.chat.terminal import Screen, run_terminal
from schedule_adapters.chat.transcript import Kind
from schedule_adapters.chat.warnings import show_warnings
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import LiveOptions, SystemClock
from schedule_adapters.mcp.command import TOKEN_VARIABLE
from schedule_adapters.sessions import Session, SessionStore

_OPTIONS: Final = LiveOptions(retry_s=30.0)
"""A person waits here: a reminder that a failing disk held back is tried again by itself."""


async def talk(  # noqa: PLR0913 - the arguments of the command, by name
    store: SessionStore,
    session_id: str,
    *,
    command: Sequence[str],
    cwd: Path,
    time_zone: str | None,
    linger_s: float,
    allows: bool,
) -> int:
    """Talk until the person leaves, or standard input ends; gives the exit code.

    SIGTERM cancels it.

    Raises:
        StoreError: the session cannot be opened.
    """
    clock = SystemClock()
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    show = Screen().show if at_terminal else show_plainly
    _show_warnings(show)
    # Asked to end from outside: leave in order, as when the person leaves.
    this_task = asyncio.current_task()
    assert this_task is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this_task.cancel)
    person = AskingPerson(show)
    ask: Ask = person.ask if at_terminal else unattended(allows=allows)
    connect = spawning(
        command,
        cwd=cwd,
        environment={key: value for key, value in os.environ.items() if key != TOKEN_VARIABLE},
        on_stderr=lambda line: show("error", f"[{Path(command[0]).name}] {line}"),
    )

    def make_driver(session: Session) -> AcpTurns:
        return AcpTurns(connect, session, agent=command[0], cwd=cwd, ask=ask)

    is_well = True
    async with open_conversation(
        store, session_id, make_driver, clock=clock, options=_OPTIONS
    ) as conversation:
        commands = AcpCommands(conversation, clock, time_zone, show, person)
        if at_terminal:
            show("note", f"session {conversation.session.header.id} · {command[0]} · /help")
            await run_terminal(conversation, commands, clock)
        else:
            is_well = await run_script(conversation, commands, clock, linger_s=linger_s)
        is_faulted = conversation.schedule.state.activity == "faulted"
    return 0 if is_well and not is_faulted else 1


def _show_warnings(show: Callable[[Kind, str], None]) -> None:
    show_warnings(show)
    # The SDKs log whole messages of the protocols when one cannot be handled.
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("mcp", "uvicorn"):
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(logging.NullHandler())
