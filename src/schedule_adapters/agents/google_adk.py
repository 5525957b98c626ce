"""Turns run by an agent of Google's Agent Development Kit, on our log or a store of its own.

The root `LlmAgent` works as it is: a clone of it gets one more toolset, which holds the
schedule tools and the time context. ADK's sessions are logs of events, so by default its
events go into ours; with a `session_service`, such as `SqliteSessionService`, they go there.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions import Session as AdkSession
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from schedule_adapters.agents.message_log import CUT_OFF, MessageLog, sendable, sendable_value
from schedule_adapters.sessions import Session
from schedule_adapters.turn_driver import (
    SessionTool,
    TextDelta,
    ToolCalled,
    TurnInput,
    TurnOutput,
)

MESSAGES_FORMAT: Final = "google-adk/1"
"""The `format` of the events this module writes; each message is one event of ADK."""


class ModelStopped(Exception):  # noqa: N818 - what happened, in the model's word
    """The model ended its answer before it was whole.

    Attributes:
        code: ADK's `error_code`, such as `SAFETY` or `MAX_TOKENS`.
    """

    def __init__(self, code: str) -> None:
        super().__init__(f"the model stopped before its answer was whole: {code}")
        self.code = code


class GoogleAdkTurns:
    """A `TurnDriver`: one conversation of one agent.

    Args:
        agent: the root agent, or the app that it is the root of; never changed, so it may
            serve several sessions.
        session: its id is the ADK session's; without a `session_service` its log has the
            conversation.
        session_service: where ADK keeps the conversation instead; it belongs to the caller.
        user_id: the ADK session's user.

    Raises:
        TypeError: the root of the app is no `LlmAgent`, so there is nobody to have the tools.
        ConversationError: the session's conversation cannot be read.
    """

    def __init__(
        self,
        agent: LlmAgent | App,
        session: Session,
        *,
        session_service: BaseSessionService | None = None,
        user_id: str = "user",
    ) -> None:
        app = agent if isinstance(agent, App) else App(name="session_schedule", root_agent=agent)
        root = app.root_agent
        if not isinstance(root, LlmAgent):
            raise TypeError("the root agent must be an LlmAgent: it is the one with the tools")
        self._toolset = _ScheduleToolset()
        self._key: dict[str, Any] = {
            "app_name": app.name,
            "user_id": user_id,
            "session_id": session.header.id,
        }
        self._sessions = session_service or _LogSessions(session)
        copy = {
            "root_agent": root.clone({"tools": [*root.tools, self._toolset]}),
            "plugins": [*app.plugins, _SendableEvents("session_schedule")],
        }
        self._runner = Runner(app=app.model_copy(update=copy), session_service=self._sessions)

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn; each of its events is kept as soon as it is whole.

        Raises:
            ModelStopped: the model ended its answer early, and said why.
            Exception: whatever the model, the agent or a tool raised.
            asyncio.CancelledError: the turn was cancelled.
        """
        await self._close_open_calls()
        self._toolset.begin_turn(tools, turn.instructions)
        run = self._runner.run_async(
            user_id=self._key["user_id"],
            session_id=self._key["session_id"],
            new_message=types.UserContent(sendable(turn.text)),
            run_config=RunConfig.model_validate({"streaming_mode": "sse"}),
        )
        speaking: set[str] = set()  # the authors whose text came in pieces
        stopped: str | None = None
        async with aclosing(run) as events:
            async for event in events:
                _forward(event, speaking, emit)
                stopped = event.error_code or stopped
        if stopped is not None:
            raise ModelStopped(stopped)

    async def close(self) -> None:
        """Nothing to give back: the agent, its toolsets and its store belong to the caller."""

    async def _close_open_calls(self) -> None:
        """Answer the calls that an earlier turn left open.

        ADK itself leaves them out of its requests: the model would not know what it began.
        """
        session = await self._sessions.get_session(**self._key)
        if session is None:
            session = await self._sessions.create_session(**self._key)
        for event in _answers(session.events, self._toolset.results):
            await self._sessions.append_event(session, event)


