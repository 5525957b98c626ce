"""Turns run by a LangGraph graph: `langchain.agents.create_agent`, or any with `messages`.

The schedule is one middleware, so an agent that keeps reminders differs from one that does
not by one argument:

    LangGraphTurns(lambda schedule: create_agent(model, middleware=[schedule]), session)

With a checkpointer the conversation is that of the thread named like the session; without
one it is kept in the session's log, and each turn is given the whole of it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.graph.state import CompiledStateGraph

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

MESSAGES_FORMAT: Final = "langgraph/1"
"""The `format` of the events this module writes.

`messages` is what the turn did to the channel of that name: the messages it added, or a
"remove" of all and then the whole, where the graph rewrote what was said before.
"""

_TOOLS_NODE: Final = "tools"
"""Where tools run, in `create_agent` and by the custom of LangGraph."""

Graph = CompiledStateGraph[Any, Any, Any, Any]


class GraphPaused(Exception):  # noqa: N818 - a state, not a fault
    """The graph stands at an interrupt, or at a call that it does not run itself."""

    def __init__(self) -> None:
        super().__init__("the graph waits for an answer that a session cannot give")


class ScheduleMiddleware(AgentMiddleware[Any, Any, Any]):
    """The schedule in one graph: three tools, and what the model is told for this turn alone.

    A graph that is no `create_agent` takes `tools` and `instructions` by hand: the first
    when it is made, the second whenever its model is called.
    """

    def __init__(self, tools: Sequence[SessionTool]) -> None:
        super().__init__()
        self.tools = [_tool(tool) for tool in tools]
        self.instructions: str | None = None  # of the open turn

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the turn's instructions after its own."""
        if self.instructions is None:
            return await handler(request)
        told = _with_text(request.system_message, self.instructions)
        return await handler(request.override(system_message=told))


class LangGraphTurns:
    """A `TurnDriver`: one conversation of one graph.

    Args:
        make_graph: compiles the graph around the middleware it is given; called at the
            first turn, and again when there are other tools.
        session: its id is the thread's; without a checkpointer, its log has the conversation.

    Raises:
        ConversationError: the session's conversation cannot be read.
    """

    def __init__(self, make_graph: Callable[[ScheduleMiddleware], Graph], session: Session) -> None:
        self._make_graph = make_graph
        self._config: RunnableConfig = {"configurable": {"thread_id": session.header.id}}
        self._log = MessageLog(session, MESSAGES_FORMAT, _load, message_to_dict)
        self._history: list[BaseMessage] = []
        for added in self._log.turns():
            self._history = _merged(self._history, added)
        self._tools: Sequence[SessionTool] | None = None  # those the graph was made with
        self._schedule: ScheduleMiddleware
        self._graph: Graph

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn; however it ends, what is known of it is kept for the next one.

        Raises:
            GraphPaused: the graph waits for something; the next turn goes on without it.
            Exception: whatever the model, the graph or a tool raised.
            asyncio.CancelledError: the turn was cancelled.
        """
        if tools != self._tools:
            self._schedule = ScheduleMiddleware(tools)
            self._graph, self._tools = self._make_graph(self._schedule), tools
        self._schedule.instructions = turn.instructions
        message = HumanMessage(sendable(turn.text))
        if self._graph.checkpointer:
            past = (await self._graph.aget_state(self._config)).values.get("messages", [])
            given = [*_results(past), message]
            # "sync": that a tool was called is saved before it runs.
            await self._stream(given, _Turn(emit, []), durability="sync")
        else:
            await self._run_on_log(message, emit)

    async def close(self) -> None:
        """Nothing to give back: the graph and its checkpointer belong to the caller."""

    async def _run_on_log(self, message: HumanMessage, emit: Callable[[TurnOutput], None]) -> None:
        past = self._history
        turn = _Turn(emit, _merged(past, [*_results(past), message]))
        try:
            await self._stream(turn.messages, turn)
        except BaseException:
            # How the turn ended is the news; a log that cannot be written says so itself.
            with suppress(StoreError):
                self._keep(turn.broken_off())
            raise
        self._keep(turn.messages)

    async def _stream(self, given: Sequence[BaseMessage], turn: "_Turn", **options: Any) -> None:
        run = self._graph.astream(
            {"messages": given}, self._config, stream_mode=["messages", "values"], **options
        )
        async with aclosing(cast("AsyncGenerator[object]", run)) as events:
            async for event in events:
                turn.hear(event)
        if any(result is None for _, result in _last_calls(turn.messages)):
            raise GraphPaused

    def _keep(self, messages: Sequence[BaseMessage]) -> None:
        """Add one turn to the log, then to the history: the log is the authority."""
        known = len(self._history)
        if messages[:known] == self._history:
            change = messages[known:]
        else:
            change = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]
        self._history = _merged(self._history, self._log.add(change))


class _Turn:
    """What is known of a turn under way.

    Attributes:
        messages: the conversation as far as the graph's steps have brought it.
    """

    def __init__(self, emit: Callable[[TurnOutput], None], messages: list[BaseMessage]) -> None:
        self.messages = messages
        self._emit = emit
        self._said: list[str] = []  # in the step under way

    def hear(self, event: object) -> None:
        """Take one event of the graph's stream."""
        match event:
            case "messages", (AIMessage() as piece, {"langgraph_node": node, **more}):
                # A tool may ask a model for itself, and so may LangChain's middleware.
                if node != _TOOLS_NODE and "lc_source" not in more:
                    self._say(piece)
            case "messages", (ToolMessage() as result, _):
                # Until its step is over, the state does not have it.
                if any(call["id"] == result.tool_call_id for call, _ in _last_calls(self.messages)):
                    self.messages = _merged(self.messages, [result])
            case "values", {"__interrupt__": _}:
                raise GraphPaused
            case "values", {"messages": list(messages)}:
                self.messages, self._said = messages, []
            case _:
                pass

    def broken_off(self) -> list[BaseMessage]:
        """The conversation when the turn ends here: with the text that the user saw."""
        said = "".join(self._said)
        return _merged(self.messages, [AIMessage(said)]) if said else self.messages

    def _say(self, piece: AIMessage) -> None:
        if piece.text:
            self._said.append(piece.text)
            self._emit(TextDelta(piece.text))
        calls = piece.tool_call_chunks if isinstance(piece, AIMessageChunk) else piece.tool_calls
        for name in (call["name"] for call in calls):
            if name:  # the first chunk of a call has it, those after do not
                self._emit(ToolCalled(name))


