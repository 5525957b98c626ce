"""The OpenAI Agents driver: tools for one run, and a history on the session's own log."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Tool,
    function_tool,
    output_guardrail,
)
from agents import Session as History
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent

from schedule_adapters.agents.message_log import CUT_OFF, ConversationError
from schedule_adapters.agents.openai_agents import (
    KEPT,
    MESSAGES_FORMAT,
    LogHistory,
    OpenAIAgentsTurns,
)
from schedule_adapters.events import MESSAGES
from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.turn_driver import TextDelta, ToolCalled, TurnInput, TurnOutput
from schedule_core import TOOLS, SessionEvent
from tests.adapters.agents.agent_world import MemorySession, Reminders, ScriptedProvider, text_of
from tests.adapters.agents.driver_world import Endless, answers, cancelled, on_virtual_time, run

QUIET = RunConfig(tracing_disabled=True)


def driver_of(
    model: Any, session: MemorySession | None = None, *, tools: tuple[Tool, ...] = ()
) -> OpenAIAgentsTurns:
    agent = Agent[None](name="root", model=model, tools=list(tools))
    return OpenAIAgentsTurns(agent, session or MemorySession(), run_config=QUIET)


def calls(*names: str, arguments: str = "{}") -> list[Any]:
    return [function_call(name, arguments, call_id=f"call-{name}") for name in names]


def says(text: str) -> list[Any]:
    return [assistant_message(text)]


def breaks(text: str, then: Callable[[], Any]) -> ModelStep:
    """A model that says this much, and then does that."""

    async def stream(_: ModelCall) -> AsyncIterator[Any]:
        yield ResponseTextDeltaEvent(
            type="response.output_text.delta",
            delta=text,
            item_id="m",
            output_index=0,
            content_index=0,
            sequence_number=0,
            logprobs=[],
        )
        await then()

    return ModelStep.stream(stream)


def gist(items: Any) -> list[tuple[str, str]]:
    """Kind and content of every item, for tests that compare whole histories."""
    shown: list[tuple[str, str]] = []
    for item in items:
        match item:
            case {"type": "function_call", "name": name}:
                shown.append(("call", name))
            case {"type": "function_call_output", "output": output}:
                shown.append(("result", output))
            case {"role": role, "content": str(text)}:
                shown.append((role, text))
            case {"role": role, "content": parts}:
                shown.append((role, "".join(part["text"] for part in parts)))
            case _:
                shown.append((item["type"], ""))
    return shown


# The history.


async def test_the_history_is_a_session_of_the_sdk() -> None:
    assert isinstance(LogHistory(MemorySession()), History)


async def test_items_are_kept_in_the_log_and_read_back() -> None:
    session = MemorySession()
    history = LogHistory(session)
    one: Any = {"role": "user", "content": "one"}
    two: Any = {"role": "assistant", "content": "two"}
    await history.add_items([one])
    await history.add_items([])
    await history.add_items([two])

    assert [one, two] == await history.get_items()
    assert [one, two] == await LogHistory(session).get_items()
    assert [[], [two], [one, two]] == [await history.get_items(limit) for limit in (0, 1, 9)]
    assert [[one], [two]] == [event.data["messages"] for event in session.events]


async def test_what_is_taken_back_is_gone_after_a_restart_too() -> None:
    session = MemorySession()
    history = LogHistory(session)
    items: list[Any] = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    await history.add_items(items)

    assert items[2] == await history.pop_item()
    assert items[:2] == await LogHistory(session).get_items()
    await history.clear_session()
    assert await history.pop_item() is None
    await history.add_items(items[2:])
    assert items[2:] == await history.get_items()
    assert items[2:] == await LogHistory(session).get_items()


async def test_a_history_that_was_given_away_cannot_be_changed_from_outside() -> None:
    history = LogHistory(MemorySession())
    await history.add_items([{"role": "user", "content": "one"}])
    given: list[Any] = await history.get_items()
    given.pop()["content"] = "two"
    assert [{"role": "user", "content": "one"}] == await history.get_items()


@pytest.mark.parametrize(
    "data", [{}, {"messages": 5}, {"messages": ["x"]}, {"messages": [{"type": KEPT, "count": -1}]}]
)
def test_a_conversation_that_cannot_be_read_is_refused_with_its_event(data: dict[str, Any]) -> None:
    event = SessionEvent(MESSAGES.name, {"format": MESSAGES_FORMAT, **data}, 7)
    with pytest.raises(ConversationError, match="event 7 is not openai-agents/1"):
        LogHistory(MemorySession([event]))


async def test_messages_of_another_framework_are_passed_over() -> None:
    event = SessionEvent(MESSAGES.name, {"format": "pydantic-ai/1", "messages": [{}]})
    assert await LogHistory(MemorySession([event])).get_items() == []


# Turns.


async def test_text_is_streamed_and_tools_are_named() -> None:
    model = ScriptedModel([calls("schedule_list"), says("none at all")])
    outputs = await run(driver_of(model), "list", Reminders().tools())
    assert [ToolCalled("schedule_list"), TextDelta("none at all")] == outputs


async def test_the_agents_own_tools_and_instructions_stay_and_it_is_not_changed() -> None:
    @function_tool
    def dice() -> int:
        """Roll it."""
        return 6

    model = ScriptedModel([calls("dice"), says("six"), says("bye")])
    agent = Agent[None](name="root", model=model, tools=[dice], instructions="Be brief.")
    driver = OpenAIAgentsTurns(agent, MemorySession(), run_config=QUIET)
    await run(driver, "roll", Reminders().tools(), instructions="It is Monday.")
    await run(driver, "bye")

    assert ["Be brief.\n\nIt is Monday."] * 2 + ["Be brief."] == [
        call.system_instructions for call in model.calls
    ]
    assert [4, 4, 1] == [len(call.tools) for call in model.calls]
    assert ("result", "6") in gist(model.calls[1].input)
    assert (agent.tools, agent.instructions) == ([dice], "Be brief.")


async def test_instructions_that_the_agent_works_out_are_kept() -> None:
    model = ScriptedModel([says("ok")])
    agent = Agent[str](
        name="root", model=model, instructions=lambda context, _: f"You help {context.context}."
    )
    driver = OpenAIAgentsTurns(agent, MemorySession(), run_config=QUIET, context="everybody")
    await run(driver, "hi", instructions="It is Monday.")
    assert model.calls[0].system_instructions == "You help everybody.\n\nIt is Monday."


async def test_an_agent_without_instructions_is_told_those_of_the_turn() -> None:
    model = ScriptedModel([says("ok")])
    await run(driver_of(model), "hi", instructions="It is Monday.")
    assert model.calls[0].system_instructions == "It is Monday."


@pytest.mark.parametrize("value", [[], [{"id": "schedule-1"}], {"code": "x"}, None, True, "ü\\"])
async def test_a_tools_value_reaches_the_model_as_json_text(value: object) -> None:
    model = ScriptedModel([calls("t"), says("ok")])
    await run(driver_of(model), "go", (answers("t", value),))
    [(_, text)] = [pair for pair in gist(model.calls[1].input) if pair[0] == "result"]
    assert value == json.loads(text)


@pytest.mark.parametrize("arguments", ["", "not json", "[1]", '{"prompt":'])
async def test_arguments_that_are_no_object_are_refused_by_the_tool(arguments: str) -> None:
    model = ScriptedModel([calls("schedule_create", arguments=arguments), says("sorry")])
    await run(driver_of(model), "go", Reminders().tools())
    [(_, text)] = [pair for pair in gist(model.calls[1].input) if pair[0] == "result"]
    assert json.loads(text)["code"] == "invalid_selector"


async def test_a_lone_surrogate_becomes_text_that_can_be_sent() -> None:
    model = ScriptedModel([calls("t"), says("half \ud83d"), says("ok")])
    driver = driver_of(model)
    await run(driver, "x\udfff", (answers("t", "a\ud800b😀"),))
    await run(driver, "next")
    expected = [
        ("user", "x\ufffd"),
        ("call", "t"),
        ("result", '"a\ufffdb😀"'),
        ("assistant", "half \ufffd"),
        ("user", "next"),
    ]
    assert expected == gist(model.calls[2].input)


@on_virtual_time
async def test_calls_that_were_cut_off_are_told_with_what_is_known_of_them() -> None:
    session, endless = MemorySession(), Endless()
    model = ScriptedModel([calls("quick", "endless"), says("hello again")])
    driver = driver_of(model, session)
    await cancelled(driver, "go", (answers("quick", "done"), endless.tool), endless.entered)
    await run(driver, "are you there?")

    told = gist(model.calls[1].input)
    assert [("user", "go"), ("call", "quick"), ("call", "endless")] == told[:3]
    assert ("result", CUT_OFF) in told
    assert told[-1] == ("user", "are you there?")
    assert [kind for kind, _ in told].count("call") == [kind for kind, _ in told].count("result")
    assert all("id" not in item for item in model.calls[1].input if "call_id" in item)


@on_virtual_time
async def test_a_turn_cancelled_while_it_speaks_keeps_what_was_said() -> None:
    spoke = asyncio.Event()

    async def wait() -> None:
        spoke.set()
        await asyncio.Event().wait()

    model = ScriptedModel([breaks("half a ", wait), says("ok")])
    driver = driver_of(model)
    await cancelled(driver, "go", (), spoke)
    await run(driver, "next")
    expected = [("user", "go"), ("assistant", "half a "), ("user", "next")]
    assert expected == gist(model.calls[1].input)


async def test_a_failed_turn_keeps_its_steps_and_the_text_that_was_seen() -> None:
    async def fail() -> None:
        raise ConnectionError("the line is dead")

    model = ScriptedModel([calls("t"), breaks("half a ", fail), says("fine now")])
    driver = driver_of(model)
    with pytest.raises(ConnectionError):
        await run(driver, "go", (answers("t", 1),))
    await run(driver, "next")
    expected = [
        ("user", "go"),
        ("call", "t"),
        ("result", "1"),
        ("assistant", "half a "),
        ("user", "next"),
    ]
    assert expected == gist(model.calls[2].input)


async def test_a_turn_cancelled_before_it_began_keeps_its_message() -> None:
    model = ScriptedModel([says("ok")])
    driver = driver_of(model)
    turn = asyncio.create_task(run(driver, "go"))
    await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await run(driver, "next")
    assert gist(model.calls[-1].input) == [("user", "go"), ("user", "next")]


async def test_a_turn_that_asks_the_model_too_often_fails_and_the_next_one_goes_on() -> None:
    model = ScriptedModel([calls("t"), says("fine now")])
    agent = Agent[None](name="root", model=model)
    driver = OpenAIAgentsTurns(agent, MemorySession(), run_config=QUIET, max_turns=1)
    with pytest.raises(MaxTurnsExceeded):
        await run(driver, "go", (answers("t", 1),))
    await run(driver, "next")
    expected = [("user", "go"), ("call", "t"), ("result", "1"), ("user", "next")]
    assert expected == gist(model.calls[1].input)


async def test_text_that_an_output_guardrail_stopped_is_not_kept() -> None:
    @output_guardrail
    async def refuse(_: object, __: object, said: str) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=said == "a secret")

    model = ScriptedModel([says("a secret"), says("fine now")])
    agent = Agent[None](name="root", model=model, output_guardrails=[refuse])
    driver = OpenAIAgentsTurns(agent, MemorySession(), run_config=QUIET)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(driver, "go")
    await run(driver, "next")
    assert gist(model.calls[1].input) == [("user", "go"), ("user", "next")]


class SlowHistory(LogHistory):
    """A history of the SDK's own kind: each read takes its time."""

    async def get_items(self, limit: int | None = None) -> list[Any]:
        await asyncio.sleep(0)
        return await super().get_items(limit)