class _ScheduleToolset(BaseToolset):
    """The schedule in one agent: its tools, and what the model is told for this turn alone.

    Attributes:
        results: what the calls of these tools gave, by the id of the call, in this turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self.results: dict[str, dict[str, Any]] = {}
        self._tools: list[BaseTool] = []
        self._instructions: str | None = None

    def begin_turn(self, tools: Sequence[SessionTool], instructions: str | None) -> None:
        """Offer these tools, and give these instructions, from now on."""
        self.results.clear()
        self._tools = [_ScheduleTool(tool, self.results) for tool in tools]
        self._instructions = instructions

    async def get_tools(
        self,
        readonly_context: ReadonlyContext | None = None,  # noqa: ARG002 - as ADK calls it
    ) -> list[BaseTool]:
        return self._tools

    async def process_llm_request(
        self,
        *,
        tool_context: ToolContext,  # noqa: ARG002 - as ADK calls it
        llm_request: LlmRequest,
    ) -> None:
        if self._instructions is not None:
            llm_request.append_instructions([self._instructions])


class _ScheduleTool(BaseTool):
    """One tool; its schema reaches the model as it is."""

    def __init__(self, tool: SessionTool, results: dict[str, dict[str, Any]]) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._tool = tool
        self._results = results

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._tool.parameters,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        value = sendable_value(await self._tool.call(args))
        # The wire has objects only, and `result` is ADK's own name for anything else.
        result = value if isinstance(value, dict) else {"result": value}
        if tool_context.function_call_id is not None:
            self._results[tool_context.function_call_id] = result
        return result


class _SendableEvents(BasePlugin):
    """Keeps out of every store, and of every later request, what is no UTF-8."""

    async def on_event_callback(
        self,
        *,
        invocation_context: InvocationContext,  # noqa: ARG002 - as ADK calls it
        event: Event,
    ) -> Event | None:
        if event.partial:
            return None
        dumped = _dump(event)
        sent = sendable_value(dumped)
        return None if sent == dumped else Event.model_validate(sent)


class _LogSessions(InMemorySessionService):
    """ADK's sessions as it has them in memory, except that ours is made of the session's log."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._log = MessageLog(session, MESSAGES_FORMAT, Event.model_validate, _dump)
        self._events = [event for added in self._log.turns() for event in added]

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AdkSession:
        session = await super().create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id
        )
        for event in self._events:
            await super().append_event(session, event)
        return session

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        event = await super().append_event(session, event)
        if not event.partial:
            self._log.add([event])
        return event


def _dump(event: Event) -> object:
    return event.model_dump(mode="json", exclude_none=True, by_alias=True)


def _answers(events: Sequence[Event], results: Mapping[str, dict[str, Any]]) -> list[Event]:
    """What answers the calls that have no answer, each for the agent that called."""
    answered = {answer.id for event in events for answer in event.get_function_responses()}
    asked = [
        (event, [call for call in event.get_function_calls() if call.id not in answered])
        for event in events
    ]
    return [
        Event(
            invocation_id=event.invocation_id,
            author=event.author,
            branch=event.branch,
            isolation_scope=event.isolation_scope,
            content=types.Content(role="user", parts=[_answer(call, results) for call in calls]),
        )
        for event, calls in asked
        if calls
    ]


def _answer(call: types.FunctionCall, results: Mapping[str, dict[str, Any]]) -> types.Part:
    response = results.get(call.id or "", {"error": CUT_OFF})
    answer = types.FunctionResponse(id=call.id, name=call.name, response=response)
    return types.Part(function_response=answer)


def _forward(event: Event, speaking: set[str], emit: Callable[[TurnOutput], None]) -> None:
    """Tell what one event says; the whole text that ADK gives after its pieces is no news."""
    if event.partial:
        speaking.add(event.author)
    if event.partial or event.author not in speaking:
        parts = (event.content and event.content.parts) or []
        for text in (part.text for part in parts if not part.thought):
            if text:
                emit(TextDelta(text))
    if not event.partial:
        speaking.discard(event.author)
        for call in event.get_function_calls():
            emit(ToolCalled(call.name or ""))
