"""An agent of Google's ADK sets a reminder, and it comes back into the conversation."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai.types import ModelContent, Part

from schedule_adapters.agents.google_adk import GoogleAdkTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

CREATE = Part.from_function_call(
    name="schedule_create", args={"prompt": "stretch", "after_seconds": 1}
)
ANSWERS = [CREATE, Part(text="I will remind you."), Part(text="It is time to stretch.")]


class Scripted(BaseLlm):
    """Says what it was given; yours is named by a string, such as "gemini-flash-latest"."""

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse, None]:
        """Give the next answer."""
        yield LlmResponse(content=ModelContent([ANSWERS.pop(0)]))


AGENT = LlmAgent(name="root", model=Scripted(model="scripted"), instruction="You keep reminders.")


def turns(session: Session) -> GoogleAdkTurns:
    """The turns of one session: your root agent, as it is."""
    return GoogleAdkTurns(AGENT, session)


async def main(root: Path) -> None:
    """Set a reminder for a second from now, and print everything until it has come back."""
    heard = asyncio.Queue[Any]()
    store = JsonlStore(root, clock=SystemClock())
    async with open_conversation(store, "main", turns) as chat:
        chat.runtime.subscribe(heard.put_nowait)
        chat.runtime.start()
        chat.runtime.prompt("Remind me to stretch.", time_zone="Europe/Berlin")
        output = None
        while not isinstance(output, TurnEnded) or output.input.source == "user":
            print(output := await heard.get())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "sessions")))
