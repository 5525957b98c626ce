"""A LangGraph agent sets a reminder, and the reminder comes back into the conversation."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolCall

from schedule_adapters.agents.langgraph import LangGraphTurns
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.turns import TurnEnded


class Scripted(FakeMessagesListChatModel):
    """Says what it was given; yours is ChatOpenAI, ChatAnthropic, or any other."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Take any tools."""
        return self


CREATE = ToolCall(
    name="schedule_create", args={"prompt": "stretch", "after_seconds": 1}, id="call_1"
)
MODEL = Scripted(
    responses=[
        AIMessage("", tool_calls=[CREATE]),
        AIMessage("I will remind you."),
        AIMessage("It is time to stretch."),
    ]
)


def turns(session: Session) -> LangGraphTurns:
    """The turns of one session: your agent, with one middleware more."""
    return LangGraphTurns(lambda schedule: create_agent(MODEL, middleware=[schedule]), session)


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
