"""The Agent Framework driver: tools for one run, a history that survives what happens."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
)

from schedule_adapters.agents.agent_framework import MESSAGES_FORMAT, AgentFrameworkTurns
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
    tool,
)


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """The framework's own way to a client of one's own, over the kit's script."""

    def __init__(self, script: Script, between: Any = None) -> None:
        super().__init__()
        self.script = script
        self.between = between  # awaited after each piece

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Any:
        pieces = self._pieces(messages, options)
        if stream:
            return ResponseStream(pieces, finalizer=ChatResponse.from_updates)

        async def whole() -> ChatResponse[Any]:
            return ChatResponse.from_updates([piece async for piece in pieces])

        return whole()

    async def _pieces(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> AsyncIterator[ChatResponseUpdate]:
        for content in _contents(await self.script.next(seen(messages, options))):
            yield ChatResponseUpdate(contents=[content], role="assistant")
            if self.between is not None:
                await self.between()


def seen(messages: Sequence[Message], options: Mapping[str, Any]) -> Seen:
    parts = [part for message in messages for part in message.contents]
    return Seen(
        texts=tuple(message.text for message in messages if message.role == "user"),
        tools=tuple(_seen_tool(tool) for tool in options.get("tools") or ()),
        results=tuple(_json(p.result) for p in parts if p.type == "function_result"),
        instructions=str(options.get("instructions") or ""),
        calls=tuple(str(p.name) for p in parts if p.type == "function_call"),
    )


def _seen_tool(tool: FunctionTool) -> SeenTool:
    sent = tool.to_json_schema_spec()["function"]
    return SeenTool(sent["name"], sent["description"], sent["parameters"])


def _json(text: Any) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _contents(step: Step) -> list[Content]:
    match step:
        case Say():
            return [Content.from_text(piece) for piece in step.pieces]
        case CallTool():
            return _contents(CallTools((step,)))
        case CallTools(calls):
            return [
                Content.from_function_call(
                    new_call_id(), call.name, arguments=json.dumps(call.arguments)
                )
                for call in calls
            ]


class TestContract(AgentContract):
    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        return AgentFrameworkTurns(Agent(ScriptedClient(script)), session)

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> TurnDriver:
        worker = Agent(ScriptedClient(script), name="worker")
        delegate = worker.as_tool(name="delegate", arg_name="task")
        return AgentFrameworkTurns(Agent(ScriptedClient(script), tools=[delegate]), session)


# Ours alone.


def turns(script: Script, session: Session | None = None, **agent: Any) -> AgentFrameworkTurns:
    return AgentFrameworkTurns(Agent(ScriptedClient(script), **agent), session or MemorySession())


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


async def test_the_tools_and_the_history_belong_to_the_driver_and_not_to_the_agent() -> None:
    script = Script()
    agent: Agent[Any] = Agent(ScriptedClient(script), tools=[dice])
    await run(AgentFrameworkTurns(agent, MemorySession()), "one", Reminders().tools())
    await run(AgentFrameworkTurns(agent, MemorySession()), "two")
    assert [4, 1] == [len(request.tools) for request in script.requests]
    assert [("one",), ("two",)] == [request.texts for request in script.requests]
    assert [] == agent.context_providers


def dice() -> int:
    """Roll the dice."""
    return 6


async def test_the_agents_own_tools_work() -> None:
    script = Script(CallTool("dice"), Say("six"))
    await run(turns(script, tools=[dice]), "roll", Reminders().tools())
    assert (6,) == script.requests[1].results


async def test_the_turns_instructions_follow_the_agents_own_and_are_gone_in_the_next() -> None:
    script = Script()
    driver = turns(script, instructions="Be brief.")
    await run(driver, "a", instructions="It is Monday.")
    await run(driver, "b")
    assert ["Be brief.\nIt is Monday.", "Be brief."] == [r.instructions for r in script.requests]


async def test_no_argument_is_refused_before_the_tool_sees_it() -> None:
    """Not even one that the schema forbids: the tool's own refusal says why."""
    got: list[dict[str, Any]] = []

    async def keep(arguments: dict[str, Any]) -> object:
        got.append(arguments)
        return None

    arguments = {"ctx": 1, "not a name": 2, "model_dump": 3, "cls": 4}
    script = Script(CallTool("keep", arguments), CallTool("schedule_create", {"prompt": 1}))
    await run(turns(script), "go", [tool("keep", keep), *Reminders().tools()])
    assert [arguments] == got
    _, refusal = script.requests[2].results
    assert isinstance(refusal, dict)
    assert "invalid_selector" == refusal["code"]


@on_virtual_time
async def test_a_turn_cancelled_in_a_tool_leaves_no_call_without_a_result() -> None:
    """The call that was answered keeps its answer; the other one's says that it is not known."""
    endless, session = Endless(), MemorySession()
    script = Script(CallTools((CallTool("quick"), CallTool("endless"))), Say("hello again"))
    tools = [answers("quick", {"done": True}), endless.tool]
    driver = turns(script, session)
    await cancelled(driver, "go", tools, endless.entered)
    await run(driver, "are you there?", tools)
    again = Script()
    await run(turns(again, session), "and now?", tools)
    for request in (script.requests[1], again.requests[0]):
        assert ("quick", "endless") == request.calls
        assert ({"done": True}, CUT_OFF) == request.results
    assert ("go", "are you there?", "and now?") == again.requests[0].texts


@on_virtual_time
@pytest.mark.parametrize("step", [Say("half a sentence"), CallTools((CallTool("a"),) * 2)])
async def test_of_an_answer_that_broke_off_the_text_is_kept_and_no_call(step: Step) -> None:
    began, session = asyncio.Event(), MemorySession()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    client = ScriptedClient(Script(step), hang)
    driver = AgentFrameworkTurns(Agent(client), session)
    await cancelled(driver, "go", [answers("a", 1)], began)
    script = Script()
    await run(turns(script, session), "next")
    [event, _] = session.events
    kept = [part.get("text") for m in event.data["messages"] for part in m["contents"]]
    assert (["go", "half "] if isinstance(step, Say) else ["go"]) == kept
    assert ((), ("go", "next")) == (script.requests[0].calls, script.requests[0].texts)


async def test_a_turn_that_failed_keeps_its_message() -> None:
    script = Script(ModelFailed("no"), Say("ok"))
    driver = turns(script)
    with pytest.raises(ModelFailed):
        await run(driver, "first")
    await run(driver, "second")
    assert ("first", "second") == script.requests[1].texts


async def test_a_call_of_a_tool_that_runs_elsewhere_gets_a_result_too() -> None:
    """The framework ends the turn at it; a session has nobody who could answer it."""
    elsewhere = FunctionTool(name="elsewhere", description="Runs in the browser.", func=None)
    script = Script(CallTool("elsewhere"))
    driver = turns(script, tools=[elsewhere])
    await run(driver, "go")
    await run(driver, "next")
    assert (CUT_OFF,) == script.requests[1].results


async def test_a_call_that_waits_for_approval_gets_a_result_too() -> None:
    risky = FunctionTool(
        name="risky", description="Risky.", func=dice, approval_mode="always_require"
    )
    script = Script(CallTool("risky"))
    driver = turns(script, tools=[risky])
    await run(driver, "go")
    await run(driver, "next")
    assert (("risky",), (CUT_OFF,)) == (script.requests[1].calls, script.requests[1].results)


async def test_a_turn_is_one_event_that_a_restart_and_a_fork_read() -> None:
    session = MemorySession()
    await run(turns(Script(CallTool("schedule_list")), session), "hi", Reminders().tools())
    [event] = session.events
    assert (MESSAGES.name, MESSAGES_FORMAT) == (event.type, event.data["format"])
    assert ["user", "assistant", "tool", "assistant"] == [
        message["role"] for message in event.data["messages"]
    ]
    child = MemorySession(list(session.events), seed_length=1)
    for later in (session, child):
        script = Script()
        await run(turns(script, later), "still there?")
        assert ("hi", "still there?") == script.requests[0].texts
        assert ([],) == script.requests[0].results
        assert ["user", "assistant"] == [m["role"] for m in later.events[1].data["messages"]]


async def test_an_agent_that_would_persist_each_request_leaves_that_to_the_driver() -> None:
    script, session = Script(CallTool("schedule_list"), Say("none")), MemorySession()
    driver = turns(script, session, require_per_service_call_history_persistence=True)
    await run(driver, "hi", Reminders().tools())
    assert (("hi",), ([],)) == (script.requests[1].texts, script.requests[1].results)
    await run(driver, "still there?", Reminders().tools())
    assert ("hi", "still there?") == script.requests[2].texts
    assert 2 == session.length


async def test_other_providers_get_the_session_and_the_new_messages_alone() -> None:
    got: list[tuple[str, list[str], list[str]]] = []

    class Memory(ContextProvider):
        async def after_run(self, *, session: Any, context: Any, **_: Any) -> None:
            session.state["turns"] = session.state.get("turns", 0) + 1
            given = [message.text for message in context.input_messages]
            answered = [message.text for message in context.response.messages]
            got.append((session.session_id, given, answered))
            assert len(got) == session.state["turns"]

    driver = turns(Script(Say("one"), Say("two")), context_providers=[Memory("memory")])
    await run(driver, "a")
    await run(driver, "b")
    assert [("s1", ["a"], ["one"]), ("s1", ["b"], ["two"])] == got


def test_an_agent_with_a_history_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="load_messages=False"):
        turns(Script(), context_providers=[InMemoryHistoryProvider()])
    turns(Script(), context_providers=[InMemoryHistoryProvider("audit", load_messages=False)])


