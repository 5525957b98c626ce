"""A live conversation on a pydantic-ai agent: it sets a reminder, and the reminder comes back."""

import asyncio
import sys
from pathlib import Path

from schedule_adapters.agents.pydantic_ai import PydanticAITurns, make_agent
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded


async def main(root: Path) -> None:
    """Set a reminder for two seconds from now, and show everything until it has come back."""
    clock = SystemClock()
    agent = make_agent("offline", clock=clock)  # or your own pydantic_ai.Agent
    store = JsonlStore(root, clock=clock)
    async with open_conversation(store, "main", lambda s: PydanticAITurns(agent, s)) as chat:
        outputs = chat.runtime.outputs()  # from here on: also a turn that an earlier run left
        chat.runtime.start()
        chat.runtime.prompt("remind me in 2 seconds to stretch", time_zone="Europe/Berlin")
        async for output in outputs:
            print(output)
            if isinstance(output, TurnEnded) and output.input.source == "reminder":
                break


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "sessions")))
