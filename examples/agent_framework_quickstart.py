"""An agent of Microsoft Agent Framework sets a reminder, and it comes back as a later turn."""

import asyncio
from pathlib import Path

from agent_framework import Agent

from examples.scripted.agent_framework import scripted_client
from schedule_adapters.agents.agent_framework import AgentFrameworkTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

CLIENT = scripted_client()  # yours is OpenAIChatClient(), AnthropicClient(), or any other
AGENT = Agent(CLIENT, "You keep reminders.")


async def main() -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    store = JsonlStore(Path("sessions"), clock=SystemClock())
    async with open_conversation(store, "main", lambda s: AgentFrameworkTurns(AGENT, s)) as chat:
        chat.runtime.start()
        chat.runtime.prompt("Remind me to stretch.", time_zone="Europe/Berlin")
        async for output in chat.runtime.outputs():
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


asyncio.run(main())
