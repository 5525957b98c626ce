"""A LangGraph agent sets a reminder, and the reminder comes back into the conversation."""

import asyncio
from functools import partial
from pathlib import Path

from langchain.agents import create_agent

from examples.scripted.langgraph import scripted_model
from schedule_adapters.agents.langgraph import LangGraphTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

MODEL = scripted_model()  # yours is ChatOpenAI(...), ChatAnthropic(...), or any other


async def main() -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    turns = partial(LangGraphTurns, lambda schedule: create_agent(MODEL, middleware=[schedule]))
    store = JsonlStore(Path("sessions"), clock=SystemClock())
    async with open_conversation(store, "main", turns) as chat:
        chat.runtime.start()
        chat.runtime.prompt("Remind me to stretch.", time_zone="Europe/Berlin")
        async for output in chat.runtime.outputs():
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


asyncio.run(main())