def _results(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """A result for each call of the last answer; providers refuse a call without one.

    Those that are there are given again: a checkpointer shows the results of a step that
    was cut off, and forgets them when the next turn begins. By its id, none comes twice.
    """
    return [result or _cut_off(call) for call, result in _last_calls(messages)]


def _last_calls(messages: Sequence[BaseMessage]) -> list[tuple[ToolCall, ToolMessage | None]]:
    """The calls of the last answer with their results, if nothing else follows it."""
    given: dict[str, ToolMessage] = {}
    for message in reversed(messages):
        match message:
            case ToolMessage(tool_call_id=call_id):
                given[call_id] = message
            case AIMessage(tool_calls=calls):
                return [(call, given.get(call["id"] or "")) for call in calls]
            case _:
                break
    return []


def _cut_off(call: ToolCall) -> ToolMessage:
    return ToolMessage(CUT_OFF, name=call["name"], tool_call_id=call["id"], status="error")


def _with_text(own: SystemMessage | None, text: str) -> SystemMessage:
    match own:
        case None:
            return SystemMessage(text)
        case SystemMessage(content=str(before)):  # many local models take no list of parts
            return SystemMessage(f"{before}\n\n{text}")
        case _:
            return SystemMessage([*own.content, {"type": "text", "text": text}])


def _merged(messages: Sequence[BaseMessage], more: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages after a change, by LangGraph's own rule."""
    both: tuple[Any, Any] = [*messages], [*more]  # its types know too few messages
    return cast("list[BaseMessage]", add_messages(*both))


def _load(dumped: Any) -> BaseMessage:
    [message] = messages_from_dict([dumped])
    return message


class _ScheduleTool(BaseTool):
    """One tool; its arguments are not validated here, since refusals are the tool's values."""

    call: Callable[[dict[str, Any]], Awaitable[object]]

    async def _arun(self, /, **arguments: Any) -> str:
        return json_text(await self.call(arguments))

    def _run(self, /, **_: Any) -> str:
        raise NotImplementedError("this tool works in asynchronous runs only")


def _tool(tool: SessionTool) -> BaseTool:
    return _ScheduleTool(
        name=tool.name, description=tool.description, args_schema=tool.parameters, call=tool.call
    )
