"""A coding agent that speaks ACP, in its own process: give its command as arguments."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from schedule_adapters.agents.acp import AcpTurns
from schedule_adapters.agents.acp_process import spawning
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded


async def main(command: list[str], cwd: Path) -> None:
    """Ask for a reminder in a second, and print everything until it has come back."""
    connect = spawning(command, cwd=cwd, environment=os.environ, on_stderr=print)
    turns = partial(AcpTurns, connect, agent=command[0], cwd=cwd)
    store = JsonlStore(Path("sessions"), clock=SystemClock())
    async with open_conversation(store, "main", turns) as chat:
        chat.runtime.start()
        chat.runtime.prompt("remind me in 1 seconds to stretch")
        async for output in chat.runtime.outputs():
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


asyncio.run(main(sys.argv[1:], Path.cwd()))
