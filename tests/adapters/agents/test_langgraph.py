"""The LangGraph driver: one middleware, and a conversation in the log or in a checkpointer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from schedule_adapters.agents.langgraph import (
    MESSAGES_FORMAT,
    Graph,
    GraphPaused,
    LangGraphTurns,
    ScheduleMiddleware,
)
from schedule_adapters.agents.message_log import CUT_OFF, ConversationError
from schedule_adapters.events import MESSAGES
from schedule_adapters.sessions import Session, StoreError, StoreErrorCode
from schedule_adapters.testing.agents import (
    AgentContract,
    CallTool,
    CallTools,
    ModelFailed,
    Say,
    Script,
    Seen,
    SeenTool,
    Step,
    new_call_id,
)
from schedule_adapters.turn_driver import TextDelta, ToolCalled, TurnDriver, TurnInput
from schedule_core.ports import SessionEvent
from schedule_core.tools import TOOLS
from tests.adapters.agents.agent_world import MemorySession, Reminders
from tests.adapters.agents.driver_world import (
    Endless,
    answers,
    cancelled,
    on_virtual_time,
    quickstart_output,
    run,
)
from tests.adapters.agents.driver_world import tool as session_tool


class ScriptedChatModel(BaseChatModel):
    """LangChain's own way to a model of one's own, over the kit's script."""

    script: Any
    between: Any = None  # awaited after each piece

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, tools: Sequence[Any] = (), **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(await self.script.next(seen(messages, tools))):
            yield ChatGenerationChunk(message=chunk)
            if self.between is not None:
                await self.between()


class WholeAnswers(ScriptedChatModel):
    """The same, without streaming."""

    disable_streaming: bool = True

    async def _agenerate(
        self, messages: list[BaseMessage], *_: Any, tools: Sequence[Any] = (), **__: Any
    ) -> ChatResult:
        chunks = _chunks(await self.script.next(seen(messages, tools)))
        whole = message_chunk_to_message(add_ai_message_chunks(*chunks))
        return ChatResult(generations=[ChatGeneration(message=whole)])


