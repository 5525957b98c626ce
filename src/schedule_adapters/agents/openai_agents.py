"""Turns run by an agent of the OpenAI Agents SDK, with the conversation in the session's log.

Any `Agent` works as it is: each run gets a copy of it that has the schedule tools beside its
own. Agents that it hands over to, and agents that are its tools, are not copied and get none.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from copy import deepcopy
from typing import Any, Final

from agents import (
    Agent,
    FunctionTool,
    OutputGuardrailTripwireTriggered,
    RawResponsesStreamEvent,
    RunConfig,
    RunContextWrapper,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    SessionSettings,
    StreamEvent,
    ToolCallItem,
    ToolCallOutputItem,
    TResponseInputItem,
)
from agents import Session as History
from agents.run_config import DEFAULT_MAX_TURNS
from agents.tool_context import ToolContext
from attrs import define, field
from openai.types.responses import ResponseTextDeltaEvent

from schedule_adapters.agents.message_log import CUT_OFF, MessageLog, sendable, sendable_value
from schedule_adapters.sessions import Session, StoreError
from schedule_adapters.turn_driver import (
    SessionTool,
    TextDelta,
    ToolCalled,
    TurnInput,
    TurnOutput,
)

MESSAGES_FORMAT: Final = "openai-agents/1"
"""The `format` of the events this module writes.

`messages` are input items of the SDK, in order. One of the type `KEPT` is ours: of all items
before it, only the first `count` are still part of the conversation.
"""
KEPT: Final = "session-schedule/kept"


class LogHistory:
    """The SDK's `Session` on the session's own log: what is said and what is due share it.

    The log only grows: an item that is taken back is a further line that says so.

    Raises:
        ConversationError: the session's conversation cannot be read.
    """

    session_settings: SessionSettings | None = None

    def __init__(self, session: Session) -> None:
        self.session_id = session.header.id
        self._log = MessageLog[TResponseInputItem](
            session, MESSAGES_FORMAT, load=_checked, dump=lambda item: item
        )
        self._items: list[TResponseInputItem] = []
        for turn in self._log.turns():
            self._replay(turn)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The conversation so far, or its last `limit` items."""
        first = 0 if limit is None else max(0, len(self._items) - limit)
        return deepcopy(self._items[first:])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items: in the log at once, durable after the next barrier.

        Raises:
            StoreError: nothing was added.
        """
        if items:
            self._replay(self._log.add(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item back; None if there is none."""
        if not self._items:
            return None
        last = self._items[-1]
        self._keep(len(self._items) - 1)
        return last

    async def clear_session(self) -> None:
        """Begin anew; what was said stays in the log."""
        self._keep(0)

    def _keep(self, count: int) -> None:
        kept: Any = {"type": KEPT, "count": count}
        self._replay(self._log.add([kept]))

    def _replay(self, items: Sequence[TResponseInputItem]) -> None:
        for item in items:
            if _member(item, "type") == KEPT:
                del self._items[_member(item, "count") :]
            else:
                self._items.append(item)


class OpenAIAgentsTurns:
    """A `TurnDriver`: one conversation of one agent.

    Args:
        agent: used as it is, never changed; it may serve several sessions.
        session: where the conversation is kept, unless `history` says otherwise.
        history: a store of the SDK to keep it in instead, such as `SQLiteSession`; it must
            hold this one conversation, and stays the caller's to close.
        run_config: given to every run; switch tracing off here.
        context: the context object of every run.
        max_turns: how often one turn may ask the model, at the most; None: no bound.

    Raises:
        ConversationError: the session's conversation cannot be read.
    """

    def __init__(  # noqa: PLR0913 - what a run of the SDK takes, by name
        self,
        agent: Agent[Any],
        session: Session,
        *,
        history: History | None = None,
        run_config: RunConfig | None = None,
        context: object = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
    ) -> None:
        self._agent = agent
        self._history = LogHistory(session) if history is None else history
        self._run_config = run_config
        self._context = context
        self._max_turns = max_turns

    async def run_turn(
        self,
        turn: TurnInput,
        tools: Sequence[SessionTool],
        emit: Callable[[TurnOutput], None],
    ) -> None:
        """Run one turn; however it ends, its message and what came of it are kept.

        Raises:
            Exception: whatever the model, the agent or a tool raised.
            asyncio.CancelledError: the turn was cancelled.
        """
        heard = _Heard(sendable(turn.text))
        run: RunResultStreaming | None = None
        before = 0  # items that the history holds of earlier turns
        try:
            before = len(await self._history.get_items())
            run = Runner.run_streamed(
                _for_one_turn(self._agent, tools, turn.instructions),
                heard.text,
                session=self._history,
                run_config=self._run_config,
                context=self._context,
                max_turns=self._max_turns,
            )
            async with aclosing(run.stream_events()) as events:  # type: ignore[type-var]  # it is one
                async for event in events:
                    heard.hear(event)
                    _forward(event, emit)
        except BaseException as error:
            if isinstance(error, OutputGuardrailTripwireTriggered):
                heard.said.clear()  # the user may have seen it; the model must not build on it
            saved: list[TResponseInputItem] = []
            # How the turn ended is the news; a log that cannot be written says so itself.
            with suppress(StoreError):
                if run is not None:
                    await _stop(run)
                    saved = (await self._history.get_items())[before:]
                await self._history.add_items(heard.missing_from(saved))
            raise

    async def close(self) -> None:
        """Nothing to give back: the agent and its own stores belong to the caller."""


