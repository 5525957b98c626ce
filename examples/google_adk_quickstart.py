"""An agent of Google's ADK sets a reminder, and it comes back into the conversation."""

import asyncio
from pathlib import Path

from google.adk.agents import LlmAgent

from examples.scripted.google_adk import scripted_model
from schedule_adapters.agents.google_adk import GoogleAdkTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

MODEL = scripted_model()  # yours is named by a string, such as "gemini-flash-latest"
AGENT = LlmAgent(name="root", model=MODEL, instruction="You keep reminders.")


async def main() -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    store = JsonlStore(Path("sessions"), clock=SystemClock())
    async with open_conversation(store, "main", lambda s: GoogleAdkTurns(AGENT, s)) as chat:
        chat.runtime.start()
        chat.runtime.prompt("Remind me to stretch.", time_zone="Europe/Berlin")
        async for output in chat.runtime.outputs():
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


asyncio.run(main())
