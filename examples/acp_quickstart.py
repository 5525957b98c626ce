"""A coding agent that speaks ACP, in its own process: `acp_quickstart.py FOLDER COMMAND ...`."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from schedule_adapters.agents.acp import AcpTurns
from schedule_adapters.agents.acp_process import spawning
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

FOLDER, *COMMAND = sys.argv[1:]
CWD = Path(FOLDER)
CONNECT = spawning(COMMAND, cwd=CWD, environment=os.environ, on_stderr=print)


def turns(session: Session) -> AcpTurns:
    """The turns of one session; whatever the agent wants to be allowed is refused."""
    return AcpTurns(CONNECT, session, agent=COMMAND[0], cwd=CWD)


async def main() -> None:
    """Ask for a reminder in a second, and print everything until it has come back."""
    heard = asyncio.Queue[Any]()
    store = JsonlStore(CWD / "sessions", clock=SystemClock())
    async with open_conversation(store, "main", turns) as chat:
        chat.runtime.subscribe(heard.put_nowait)
        chat.runtime.start()
        chat.runtime.prompt("remind me in 1 seconds to stretch")
        output = None
        while not isinstance(output, TurnEnded) or output.input.source == "user":
            print(output := await heard.get())


if __name__ == "__main__":
    asyncio.run(main())
