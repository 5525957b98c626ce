"""The Google ADK driver: one toolset more, and a conversation on the log or in ADK's own store."""

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from schedule_adapters.agents.google_adk import MESSAGES_FORMAT, GoogleAdkTurns, ModelStopped
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


class ScriptedLlm(BaseLlm):
    """ADK's own way to a model of one's own, over the kit's script."""

    script: Any

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - as ADK has it
    ) -> AsyncGenerator[LlmResponse, None]:
        async for response in self.responses(llm_request):
            if stream or not response.partial:
                yield response

    async def responses(self, request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        step = await self.script.next(seen(request))
        for piece in step.pieces if isinstance(step, Say) else ():
            yield LlmResponse(content=_content([types.Part(text=piece)]), partial=True)
        yield LlmResponse(content=_content(_parts(step)))


def _content(parts: list[types.Part]) -> types.Content:
    return types.Content(role="model", parts=parts)


def seen(request: LlmRequest) -> Seen:
    contents = [(content, part) for content in request.contents for part in content.parts or ()]
    config = request.config
    declarations = [
        declaration
        for tool in (config.tools or ())
        for declaration in getattr(tool, "function_declarations", None) or ()
    ]
    responses = [part.function_response for _, part in contents if part.function_response]
    return Seen(
        texts=tuple(
            part.text for c, part in contents if c.role == "user" and part.text is not None
        ),
        tools=tuple(
            SeenTool(str(d.name), str(d.description), d.parameters_json_schema)
            for d in declarations
        ),
        results=tuple(_value(response.response) for response in responses),
        instructions=str(config.system_instruction or ""),
        calls=tuple(str(p.function_call.name) for _, p in contents if p.function_call),
    )


def _value(response: Any) -> object:
    """What a tool gave: ADK wraps whatever is no object in one with the key `result`."""
    return response["result"] if list(response) == ["result"] else response


def _parts(step: Step) -> list[types.Part]:
    match step:
        case Say(text):
            return [types.Part(text=text)]
        case CallTool():
            return _parts(CallTools((step,)))
        case CallTools(calls):
            return [
                types.Part(
                    function_call=types.FunctionCall(
                        id=new_call_id(), name=call.name, args=call.arguments
                    )
                )
                for call in calls
            ]


def agent_over(script: Script, **more: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedLlm(model="scripted", script=script), **more)


def worker_over(script: Script) -> LlmAgent:
    return LlmAgent(
        name="delegate",
        description="Does the task.",
        model=ScriptedLlm(model="scripted", script=script),
    )


# ADK's own AgentTool uses an argument that ADK calls deprecated.
agent_tool_warns = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")


@agent_tool_warns
class TestOnOurLog(AgentContract):
    delegation = CallTool("delegate", {"request": "look it up"})

    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        return GoogleAdkTurns(agent_over(script), session)

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> TurnDriver:
        worker = AgentTool(worker_over(script))
        return GoogleAdkTurns(agent_over(script, tools=[worker]), session)


@agent_tool_warns
class TestOnAdksOwnStore(AgentContract):
    delegation = CallTool("delegate", {"request": "look it up"})

    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        service = SqliteSessionService(str(folder / "adk.db"))
        return GoogleAdkTurns(agent_over(script), session, session_service=service)

    def make_driver_with_sub_agent(
        self, session: Session, script: Script, folder: Path
    ) -> TurnDriver:
        service = SqliteSessionService(str(folder / "adk.db"))
        agent = agent_over(script, tools=[AgentTool(worker_over(script))])
        return GoogleAdkTurns(agent, session, session_service=service)


# Ours alone: each with the conversation on the log, and with a session service.

Place = Callable[[], Any]
both_places = pytest.mark.parametrize(
    "place", [lambda: None, InMemorySessionService], ids=["log", "service"]
)


def turns(
    script: Script, session: Session | None = None, *, service: Any = None, **agent: Any
) -> GoogleAdkTurns:
    return GoogleAdkTurns(
        agent_over(script, **agent), session or MemorySession(), session_service=service
    )


async def test_text_streams_piece_by_piece_and_tools_are_named() -> None:
    script = Script(CallTools((CallTool("schedule_list"), CallTool("schedule_list"))), Say("a b"))
    outputs = await run(turns(script), "list", Reminders().tools())
    called = ToolCalled("schedule_list")
    assert [called, called, TextDelta("a "), TextDelta("b")] == outputs


async def test_a_model_that_does_not_stream_is_heard_once() -> None:
    class Whole(ScriptedLlm):
        async def responses(self, request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            yield LlmResponse(content=_content(_parts(await self.script.next(seen(request)))))

    agent = LlmAgent(name="root", model=Whole(model="whole", script=Script(Say("a b"), Say("c"))))
    driver = GoogleAdkTurns(agent, MemorySession())
    assert [TextDelta("a b")] == await run(driver, "one")
    assert [TextDelta("c")] == await run(driver, "two")


async def test_what_the_model_thinks_is_not_said() -> None:
    class Thinking(ScriptedLlm):
        async def responses(self, request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            thought = types.Part(text="hm", thought=True)
            yield LlmResponse(content=_content([thought, types.Part(text="aha")]))

    agent = LlmAgent(name="root", model=Thinking(model="thinking", script=None))
    assert [TextDelta("aha")] == await run(GoogleAdkTurns(agent, MemorySession()), "go")


async def test_the_schemas_reach_the_model_byte_for_byte() -> None:
    script = Script()
    await run(turns(script), "hi", Reminders().tools())
    sent = [(t.name, t.description, json.dumps(t.parameters)) for t in script.requests[0].tools]
    assert [(t.name, t.description, json.dumps(t.parameters)) for t in TOOLS] == sent


async def test_the_tools_belong_to_the_driver_and_not_to_the_agent() -> None:
    script = Script()
    agent = agent_over(script, tools=[dice])
    await run(GoogleAdkTurns(agent, MemorySession()), "one", Reminders().tools())
    await run(GoogleAdkTurns(agent, MemorySession()), "two")
    assert [4, 1] == [len(request.tools) for request in script.requests]
    assert [("one",), ("two",)] == [request.texts for request in script.requests]
    assert [dice] == agent.tools


def dice() -> int:
    """Roll the dice."""
    return 6


@both_places
async def test_the_turns_instructions_follow_the_agents_own_and_are_gone_in_the_next(
    place: Place,
) -> None:
    script = Script()
    driver = turns(script, service=place(), instruction="Be brief.")
    await run(driver, "a", instructions="It is {Monday}.")
    await run(driver, "b")
    with_context, without = [request.instructions for request in script.requests]
    assert "Be brief." in without
    assert f"{without}\n\nIt is {{Monday}}." == with_context


async def test_names_of_arguments_are_the_tools_business() -> None:
    got: list[dict[str, Any]] = []

    async def keep(arguments: dict[str, Any]) -> object:
        got.append(arguments)
        return None

    arguments = {"self": 1, "tool_context": 2, "args": 3, "not a name": 4}
    script = Script(CallTool("keep", arguments))
    await run(turns(script), "go", [tool("keep", keep)])
    assert [arguments] == got
    assert (None,) == script.requests[1].results


@both_places
@on_virtual_time
async def test_a_turn_cancelled_in_a_tool_leaves_no_call_without_a_result(place: Place) -> None:
    """A tool of ours that answered keeps its answer; of the other it is said what is known."""
    endless, service, session = Endless(), place(), MemorySession()
    script = Script(CallTools((CallTool("quick"), CallTool("endless"))), Say("hello again"))
    tools = [answers("quick", {"done": True}), endless.tool]
    driver = turns(script, session, service=service)
    await cancelled(driver, "go", tools, endless.entered)
    await run(driver, "are you there?", tools)
    again = Script()
    await run(turns(again, session, service=service), "and now?", tools)
    for request in (script.requests[1], again.requests[0]):
        assert ("quick", "endless") == request.calls
        assert ({"done": True}, {"error": CUT_OFF}) == request.results
    assert ("go", "are you there?", "and now?") == again.requests[0].texts


@both_places
@on_virtual_time
async def test_a_process_that_ended_in_a_tool_leaves_no_call_without_a_result(
    place: Place,
) -> None:
    """What the process knew of its calls is lost; the model is told so."""
    endless, service, session = Endless(), place(), MemorySession()
    script = Script(CallTools((CallTool("quick"), CallTool("endless"))))
    tools = [answers("quick", {"done": True}), endless.tool]
    await cancelled(turns(script, session, service=service), "go", tools, endless.entered)
    again = Script()
    await run(turns(again, session, service=service), "and now?", tools)
    assert ({"error": CUT_OFF}, {"error": CUT_OFF}) == again.requests[0].results


@both_places
async def test_a_tool_that_raises_fails_the_turn_and_gets_a_result(place: Place) -> None:
    async def fail(_: dict[str, Any]) -> object:
        raise ConnectionError

    script = Script(CallTools((CallTool("quick"), CallTool("fails"))))
    tools = [answers("quick", {"done": True}), tool("fails", fail)]
    driver = turns(script, service=place())
    with pytest.raises(ConnectionError):
        await run(driver, "go", tools)
    await run(driver, "and now?", tools)
    assert ({"done": True}, {"error": CUT_OFF}) == script.requests[1].results


@both_places
async def test_a_turn_that_failed_keeps_its_message(place: Place) -> None:
    script = Script(ModelFailed("no"), Say("ok"))
    driver = turns(script, service=place())
    with pytest.raises(ModelFailed):
        await run(driver, "first")
    await run(driver, "second")
    assert ("first", "second") == script.requests[1].texts


async def test_a_model_that_stops_early_fails_its_turn() -> None:
    """ADK reports it as an event, so the turn would seem complete."""

    class Refusing(ScriptedLlm):
        async def responses(self, request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            yield LlmResponse(error_code="SAFETY", error_message="about the prompt")

    agent = LlmAgent(name="root", model=Refusing(model="refusing", script=None))
    with pytest.raises(ModelStopped, match="SAFETY") as caught:
        await run(GoogleAdkTurns(agent, MemorySession()), "go")
    assert "prompt" not in str(caught.value)


async def test_every_event_of_adk_is_one_of_the_log_that_a_restart_and_a_fork_read() -> None:
    session = MemorySession()
    await run(turns(Script(CallTool("schedule_list")), session), "hi", Reminders().tools())
    assert {(MESSAGES.name, MESSAGES_FORMAT)} == {
        (e.type, e.data["format"]) for e in session.events
    }
    authors = [event["author"] for e in session.events for event in e.data["messages"]]
    assert ["user", "root", "root", "root"] == authors
    child = MemorySession(list(session.events), seed_length=session.length)
    for later in (session, child):
        script = Script()
        await run(turns(script, later), "still there?")
        assert ("hi", "still there?") == script.requests[0].texts
        assert ([],) == script.requests[0].results
        assert 6 == later.length


async def test_state_is_kept_on_the_log_too() -> None:
    session = MemorySession()
    await run(turns(Script(Say("blue")), session, output_key="colour"), "which?")
    script = Script()
    await run(turns(script, session, instruction="It is {colour}."), "and?")
    assert "It is blue." in script.requests[0].instructions


async def test_with_a_session_service_nothing_is_kept_on_the_log() -> None:
    session, service = MemorySession(), InMemorySessionService()
    await run(turns(Script(), session, service=service), "hi")
    script = Script()
    await run(turns(script, session, service=service), "still there?")
    assert [] == session.events
    assert ("hi", "still there?") == script.requests[0].texts


@agent_tool_warns
async def test_what_an_agent_that_is_a_tool_says_is_not_said_to_the_user() -> None:
    script = Script(
        CallTool("delegate", {"request": "x"}), Say("of the worker"), Say("of the root")
    )
    driver = turns(script, tools=[AgentTool(worker_over(script))])
    outputs = await run(driver, "go", Reminders().tools(), instructions="It is Monday.")
    said = "".join(output.text for output in outputs if isinstance(output, TextDelta))
    assert "of the root" == said
    assert () == script.requests[1].tools
    assert "It is Monday." not in script.requests[1].instructions


@pytest.mark.parametrize("returns", [False, True])
async def test_an_agent_that_was_handed_the_conversation_has_no_schedule_tools(
    returns: Any,
) -> None:
    """It answers later turns too, as ADK has it, unless it cannot hand over to its parent."""
    script = Script(CallTool("transfer_to_agent", {"agent_name": "delegate"}), Say("I am here"))
    worker = worker_over(script).clone({"disallow_transfer_to_parent": returns})
    driver = turns(script, sub_agents=[worker])
    outputs = await run(driver, "go", Reminders().tools(), instructions="It is Monday.")
    assert TextDelta("here") == outputs[-1]
    await run(driver, "next", Reminders().tools(), instructions="It is Monday.")
    ours = {t.name for t in TOOLS}
    offered = [bool(ours & {t.name for t in request.tools}) for request in script.requests]
    assert [True, False, returns] == offered
    told = ["It is Monday." in request.instructions for request in script.requests]
    assert [True, False, returns] == told


def test_a_root_that_takes_no_tools_is_refused() -> None:
    app = App(name="steps", root_agent=BaseAgent(name="root"))
    with pytest.raises(TypeError, match="LlmAgent"):
        GoogleAdkTurns(app, MemorySession())


async def test_an_app_keeps_its_name_and_its_plugins() -> None:
    service, script = InMemorySessionService(), Script()
    app = App(name="mine", root_agent=agent_over(script))
    driver = GoogleAdkTurns(app, MemorySession(), session_service=service, user_id="somebody")
    await run(driver, "hi")
    [kept] = (await service.list_sessions(app_name="mine", user_id="somebody")).sessions
    assert "s1" == kept.id
    assert [] == app.plugins


async def test_a_lone_surrogate_becomes_text_that_can_be_sent() -> None:
    session = MemorySession()
    script = Script(CallTool("t", {"a": "\ud800"}), Say("half \ud83d"))
    driver = turns(script, session)
    await run(driver, "x\udfff", [answers("t", "b\ud800")])
    await run(driver, "next")
    assert ("x\ufffd", "next") == script.requests[2].texts
    assert ("b\ufffd",) == script.requests[2].results


@pytest.mark.parametrize("messages", [None, [1], [{"content": 7}]])
def test_a_conversation_that_cannot_be_read_is_refused_with_its_event(messages: object) -> None:
    data = {"format": MESSAGES_FORMAT, "messages": messages}
    with pytest.raises(ConversationError, match=r"event 7 is not google-adk/1"):
        turns(Script(), MemorySession([SessionEvent(MESSAGES.name, data, 7)]))


async def test_a_log_that_refuses_fails_the_turn() -> None:
    refusal = StoreError(StoreErrorCode.SESSION_CLOSED, "closed")
    with pytest.raises(StoreError):
        await run(turns(Script(), MemorySession(refuse=refusal)), "one")


async def test_a_listener_that_raises_fails_the_turn() -> None:
    driver = turns(Script())

    def refuse(_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await driver.run_turn(TurnInput("go"), (), refuse)


def test_the_quickstart_brings_its_reminder_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = quickstart_output("google_adk", tmp_path, capsys)
    assert "source='reminder'" in shown
    assert "It is time to stretch." in shown
