"""A driver without a framework: the least that keeps the contract, for tests of the kit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from schedule_adapters.agents.message_log import CUT_OFF, MessageLog, sendable
from schedule_adapters.sessions import Session
from schedule_adapters.testing.agents import (
    CallTool,
    CallTools,
    Say,
    Script,
    Seen,
    SeenTool,
)
from schedule_adapters.turn_driver import (
    SessionTool,
    TextDelta,
    ToolCalled,
    TurnInput,
    TurnOutput,
)

Message = dict[str, Any]
Emit = Callable[[TurnOutput], None]


class PlainTurns:
    """Asks the script in a loop, and keeps what was said in the session's log."""

    def __init__(self, session: Session, script: Script) -> None:
        self.script = script
        self.log = MessageLog[Message](session, "plain/1", load=dict, dump=lambda item: item)
        self.said = [message for turn in self.log.turns() for message in turn]

    async def run_turn(self, turn: TurnInput, tools: Sequence[SessionTool], emit: Emit) -> None:
        added: list[Message] = [{"text": sendable(turn.text)}]
        try:
            while await self.step(added, turn, tools, emit):
                pass
        finally:
            self.said += self.log.add(self.mended(added))

    async def step(
        self, added: list[Message], turn: TurnInput, tools: Sequence[SessionTool], emit: Emit
    ) -> bool:
        """Ask the model once; True if it wants to be asked again."""
        calls: tuple[CallTool, ...]
        match await self.script.next(self.seen([*self.said, *added], turn, tools)):
            case Say() as say:
                for piece in say.pieces:
                    emit(TextDelta(piece))
                return False
            case CallTool() as call:
                calls = (call,)
            case CallTools(calls):
                pass
        added += [{"call": call.name} for call in calls]
        by_name = {tool.name: tool for tool in tools}
        for call in calls:
            emit(ToolCalled(call.name))
            tool = by_name.get(call.name)
            result = "no such tool" if tool is None else await tool.call(call.arguments)
            added.append({"result": result})
        return True

    def seen(
        self, messages: Sequence[Message], turn: TurnInput, tools: Sequence[SessionTool]
    ) -> Seen:
        return Seen(
            texts=tuple(message["text"] for message in messages if "text" in message),
            tools=tuple(SeenTool(t.name, t.description, t.parameters) for t in tools),
            results=tuple(message["result"] for message in messages if "result" in message),
            instructions=turn.instructions or "",
            calls=tuple(message["call"] for message in messages if "call" in message),
        )

    def mended(self, added: list[Message]) -> list[Message]:
        """The messages of a turn with a result for every call."""
        calls = sum("call" in message for message in added)
        results = sum("result" in message for message in added)
        return [*added, *([{"result": CUT_OFF}] * (calls - results))]

    async def close(self) -> None:
        await asyncio.sleep(0)
