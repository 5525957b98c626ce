"""An agent of Microsoft Agent Framework sets a reminder, and it comes back as a later turn."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    ResponseStream,
)

from schedule_adapters.agents.agent_framework import AgentFrameworkTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded

CREATE = Content.from_function_call(
    "call_1", "schedule_create", arguments={"prompt": "stretch", "after_seconds": 1}
)
ANSWERS = [
    CREATE,
    Content.from_text("I will remind you."),
    Content.from_text("It is time to stretch."),
]


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Says what it was given; yours is OpenAIChatClient, AnthropicClient, or any other."""

    def _inner_get_response(self, **_: Any) -> Any:
        async def stream() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(contents=[ANSWERS.pop(0)], role="assistant")

        return ResponseStream(stream(), finalizer=ChatResponse.from_updates)


AGENT: Agent[Any] = Agent(Scripted(), "You keep reminders.")


def turns(session: Session) -> AgentFrameworkTurns:
    """The turns of one session: your agent, as it is."""
    return AgentFrameworkTurns(AGENT, session)


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