@define
class _Heard:
    """What a turn began with, and what came of it so far.

    The SDK saves a step once all its calls have results; of a step that breaks off it saves
    nothing. But the user saw the text, and the calls may have taken effect.
    """

    text: str
    said: list[str] = field(factory=list)
    calls: dict[str, dict[str, Any]] = field(factory=dict)
    results: dict[str, Any] = field(factory=dict)

    def hear(self, event: StreamEvent) -> None:
        """Take note of one event of the run."""
        match event:
            case RawResponsesStreamEvent(data=ResponseTextDeltaEvent(delta=delta)):
                self.said.append(delta)
            case RunItemStreamEvent(item=ToolCallItem() as call):
                item = dict(call.to_input_item())
                if item.get("type") == "function_call":
                    # Without its id: with it, the API asks for the reasoning item before it.
                    item.pop("id", None)
                    self.calls[str(item["call_id"])] = item
            case RunItemStreamEvent(item=ToolCallOutputItem() as output):
                item = dict(output.to_input_item())
                self.results[str(item.get("call_id"))] = item
            case _:
                pass

    def missing_from(self, saved: Sequence[TResponseInputItem]) -> list[TResponseInputItem]:
        """What the history lacks of this turn, complete: each call has a result."""
        items: list[Any] = []
        if not any(_role(item) == "user" for item in saved):
            items.append({"role": "user", "content": self.text})
        rest = "".join(self.said).removeprefix("".join(_text(item) for item in saved))
        if rest:
            items.append({"role": "assistant", "content": rest})
        known = {_member(item, "call_id") for item in saved}
        calls = [call for call_id, call in self.calls.items() if call_id not in known]
        return [*items, *calls, *(self._result(call["call_id"]) for call in calls)]

    def _result(self, call_id: str) -> Any:
        cut_off = {"type": "function_call_output", "call_id": call_id, "output": CUT_OFF}
        return self.results.get(call_id, cut_off)


def _for_one_turn(
    agent: Agent[Any], tools: Sequence[SessionTool], instructions: str | None
) -> Agent[Any]:
    """A copy of the agent with the tools of the session, and what this turn is told."""
    copy = agent.clone(tools=[*agent.tools, *(_tool(tool) for tool in tools)])
    if instructions is None:
        return copy

    async def both(context: RunContextWrapper[Any], _: Agent[Any]) -> str:
        own = await agent.get_system_prompt(context)
        return instructions if own is None else f"{own}\n\n{instructions}"

    copy.instructions = both
    return copy


def _tool(tool: SessionTool) -> FunctionTool:
    """The tool as the SDK takes it; its schema reaches the model as it is."""

    async def call(_: ToolContext[Any], arguments: str) -> str:
        # As text: the SDK would show the model a value in Python's spelling.
        answer = await tool.call(_arguments(arguments))
        return json.dumps(sendable_value(answer), ensure_ascii=False)

    return FunctionTool(
        tool.name,
        tool.description,
        tool.parameters,
        call,
        # Strict, the SDK would rewrite the schema so that every member is required.
        strict_json_schema=False,
    )


def _arguments(text: str) -> dict[str, Any]:
    """What the model gave; anything but an object is left to the tool to refuse."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _forward(event: StreamEvent, emit: Callable[[TurnOutput], None]) -> None:
    match event:
        case RawResponsesStreamEvent(data=ResponseTextDeltaEvent(delta=delta)) if delta:
            emit(TextDelta(delta))
        case RunItemStreamEvent(item=ToolCallItem(tool_name=str(name))):
            emit(ToolCalled(name))
        case _:
            pass


async def _stop(run: RunResultStreaming) -> None:
    """Stop a run, and wait until it writes nothing any more."""
    run.cancel()
    if run.run_loop_task is not None:
        await asyncio.wait([run.run_loop_task])


def _checked(item: Any) -> TResponseInputItem:
    """An item as the log holds it.

    Raises:
        TypeError: it is none, or one of ours that says nothing.
    """
    if not isinstance(item, dict):
        raise TypeError("an input item is a JSON object")
    count = item.get("count")
    if item.get("type") == KEPT and (type(count) is not int or count < 0):
        raise TypeError("the count is a whole number")
    return item  # type: ignore[return-value]  # the SDK checks no more than that


def _member(item: Any, name: str) -> Any:
    """One member of an item, whatever its type, or None."""
    return item.get(name)


def _role(item: TResponseInputItem) -> Any:
    return _member(item, "role")


def _text(item: TResponseInputItem) -> str:
    """What an assistant's message says; empty for any other item."""
    content = _member(item, "content") if _role(item) == "assistant" else ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
