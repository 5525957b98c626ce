"""An agent of the OpenAI Agents SDK sets a reminder, and it comes back as a later turn."""

import asyncio
from functools import partial
from pathlib import Path

from agents import Agent, RunConfig

from examples.scripted.openai_agents import scripted_model
from schedule_adapters.agents.openai_agents import OpenAIAgentsTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

AGENT = Agent[None](name="Assistant", model=scripted_model())  # yours: model="gpt-...", or none


async def main() -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    turns = partial(OpenAIAgentsTurns, AGENT, run_config=RunConfig(tracing_disabled=True))
    store = JsonlStore(Path("sessions"), clock=SystemClock())
    async with open_conversation(store, "main", turns) as chat:
        chat.runtime.start()
        chat.runtime.prompt("Remind me to stretch.", time_zone="Europe/Berlin")
        async for output in chat.runtime.outputs():
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


asyncio.run(main())