async def test_a_turn_cancelled_while_its_history_is_read_keeps_its_message() -> None:
    session = MemorySession()
    agent = Agent[None](name="root", model=ScriptedModel([]))
    driver = OpenAIAgentsTurns(agent, session, history=SlowHistory(session), run_config=QUIET)
    await LogHistory(session).add_items([{"role": "user", "content": "earlier"}])
    turn = asyncio.create_task(run(driver, "go"))
    await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert gist(await LogHistory(session).get_items()) == [("user", "earlier"), ("user", "go")]


async def test_a_listener_that_raises_fails_the_turn_and_nothing_runs_on() -> None:
    driver = driver_of(ScriptedModel([says("ok"), says("fine")]))
    before = asyncio.all_tasks()

    def refuse(_: TurnOutput) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await driver.run_turn(TurnInput("go"), (), refuse)
    assert asyncio.all_tasks() == before
    assert text_of(await run(driver, "next")) == "fine"


@on_virtual_time
async def test_a_log_that_refuses_does_not_hide_a_cancellation() -> None:
    session, endless = MemorySession(), Endless()
    driver = driver_of(ScriptedModel([calls("endless")]), session)
    turn = asyncio.create_task(run(driver, "go", (endless.tool,)))
    await endless.entered.wait()
    session.refuse = StoreError(StoreErrorCode.SESSION_CLOSED, "closed")
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


async def test_a_log_that_refuses_fails_the_turn() -> None:
    session = MemorySession(refuse=StoreError(StoreErrorCode.SESSION_CLOSED, "closed"))
    with pytest.raises(StoreError):
        await run(driver_of(ScriptedModel([says("ok")]), session), "go")


async def test_on_the_wire_the_schemas_are_the_catalogs_and_not_strict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.lower(), raising=False)
    with ScriptedProvider(["hello"]) as provider:
        async with AsyncOpenAI(base_url=provider.base_url, api_key="none") as client:
            model = OpenAIChatCompletionsModel("any", client)
            outputs = await run(driver_of(model), "hi", Reminders().tools())
    assert text_of(outputs) == "hello"
    sent = [tool["function"] for tool in provider.requests[0]["tools"]]
    assert [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in TOOLS
    ] == sent
