"""Turns run by an agent of Microsoft Agent Framework, its conversation in the session's log.

Any `Agent` works as it is: the schedule tools and the time context are given to each run. For
the conversation a copy of it gets one more history provider; the agent itself never changes.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final

from agent_framework import (
    Agent,
    AgentResponse,
    AgentResponseUpdate,
    AgentSession,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    HistoryProvider,
    Message,
)
from pydantic import BaseModel

from schedule_adapters.agents.message_log import CUT_OFF, MessageLog, sendable
from schedule_adapters.sessions import Session, StoreError
from schedule_adapters.turn_driver import (
    SessionTool,
    TextDelta,
    ToolCalled,
    TurnInput,
    TurnOutput,
)
from schedule_core.text import json_text

MESSAGES_FORMAT: Final = "agent-framework/1"
"""The `format` of the events this module writes."""


class AgentFrameworkTurns:
    """A `TurnDriver`: one conversation of one agent.

    Args:
        agent: never changed; it may serve several sessions.
        session: where the conversation is read from, and kept.

    Raises:
        ValueError: the agent has a history provider that loads messages of its own, so the
            model would get two conversations.
        ConversationError: the session's conversation cannot be read.
    """

    def __init__(self, agent: Agent[Any], session: Session) -> None:
        for provider in agent.context_providers:
            if isinstance(provider, HistoryProvider) and provider.load_messages:
                raise ValueError(
                    f"the history provider {provider.source_id} loads messages, and so does the "
                    "session's log; take it away, or give it load_messages=False"
                )
        self._log = MessageLog(session, MESSAGES_FORMAT, Message.from_dict, Message.to_dict)
        self._history = [message for added in self._log.turns() for message in added]
        self._session = AgentSession(session_id=session.header.id)
        self._agent = copy(agent)
        self._agent.context_providers = [_History(self._history), *agent.context_providers]
        self._agent.require_per_service_call_history_persistence = False  # the driver persists

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn; however it ends, its messages are kept for the next one.

        Raises:
            Exception: whatever the model, the agent or a tool raised.
            asyncio.CancelledError: the turn was cancelled.
        """
        said = Message("user", [sendable(turn.text)])
        updates: list[AgentResponseUpdate] = []
        calls = _Calls()
        # A service that has its own copy of the conversation would get it twice.
        self._session.service_session_id = None
        try:
            async with self._agent.run(
                said,
                stream=True,
                session=self._session,
                tools=[_tool(tool) for tool in tools],
                middleware=[calls],
                options={"instructions": turn.instructions},
            ) as run:
                async for update in run:
                    updates.append(update)
                    _forward(update, emit)
                answer = await run.get_final_response()
        except BaseException:
            # How the turn ended is the news; a log that cannot be written says so itself.
            with suppress(StoreError):
                self._keep([said, *calls.without_broken_answer(updates)], calls)
            raise
        self._keep([said, *answer.messages], calls)

    async def close(self) -> None:
        """Nothing to give back: the agent belongs to the caller."""

    def _keep(self, messages: Sequence[Message], calls: "_Calls") -> None:
        """Add one turn to the log, then to the history: the log is the authority."""
        self._history.extend(self._log.add([*messages, *calls.missing_results(messages)]))


class _History(HistoryProvider):
    """Gives each run the conversation so far; what it adds, the driver keeps."""

    def __init__(self, messages: list[Message]) -> None:
        super().__init__("session-schedule", store_inputs=False, store_outputs=False)
        self._messages = messages

    async def get_messages(self, *_: Any, **__: Any) -> list[Message]:
        return list(self._messages)

    async def save_messages(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("this provider stores nothing")


class _Calls(FunctionMiddleware):
    """The calls of one turn that began, and what became of them."""

    def __init__(self) -> None:
        self._results: dict[str, Any] = {}

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        call_id = context.metadata["call_id"]
        self._results[call_id] = CUT_OFF
        await call_next()
        self._results[call_id] = context.result

    def without_broken_answer(self, updates: Sequence[AgentResponseUpdate]) -> list[Message]:
        """The messages; of an answer that broke off, the text, since the user saw it."""
        if not updates:
            return []
        *whole, last = AgentResponse.from_updates(updates).messages
        if last.role == "assistant" and not self._results.keys() & _calls_in(last):
            last = Message("assistant", [part for part in last.contents if part.type == "text"])
        return [message for message in (*whole, last) if message.contents]

    def missing_results(self, messages: Sequence[Message]) -> list[Message]:
        """A result for each call of the last answer; providers refuse a call without one."""
        results = [
            Content.from_function_result(call_id, result=self._results.get(call_id, CUT_OFF))
            for call_id in _calls_in(messages[-1])
        ]
        return [Message("tool", results)] if results else []


def _calls_in(message: Message) -> dict[str, None]:
    """The ids of the calls that wait for a result of ours, in order."""
    return {
        part.call_id: None
        for part in message.contents
        if part.type == "function_call" and part.call_id
        # The service answers these by itself.
        if not part.hosted and not part.informational_only
    }


def _forward(update: AgentResponseUpdate, emit: Callable[[TurnOutput], None]) -> None:
    for part in update.contents:
        if part.type == "text" and part.text:
            emit(TextDelta(part.text))
        elif part.type == "function_call" and part.name:  # later pieces of a call have none
            emit(ToolCalled(part.name))


def _tool(tool: SessionTool) -> FunctionTool:
    async def call(**arguments: Any) -> str:
        return json_text(await tool.call(arguments))

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        func=call,
        input_model=_arguments_of(tool),
    )


def _arguments_of(tool: SessionTool) -> type[BaseModel]:
    """A model that takes anything and has the tool's schema.

    With the schema itself, the framework refuses some arguments before the tool sees them,
    and the model is not told why.
    """

    class Arguments(BaseModel, extra="allow"):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return tool.parameters

    return Arguments
