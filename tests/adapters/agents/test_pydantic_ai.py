"""The pydantic-ai driver: tools for one run, and a conversation that survives what happens."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from schedule_adapters.agents.pydantic_ai import (
    MESSAGES_FORMAT,
    ConversationError,
    ModelUnavailable,
    PydanticAITurns,
    make_agent,
)
from schedule_adapters.events import MESSAGES
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.turn_driver import (
    SessionTool,
    TextDelta,
    ToolCalled,
    TurnDriver,
    TurnInput,
    TurnOutput,
)
from schedule_core.ports import SessionEvent
from schedule_core.tools import TOOLS
from tests.adapters.agents.agent_world import MemorySession, Reminders, StillClock, text_of

Delta = str | dict[int, DeltaToolCall]
Step = Callable[[], AsyncIterator[Delta]]


class Script:
    """A model that plays steps and keeps what it was sent."""

    def __init__(self, *steps: Step) -> None:
        self.seen: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self._steps = list(steps)

    @property
    def agent(self) -> Agent[None, str]:
        return Agent(FunctionModel(stream_function=self._stream))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Delta]:
        self.seen.append(list(messages))
        self.infos.append(info)
        async for delta in self._steps.pop(0)():
            yield delta


def says(*pieces: str) -> Step:
    async def step() -> AsyncIterator[Delta]:
        for piece in pieces:
            yield piece

    return step


def calls(*names: str, arguments: str = "{}") -> Step:
    async def step() -> AsyncIterator[Delta]:
        yield {
            index: DeltaToolCall(name, arguments, tool_call_id=f"{name}-{index}")
            for index, name in enumerate(names)
        }

    return step


def breaks(*pieces: Delta) -> Step:
    async def step() -> AsyncIterator[Delta]:
        for piece in pieces:
            yield piece
        raise ConnectionError("the line is dead")

    return step


def tool(name: str, call: Callable[[dict[str, Any]], Any]) -> SessionTool:
    return SessionTool(name, "for the test", {"type": "object", "properties": {}}, call)


def parts(messages: list[ModelMessage]) -> list[tuple[str, object]]:
    """Kind and content of every part, for tests that compare whole histories."""
    shown: list[tuple[str, object]] = []
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart(content=content):
                    shown.append(("user", content))
                case TextPart(content=text):
                    shown.append(("text", text))
                case ToolCallPart(tool_name=name):
                    shown.append(("call", name))
                case ToolReturnPart(content=content):
                    shown.append(("return", content))
                case _:
                    shown.append((part.part_kind, None))
    return shown


CANCELLED = "cancelled: the call was cut off before its result was known, and may have taken effect"


async def run(
    driver: PydanticAITurns, text: str, tools: tuple[SessionTool, ...] = (), **turn: Any
) -> list[TurnOutput]:
    outputs: list[TurnOutput] = []
    await driver.run_turn(TurnInput(text, **turn), tools, outputs.append)
    return outputs


async def test_text_streams_piece_by_piece_and_tools_are_named() -> None:
    script = Script(calls("schedule_list"), says("none ", "at all"))
    driver = PydanticAITurns(script.agent, MemorySession())
    outputs = await run(driver, "list", Reminders().tools())
    assert [ToolCalled("schedule_list"), TextDelta("none "), TextDelta("at all")] == outputs


async def test_the_schemas_reach_the_model_byte_for_byte() -> None:
    script = Script(says("ok"))
    await run(PydanticAITurns(script.agent, MemorySession()), "hi", Reminders().tools())
    sent = [
        (t.name, t.description, json.dumps(t.parameters_json_schema), t.sequential)
        for t in script.infos[0].function_tools
    ]
    assert [(t.name, t.description, json.dumps(t.parameters), True) for t in TOOLS] == sent


async def test_the_tools_belong_to_the_run_and_not_to_the_agent() -> None:
    script = Script(says("one"), says("two"))
    driver = PydanticAITurns(script.agent, MemorySession())
    await run(driver, "with", Reminders().tools())
    await run(driver, "without")
    assert [len(info.function_tools) for info in script.infos] == [3, 0]


async def test_the_agents_own_tools_and_instructions_stay() -> None:
    script = Script(calls("dice"), says("six"))
    agent = Agent(script.agent.model, instructions="Be brief.")

    @agent.tool_plain
    def dice() -> int:
        return 6

    driver = PydanticAITurns(agent, MemorySession())
    await run(driver, "roll", Reminders().tools(), instructions="It is Monday.")
    assert ("return", 6) in parts(script.seen[1])
    assert script.infos[0].instructions == "Be brief.\n\nIt is Monday."


async def test_the_instructions_of_a_turn_are_gone_in_the_next() -> None:
    script = Script(says("one"), says("two"))
    driver = PydanticAITurns(script.agent, MemorySession())
    await run(driver, "a", instructions="It is Monday.")
    await run(driver, "b")
    assert [info.instructions for info in script.infos] == ["It is Monday.", None]


@pytest.mark.parametrize("value", [[], [{"id": "schedule-1"}], {"code": "x"}, None, True, "ü\\"])
async def test_a_tools_value_reaches_the_model_as_json(value: object) -> None:
    async def answer(_: dict[str, Any]) -> object:
        return value

    script = Script(calls("t"), says("ok"))
    await run(PydanticAITurns(script.agent, MemorySession()), "go", (tool("t", answer),))
    assert ("return", value) == parts(script.seen[1])[-1]


async def test_a_refusal_is_a_value_and_the_turn_goes_on() -> None:
    script = Script(calls("schedule_create", arguments='{"prompt": "x"}'), says("sorry"))
    outputs = await run(PydanticAITurns(script.agent, MemorySession()), "go", Reminders().tools())
    kind, content = parts(script.seen[1])[-1]
    assert kind == "return"
    assert isinstance(content, dict)
    assert content["code"] == "invalid_selector"
    assert text_of(outputs) == "sorry"


async def test_a_turn_is_one_event_that_the_next_process_reads() -> None:
    session = MemorySession()
    script = Script(calls("schedule_list"), says("none"))
    await run(PydanticAITurns(script.agent, session), "first", Reminders().tools())
    (event,) = session.events
    assert (MESSAGES.name, MESSAGES_FORMAT) == (event.type, event.data["format"])
    assert len(event.data["messages"]) == 4

    again = Script(says("second answer"))
    resumed = PydanticAITurns(again.agent, session)
    await run(resumed, "second")
    assert parts(again.seen[0]) == [
        ("user", "first"),
        ("call", "schedule_list"),
        ("return", []),
        ("text", "none"),
        ("user", "second"),
    ]
    assert session.length == 2
    assert parts(list(resumed.history)) == [*parts(again.seen[0]), ("text", "second answer")]


async def test_a_fork_inherits_the_conversation() -> None:
    parent = MemorySession()
    await run(PydanticAITurns(Script(says("hello")).agent, parent), "hi")
    child = MemorySession(list(parent.events), seed_length=parent.length)
    script = Script(says("yes"))
    await run(PydanticAITurns(script.agent, child), "still there?")
    assert parts(script.seen[0]) == [("user", "hi"), ("text", "hello"), ("user", "still there?")]
    assert parent.length == 1


async def test_a_session_of_a_store_keeps_and_forks_the_conversation() -> None:
    store = MemoryStore(clock=StillClock())
    session = await store.open("parent")
    driver: TurnDriver = PydanticAITurns(Script(says("hello")).agent, session)
    await driver.run_turn(TurnInput("hi"), (), lambda _: None)
    await session.barrier()
    await session.close()
    await store.fork("parent", "child")
    for name in ("parent", "child"):
        script = Script(says("yes"))
        await run(PydanticAITurns(script.agent, await store.open(name)), "still there?")
        assert parts(script.seen[0])[:2] == [("user", "hi"), ("text", "hello")]


def test_events_of_others_are_passed_over() -> None:
    session = MemorySession(
        [
            SessionEvent("schedule/change", {"version": 1}),
            SessionEvent(MESSAGES.name, {"format": "another/1", "messages": [1, 2]}),
            SessionEvent(MESSAGES.name, [1]),
        ]
    )
    assert PydanticAITurns(Script().agent, session).history == ()


@pytest.mark.parametrize("data", [{}, {"messages": None}, {"messages": [{"kind": "?"}]}])
def test_a_conversation_that_cannot_be_read_is_refused_with_its_event(data: Any) -> None:
    session = MemorySession([SessionEvent(MESSAGES.name, {"format": MESSAGES_FORMAT, **data}, 7)])
    with pytest.raises(ConversationError, match="event 7") as caught:
        PydanticAITurns(Script().agent, session)
    assert caught.value.seq == 7


async def _cancelled(
    driver: PydanticAITurns, tools: tuple[SessionTool, ...], at: asyncio.Event
) -> None:
    task = asyncio.create_task(run(driver, "go", tools))
    await at.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_turn_cancelled_in_a_tool_leaves_no_call_without_a_result() -> None:
    session, inside = MemorySession(), asyncio.Event()

    async def quick(_: dict[str, Any]) -> object:
        return "done"

    async def slow(_: dict[str, Any]) -> object:
        inside.set()
        return await asyncio.Event().wait()

    script = Script(calls("quick", "slow"), says("hello again"))
    driver = PydanticAITurns(script.agent, session)
    await _cancelled(driver, (tool("quick", quick), tool("slow", slow)), inside)
    assert session.length == 1
    expected = [
        ("user", "go"),
        ("call", "quick"),
        ("call", "slow"),
        ("return", "done"),
        ("return", CANCELLED),
    ]
    assert expected == parts(list(driver.history))
    outputs = await run(driver, "are you there?")
    assert [*expected, ("user", "are you there?")] == parts(script.seen[1])
    assert text_of(outputs) == "hello again"
    assert driver.history == PydanticAITurns(script.agent, session).history


async def test_a_turn_cancelled_while_it_speaks_keeps_what_was_said() -> None:
    spoke = asyncio.Event()

    async def speaks() -> AsyncIterator[Delta]:
        yield "half a "
        spoke.set()
        await asyncio.Event().wait()
        yield "sentence"

    script = Script(speaks, says("ok"))
    driver = PydanticAITurns(script.agent, MemorySession())
    await _cancelled(driver, (), spoke)
    await run(driver, "next")
    assert parts(script.seen[1])[0] == ("user", "go")
    assert parts(script.seen[1])[-1] == ("user", "next")


async def test_a_turn_cancelled_before_it_began_keeps_its_message() -> None:
    session = MemorySession()
    script = Script(says("ok"))
    driver = PydanticAITurns(script.agent, session)
    task = asyncio.create_task(run(driver, "go"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await run(driver, "next")
    assert parts(script.seen[-1]) == [("user", "go"), ("user", "next")]
    assert session.length == 2


@pytest.mark.parametrize(
    ("first", "kept"),
    [
        (breaks(), []),
        (breaks("half a "), [("text", "half a ")]),
        (breaks({0: DeltaToolCall("t", '{"pro', tool_call_id="c")}), []),
    ],
)
async def test_a_failed_turn_keeps_its_message_and_the_text_that_was_seen(
    first: Step, kept: list[tuple[str, object]]
) -> None:
    session, script = MemorySession(), Script(first, says("fine now"))
    driver = PydanticAITurns(script.agent, session)
    with pytest.raises(ConnectionError):
        await run(driver, "go")
    assert session.length == 1
    await run(driver, "next")
    assert [("user", "go"), *kept, ("user", "next")] == parts(script.seen[1])
    assert driver.history == PydanticAITurns(script.agent, session).history


async def test_a_tool_that_raises_fails_the_turn_and_not_the_conversation() -> None:
    async def raises(_: dict[str, Any]) -> object:
        raise OSError("gone")

    script = Script(calls("t"), says("fine now"))
    driver = PydanticAITurns(script.agent, MemorySession())
    with pytest.raises(OSError, match="gone"):
        await run(driver, "go", (tool("t", raises),))
    await run(driver, "next")
    assert parts(script.seen[1]) == [
        ("user", "go"),
        ("call", "t"),
        ("return", CANCELLED),
        ("user", "next"),
    ]


async def test_a_call_of_an_unknown_tool_is_answered_and_the_turn_goes_on() -> None:
    script = Script(calls("nothing"), says("sorry"))
    driver = PydanticAITurns(script.agent, MemorySession())
    assert text_of(await run(driver, "go", Reminders().tools())) == "sorry"
    again = PydanticAITurns(Script().agent, driver._session)
    assert driver.history == again.history


async def test_a_log_that_refuses_does_not_hide_a_cancellation() -> None:
    inside = asyncio.Event()

    async def slow(_: dict[str, Any]) -> object:
        inside.set()
        return await asyncio.Event().wait()

    session = MemorySession(refuse=StoreError(StoreErrorCode.SESSION_CLOSED, "closed"))
    driver = PydanticAITurns(Script(calls("slow")).agent, session)
    await _cancelled(driver, (tool("slow", slow),), inside)
    assert driver.history == ()


async def test_a_log_that_refuses_fails_a_finished_turn() -> None:
    session = MemorySession(refuse=StoreError(StoreErrorCode.SESSION_CLOSED, "closed"))
    driver = PydanticAITurns(Script(says("ok")).agent, session)
    with pytest.raises(StoreError):
        await run(driver, "go")
    assert driver.history == ()


async def test_a_listener_that_raises_fails_the_turn() -> None:
    driver = PydanticAITurns(Script(says("ok")).agent, MemorySession())

    def refuse(_: TurnOutput) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await driver.run_turn(TurnInput("go"), (), refuse)
    await driver.close()


async def test_a_lone_surrogate_becomes_text_that_can_be_sent() -> None:
    async def answer(_: dict[str, Any]) -> object:
        return [{"prompt": "a\ud800b😀"}]

    script = Script(calls("t"), says("half \ud83d", "\ude00 \ud83d"))
    driver = PydanticAITurns(script.agent, MemorySession())
    await run(driver, "x\udfff", (tool("t", answer),))
    assert parts(list(driver.history))[-1] == ("text", "half 😀 \ufffd")
    assert driver.history == PydanticAITurns(Script().agent, driver._session).history
    assert parts(script.seen[1]) == [
        ("user", "x\ufffd"),
        ("call", "t"),
        ("return", [{"prompt": "a\ufffdb😀"}]),
    ]


async def test_names_of_arguments_are_the_tools_business() -> None:
    got: list[dict[str, Any]] = []

    async def keep(arguments: dict[str, Any]) -> object:
        got.append(arguments)
        return "ok"

    arguments = '{"self": 1, "ctx": 2, "not a name": 3, "tool": 4}'
    script = Script(calls("t", arguments=arguments), says("ok"))
    await run(PydanticAITurns(script.agent, MemorySession()), "go", (tool("t", keep),))
    assert [json.loads(arguments)] == got


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nonsense", "unknown model nonsense; use offline, ollama:NAME or openai-chat:NAME"),
        ("nobody:x", "unknown model nobody:x"),
        ("ollama:", "names no model"),
        ("openai-chat:x", "OPENAI_API_KEY"),
        ("ollama:x", "OLLAMA_BASE_URL"),
        ("groq:x", "pip install 'pydantic-ai-slim[groq]'"),
    ],
)
def test_a_model_that_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelUnavailable) as caught:
        make_agent(model, clock=StillClock())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_openai_package_the_command_to_run_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.ollama", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'session-schedule\[openai\]'"):
        make_agent("ollama:x", clock=StillClock())