def seen(messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> Seen:
    functions = [tool["function"] for tool in tools]
    answers = [message for message in messages if isinstance(message, AIMessage)]
    return Seen(
        texts=tuple(str(m.text) for m in messages if isinstance(m, HumanMessage)),
        tools=tuple(SeenTool(f["name"], f["description"], f["parameters"]) for f in functions),
        results=tuple(_json(m.text) for m in messages if isinstance(m, ToolMessage)),
        instructions="\n".join(str(m.text) for m in messages if isinstance(m, SystemMessage)),
        calls=tuple(call["name"] for answer in answers for call in answer.tool_calls),
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _chunks(step: Step) -> list[AIMessageChunk]:
    match step:
        case Say():
            return [AIMessageChunk(content=piece) for piece in step.pieces]
        case CallTool():
            return _chunks(CallTools((step,)))
        case CallTools(calls):
            return [
                AIMessageChunk(
                    content="",
                    tool_call_chunks=[
                        tool_call_chunk(
                            name=call.name,
                            args=json.dumps(call.arguments),
                            id=new_call_id(),
                            index=index,
                        )
                        for index, call in enumerate(calls)
                    ],
                )
            ]


class TestOnOurLog(AgentContract):
    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        model = ScriptedChatModel(script=script)
        return LangGraphTurns(lambda s: create_agent(model, middleware=[s]), session)

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> TurnDriver:
        model = ScriptedChatModel(script=script)
        tools = [_delegate(model)]
        return LangGraphTurns(lambda s: create_agent(model, tools, middleware=[s]), session)


def _delegate(model: BaseChatModel) -> Any:
    worker = create_agent(model, name="worker")

    @tool
    async def delegate(task: str) -> str:
        """Have a worker do the task."""
        done = await worker.ainvoke({"messages": [HumanMessage(task)]})
        return str(done["messages"][-1].text)

    return delegate


class WithSqlite(LangGraphTurns):
    """A driver whose checkpointer is a file of its own, closed with it."""

    def __init__(
        self, model: BaseChatModel, tools: list[Any], session: Session, path: Path
    ) -> None:
        self._connection = aiosqlite.connect(path)
        saver = AsyncSqliteSaver(self._connection)
        super().__init__(
            lambda s: create_agent(model, tools, middleware=[s], checkpointer=saver), session
        )

    async def close(self) -> None:
        await super().close()
        await self._connection.close()


class TestWithACheckpointer(AgentContract):
    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        return WithSqlite(ScriptedChatModel(script=script), [], session, folder / "graph.db")

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> TurnDriver:
        model = ScriptedChatModel(script=script)
        return WithSqlite(model, [_delegate(model)], session, folder / "graph.db")


# Ours alone: each with the conversation on the log, and with a checkpointer.

Place = Callable[[], Any]
both_places = pytest.mark.parametrize("place", [lambda: None, InMemorySaver], ids=["log", "saver"])


def turns(
    script: Script, session: Session | None = None, *, saver: Any = None, **agent: Any
) -> LangGraphTurns:
    model = ScriptedChatModel(script=script)
    return LangGraphTurns(
        lambda schedule: create_agent(model, middleware=[schedule], checkpointer=saver, **agent),
        session or MemorySession(),
    )


async def test_text_streams_piece_by_piece_and_tools_are_named() -> None:
    script = Script(CallTools((CallTool("schedule_list"), CallTool("schedule_list"))), Say("a b"))
    outputs = await run(turns(script), "list", Reminders().tools())
    called = ToolCalled("schedule_list")
    assert [called, called, TextDelta("a "), TextDelta("b")] == outputs


async def test_the_schemas_reach_the_model_byte_for_byte() -> None:
    script = Script()
    await run(turns(script), "hi", Reminders().tools())
    sent = [(t.name, t.description, json.dumps(t.parameters)) for t in script.requests[0].tools]
    assert [(t.name, t.description, json.dumps(t.parameters)) for t in TOOLS] == sent


@both_places
async def test_the_turns_instructions_follow_the_agents_own_and_are_gone_in_the_next(
    place: Place,
) -> None:
    script = Script()
    driver = turns(script, saver=place(), system_prompt="Be brief.")
    await run(driver, "a", instructions="It is Monday.")
    await run(driver, "b")
    assert ["Be brief.\n\nIt is Monday.", "Be brief."] == [r.instructions for r in script.requests]


@both_places
async def test_other_tools_are_offered_from_the_next_turn_on(place: Place) -> None:
    script = Script()
    driver = turns(script, saver=place())
    for tools in ((answers("one", 1),), (), (answers("two", 2),)):
        await run(driver, "go", tools)
    assert [["one"], [], ["two"]] == [[t.name for t in r.tools] for r in script.requests]
    assert ("go", "go", "go") == script.requests[-1].texts


async def test_names_of_arguments_are_the_tools_business() -> None:
    got: list[dict[str, Any]] = []

    async def keep(arguments: dict[str, Any]) -> object:
        got.append(arguments)
        return None

    arguments = {"self": 1, "config": 2, "run_manager": 3, "not a name": 4, "runtime": 5}
    script = Script(CallTool("keep", arguments))
    await run(turns(script), "go", [session_tool("keep", keep)])
    assert [arguments] == got
    assert (None,) == script.requests[1].results


@both_places
@on_virtual_time
async def test_a_turn_cancelled_in_a_tool_leaves_no_call_without_a_result(place: Place) -> None:
    """The call that was answered keeps its answer; the other one's says that it is not known."""
    endless, saver, session = Endless(), place(), MemorySession()
    both = CallTools((CallTool("quick"), CallTool("endless")))
    script = Script(both, Say("hello again"))
    tools = [answers("quick", {"done": True}), endless.tool]
    driver = turns(script, session, saver=saver)
    await cancelled(driver, "go", tools, endless.entered)
    await run(driver, "are you there?", tools)
    await run(driver, "once more", tools)
    for request in script.requests[1:]:
        assert ("quick", "endless") == request.calls
        assert ({"done": True}, CUT_OFF) == request.results
    assert ("go", "are you there?", "once more") == script.requests[-1].texts

    again = Script()
    await run(turns(again, session, saver=saver), "and now?", tools)
    assert ({"done": True}, CUT_OFF) == again.requests[0].results
    assert ("go", "are you there?", "once more", "and now?") == again.requests[0].texts


@on_virtual_time
async def test_results_that_no_checkpoint_has_yet_are_not_forgotten() -> None:
    """A turn is cut off after its tools answered, while that step is being saved."""
    saving = asyncio.Event()

    class Slow(InMemorySaver):
        async def aput(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            if metadata["step"] == 2 and not saving.is_set():
                saving.set()
                await asyncio.Event().wait()
            return await super().aput(config, checkpoint, metadata, versions)

    saver, tools = Slow(), [answers("quick", {"done": True})]
    script = Script(CallTool("quick"), Say("hello again"))
    driver = turns(script, saver=saver)
    await cancelled(driver, "go", tools, saving)
    await run(driver, "next", tools)
    last = script.requests[-1]
    assert (("go", "next"), ("quick",), ({"done": True},)) == (last.texts, last.calls, last.results)


@on_virtual_time
async def test_a_text_that_broke_off_is_kept_on_the_log() -> None:
    spoke, session = asyncio.Event(), MemorySession()

    async def hang() -> None:
        spoke.set()
        await asyncio.Event().wait()

    model = ScriptedChatModel(script=Script(Say("half a sentence")), between=hang)
    await cancelled(
        LangGraphTurns(lambda s: create_agent(model, middleware=[s]), session), "go", (), spoke
    )
    [event] = session.events
    assert ["go", "half "] == [message["data"]["content"] for message in event.data["messages"]]


@both_places
async def test_a_turn_that_failed_keeps_its_message(place: Place) -> None:
    script = Script(ModelFailed("no"), Say("ok"))
    driver = turns(script, saver=place())
    with pytest.raises(ModelFailed):
        await run(driver, "first")
    await run(driver, "second")
    assert ("first", "second") == script.requests[1].texts


async def test_a_turn_is_one_event_that_a_restart_and_a_fork_read() -> None:
    session = MemorySession()
    await run(turns(Script(CallTool("schedule_list")), session), "hi", Reminders().tools())
    [event] = session.events
    assert (MESSAGES.name, MESSAGES_FORMAT) == (event.type, event.data["format"])
    assert ["human", "ai", "tool", "ai"] == [m["type"] for m in event.data["messages"]]
    child = MemorySession(list(session.events), seed_length=1)
    for later in (session, child):
        script = Script()
        await run(turns(script, later), "still there?")
        assert ("hi", "still there?") == script.requests[0].texts
        assert ([],) == script.requests[0].results
        assert ["human", "ai"] == [m["type"] for m in later.events[1].data["messages"]]


async def test_with_a_checkpointer_nothing_is_kept_on_the_log() -> None:
    session, saver = MemorySession(), InMemorySaver()
    await run(turns(Script(), session, saver=saver), "hi")
    script = Script()
    await run(turns(script, session, saver=saver), "still there?")
    assert [] == session.events
    assert ("hi", "still there?") == script.requests[0].texts


async def test_a_graph_may_rewrite_what_was_said_before() -> None:
    """A summary replaces the conversation, in the log too, and it is not said to the user."""
    session, script = MemorySession(), Script(Say("one"), Say("the summary"), Say("two"))
    model = ScriptedChatModel(script=script)
    shorten = SummarizationMiddleware(model, trigger=("messages", 3), keep=("messages", 1))
    driver = LangGraphTurns(lambda s: create_agent(model, middleware=[s, shorten]), session)
    await run(driver, "first")
    assert [TextDelta("two")] == await run(driver, "second")
    assert ["remove", "human", "human", "ai"] == [
        m["type"] for m in session.events[1].data["messages"]
    ]
    later = Script()
    await run(turns(later, session), "third")
    summary, *others = later.requests[0].texts
    assert "the summary" in summary
    assert ["second", "third"] == others


async def test_a_graph_of_ones_own_takes_the_tools_and_the_instructions_by_hand() -> None:
    script = Script(CallTool("schedule_list"), Say("none"))
    model = ScriptedChatModel(script=script)

    def make_graph(schedule: ScheduleMiddleware) -> Graph:
        async def think(state: MessagesState) -> dict[str, Any]:
            told = SystemMessage(schedule.instructions or "")
            thinking = model.bind_tools(schedule.tools)
            return {"messages": [await thinking.ainvoke([told, *state["messages"]])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode(schedule.tools))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        return graph.compile()

    driver = LangGraphTurns(make_graph, MemorySession())
    outputs = await run(driver, "list", Reminders().tools(), instructions="It is Monday.")
    assert [ToolCalled("schedule_list"), TextDelta("none")] == outputs
    assert ([],) == script.requests[1].results
    assert "It is Monday." == script.requests[1].instructions


async def test_what_a_sub_agent_says_is_not_said_to_the_user() -> None:
    script = Script(CallTool("delegate", {"task": "x"}), Say("of the worker"), Say("of the root"))
    model = ScriptedChatModel(script=script)
    driver = LangGraphTurns(
        lambda s: create_agent(model, [_delegate(model)], middleware=[s]), MemorySession()
    )
    outputs = await run(driver, "go", Reminders().tools(), instructions="It is Monday.")
    said = "".join(output.text for output in outputs if isinstance(output, TextDelta))
    assert "of the root" == said
    assert ((), "") == (script.requests[1].tools, script.requests[1].instructions)


async def test_an_instruction_of_several_parts_stays_one() -> None:
    """Such as one with a mark for the provider's cache."""
    system: list[list[object]] = []

    class Recording(ScriptedChatModel):
        async def _astream(
            self, messages: list[BaseMessage], *_: Any, **more: Any
        ) -> AsyncIterator[ChatGenerationChunk]:
            system.append(list(messages[0].content))
            async for chunk in super()._astream(messages, **more):
                yield chunk

    part = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    model = Recording(script=Script())
    driver = LangGraphTurns(
        lambda s: create_agent(model, system_prompt=SystemMessage([part]), middleware=[s]),
        MemorySession(),
    )
    await run(driver, "a", instructions="It is Monday.")
    assert [[part, {"type": "text", "text": "It is Monday."}]] == system


async def test_what_a_model_says_inside_of_a_tool_is_not_said_to_the_user() -> None:
    script = Script(CallTool("translate"), Say("of the tool"), Say("of the agent"))
    model = ScriptedChatModel(script=script)

    @tool
    async def translate() -> str:
        """Translate."""
        return str((await model.ainvoke("translate")).text)

    driver = LangGraphTurns(
        lambda s: create_agent(model, [translate], middleware=[s]), MemorySession()
    )
    outputs = await run(driver, "go")
    assert "of the agent" == "".join(o.text for o in outputs if isinstance(o, TextDelta))
    assert ("of the tool",) == script.requests[2].results


@both_places
async def test_a_graph_that_stops_before_its_tools_fails_its_turn_and_goes_on(
    place: Place,
) -> None:
    script = Script(CallTool("schedule_list"), Say("well"))
    driver = turns(script, saver=place(), interrupt_before=["tools"])
    with pytest.raises(GraphPaused):
        await run(driver, "go", Reminders().tools())
    await run(driver, "next", Reminders().tools())
    assert (CUT_OFF,) == script.requests[1].results


@both_places
async def test_a_graph_that_waits_for_an_answer_fails_its_turn_and_goes_on(place: Place) -> None:
    @tool
    async def ask() -> str:
        """Ask the user."""
        return str(interrupt("may I?"))

    script = Script(CallTool("ask"), Say("well"))
    driver = turns(script, saver=place(), tools=[ask])
    with pytest.raises(GraphPaused):
        await run(driver, "go")
    await run(driver, "next")
    assert (CUT_OFF,) == script.requests[1].results
    assert ("go", "next") == script.requests[1].texts


async def test_a_model_that_does_not_stream_is_heard_once() -> None:
    script = Script(CallTool("schedule_list"), Say("none at all"))
    model = WholeAnswers(script=script)
    driver = LangGraphTurns(lambda s: create_agent(model, middleware=[s]), MemorySession())
    outputs = await run(driver, "list", Reminders().tools())
    assert [ToolCalled("schedule_list"), TextDelta("none at all")] == outputs


async def test_a_lone_surrogate_becomes_text_that_can_be_sent() -> None:
    session = MemorySession()
    script = Script(CallTool("t", {"a": "\ud800"}), Say("half \ud83d"))
    await run(turns(script, session), "x\udfff", [answers("t", "b\ud800")])
    assert "\ud800" not in json.dumps(session.events[0].data, ensure_ascii=False)
    assert ("x\ufffd",) == script.requests[0].texts
    later = Script()
    await run(turns(later, session), "next")
    assert ("x\ufffd", "next") == later.requests[0].texts


async def test_what_is_no_json_is_kept_as_its_text() -> None:
    @tool(response_format="content_and_artifact")
    async def draw() -> tuple[str, object]:
        """Draw a picture."""
        return "drawn", Path("picture")

    session = MemorySession()
    await run(turns(Script(CallTool("draw")), session, tools=[draw]), "go")
    assert "picture" == session.events[0].data["messages"][2]["data"]["artifact"]


def test_a_conversation_that_cannot_be_read_is_refused_with_its_event() -> None:
    data = {"format": MESSAGES_FORMAT, "messages": [{"type": "nobody"}]}
    with pytest.raises(ConversationError, match=r"event 7 is not langgraph/1"):
        turns(Script(), MemorySession([SessionEvent(MESSAGES.name, data, 7)]))


async def test_a_log_that_refuses_fails_a_finished_turn_and_hides_no_other_failure() -> None:
    refusal = StoreError(StoreErrorCode.SESSION_CLOSED, "closed")
    driver = turns(Script(Say("ok"), ModelFailed("no")), MemorySession(refuse=refusal))
    with pytest.raises(StoreError):
        await run(driver, "one")
    with pytest.raises(ModelFailed):
        await run(driver, "two")


async def test_a_listener_that_raises_fails_the_turn() -> None:
    driver = turns(Script())

    def refuse(_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await driver.run_turn(TurnInput("go"), (), refuse)


def test_the_quickstart_brings_its_reminder_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = quickstart_output("langgraph", tmp_path, capsys)
    assert "source='reminder'" in shown
    assert "It is time to stretch." in shown
