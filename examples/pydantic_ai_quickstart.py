"""A pydantic-ai agent sets a reminder, and it comes back as a later turn."""

import asyncio
from pathlib import Path

from pydantic_ai import Agent

from schedule_adapters.agents.offline import offline_model
from schedule_adapters.agents.pydantic_ai import PydanticAITurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

MODEL = offline_model(SystemClock())  # rules without an AI; yours is "openai-chat:NAME", ...
AGENT = Agent(MODEL, instructions="You keep reminders.")


async def main() -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    store = JsonlStore(Path("sessions"), clock=SystemClock())
    async with open_conversation(store, "main", lambda s: PydanticAITurns(AGENT, s)) as chat:
        chat.runtime.start()
        chat.runtime.prompt("Remind me in 1 second to stretch.", time_zone="Europe/Berlin")
        async for output in chat.runtime.outputs():
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


asyncio.run(main())
