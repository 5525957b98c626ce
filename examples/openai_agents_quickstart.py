"""An agent of the OpenAI Agents SDK sets a reminder, and it comes back as a later turn."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig
from agents.testing import ScriptedModel, assistant_message, function_call

from schedule_adapters.agents.openai_agents import OpenAIAgentsTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

CREATE = {"prompt": "stretch", "after_seconds": 1}
MODEL = ScriptedModel(  # says what it was given; leave it out for the SDK's default model
    [
        [function_call("schedule_create", CREATE, call_id="call_1")],
        [assistant_message("I will remind you.")],
        [assistant_message("It is time to stretch.")],
    ]
)
AGENT = Agent[None](name="Assistant", instructions="You keep reminders.", model=MODEL)


def turns(session: Session) -> OpenAIAgentsTurns:
    """The turns of one session: your agent, as it is."""
    return OpenAIAgentsTurns(AGENT, session, run_config=RunConfig(tracing_disabled=True))


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
