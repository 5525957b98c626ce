"""A pydantic-ai agent sets a reminder, and it comes back as a later turn."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent

from schedule_adapters.agents.offline import offline_model
from schedule_adapters.agents.pydantic_ai import PydanticAITurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

MODEL = offline_model(SystemClock())  # rules without an AI; yours is "openai-chat:NAME", ...
AGENT = Agent(MODEL, instructions="You keep reminders.")


def turns(session: Session) -> PydanticAITurns:
    """The turns of one session: your agent, as it is."""
    return PydanticAITurns(AGENT, session)


async def main(root: Path) -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    heard = asyncio.Queue[Any]()
    store = JsonlStore(root, clock=SystemClock())
    async with open_conversation(store, "main", turns) as chat:
        chat.runtime.subscribe(heard.put_nowait)
        chat.runtime.start()
        chat.runtime.prompt("Remind me in 1 second to stretch.", time_zone="Europe/Berlin")
        output = None
        while not isinstance(output, TurnEnded) or output.input.source == "user":
            print(output := await heard.get())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "sessions")))