async def test_a_service_that_keeps_conversations_is_not_given_it_twice() -> None:
    """The log's copy is sent whole, so no earlier answer of the service is referred to."""
    asked: list[object] = []

    class Service(ScriptedClient):
        STORES_BY_DEFAULT = True

        async def _pieces(
            self, messages: Sequence[Message], options: Mapping[str, Any]
        ) -> AsyncIterator[ChatResponseUpdate]:
            asked.append(options.get("conversation_id"))
            async for piece in super()._pieces(messages, options):
                piece.conversation_id = "conversation-1"
                yield piece

    script = Script()
    driver = AgentFrameworkTurns(Agent(Service(script)), MemorySession())
    await run(driver, "a")
    await run(driver, "b")
    assert [None, None] == asked
    assert ("a", "b") == script.requests[1].texts


async def test_a_lone_surrogate_becomes_text_that_can_be_sent() -> None:
    session = MemorySession()
    script = Script(CallTool("t", {"a": "\ud800"}), Say("half \ud83d"))
    await run(turns(script, session), "x\udfff", [answers("t", "b\ud800")])
    later = Script()
    await run(turns(later, session), "next")
    assert ("x\ufffd", "next") == later.requests[0].texts


@pytest.mark.parametrize("messages", [None, [1], [{}]])
def test_a_conversation_that_cannot_be_read_is_refused_with_its_event(messages: object) -> None:
    data = {"format": MESSAGES_FORMAT, "messages": messages}
    with pytest.raises(ConversationError, match=r"event 7 is not agent-framework/1"):
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
    shown = quickstart_output("agent_framework", tmp_path, capsys)
    assert "source='reminder'" in shown
    assert "It is time to stretch." in shown
