"""The ACP adapter: the rules of every adapter, and its own, over a real agent of the SDK."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import AgentCapabilities, McpServerStdio
from attrs import define, field

from schedule_adapters.agents import acp as acp_turns
from schedule_adapters.agents.acp import AcpTurns
from schedule_adapters.agents.acp_client import Ask, Permission, refuse
from schedule_adapters.agents.acp_process import AcpError, AgentConnection, spawning
from schedule_adapters.conversation import Conversation, open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.mcp.http import Endpoint
from schedule_adapters.sessions import Session
from schedule_adapters.stores.memory import MemoryStore
from schedule_adapters.testing.agents import (
    AgentContract,
    CallTool,
    Gate,
    Plan,
    Say,
    Script,
)
from schedule_adapters.turn_driver import TextDelta, TurnDriver
from schedule_adapters.turns import SessionOutput, TurnEnded
from tests.adapters.agents.acp_agent import ScriptedAgent, connected_in_process

HANG_S = 120.0
"""What takes longer hangs; a busy machine may take seconds to begin a process."""
CREATE = CallTool("schedule_create", {"prompt": "stretch", "after_seconds": 3600})
AGENT = Path(__file__).with_name("acp_agent.py")
ROOT = Path(__file__).parents[3]


class TestAcp(AgentContract):
    instructions_changes = (
        "the protocol has no system side: the context of a turn is a block of its own beside "
        "the message, marked for the assistant alone"
    )
    no_sub_agents = "sub-agents are inside the agent's process, which has one tool server"

    def make_driver(self, session: Session, script: Script, folder: Path) -> TurnDriver:
        agent = ScriptedAgent(folder, script.next)
        connect = partial(connected_in_process, agent)
        return AcpTurns(connect, session, agent="scripted", cwd=folder)


@define
class Talk:
    """One opening of a conversation with the scripted agent."""

    conversation: Conversation
    script: Script
    outputs: list[SessionOutput] = field(factory=list)
    _heard: asyncio.Event = field(factory=asyncio.Event)

    def hear(self, output: SessionOutput) -> None:
        self.outputs.append(output)
        self._heard.set()

    async def say(self, text: str, *plans: Plan) -> TurnEnded:
        self.script.play(*plans)
        self.conversation.runtime.prompt(text)
        return await self.ended(text)

    async def ended(self, name: str) -> TurnEnded:
        """Wait for the end of the turn of that message, or of that reminder (by its id)."""
        while True:
            for output in self.outputs:
                if isinstance(output, TurnEnded) and name in (
                    output.input.text,
                    output.input.schedule_id,
                ):
                    return output
            self._heard.clear()
            await self._heard.wait()

    @property
    def said(self) -> str:
        return "".join(output.text for output in self.outputs if isinstance(output, TextDelta))


@define
class TalkWorld:
    """Where a session lives, and what agent answers in it."""

    folder: Path
    store: MemoryStore = field(factory=lambda: MemoryStore(clock=SystemClock()))

    @asynccontextmanager
    async def talk(
        self,
        *,
        name: str = "main",
        agent_name: str = "scripted",
        ask: Ask = refuse,
        **agent: Any,
    ) -> AsyncIterator[Talk]:
        script = Script()
        scripted = ScriptedAgent(self.folder, script.next, **agent)
        connect = partial(connected_in_process, scripted)

        def make_driver(session: Session) -> AcpTurns:
            return AcpTurns(connect, session, agent=agent_name, cwd=self.folder, ask=ask)

        opened = open_conversation(self.store, name, make_driver)
        async with asyncio.timeout(HANG_S), opened as conversation:
            talk = Talk(conversation, script)
            conversation.runtime.subscribe(talk.hear)
            conversation.runtime.start()
            yield talk


@pytest.fixture
def world(tmp_path: Path) -> TalkWorld:
    return TalkWorld(tmp_path)


async def test_an_agent_without_http_gets_the_tools_through_a_relay(world: TalkWorld) -> None:
    """A process of its own, which is told the secret by its environment alone."""
    async with world.talk(has_http=False) as talk:
        await talk.say("remind me", CREATE, Say("it is set"))

    assert talk.script.requests[1].results[0]["id"] == "schedule-1"  # type: ignore[index]


def test_the_secret_is_on_no_command_line() -> None:
    """Every user of the machine can read those."""
    endpoint = Endpoint("http://127.0.0.1:1/mcp", "the-secret")
    server = acp_turns._mcp_server(endpoint, AgentCapabilities())
    assert isinstance(server, McpServerStdio)
    assert "the-secret" not in " ".join([server.command, *server.args])
    assert [variable.value for variable in server.env] == ["the-secret"]


async def test_the_context_of_a_turn_is_a_block_of_its_own(world: TalkWorld) -> None:
    """For the assistant alone, and beside the message, never in it."""
    async with world.talk() as talk:
        talk.conversation.runtime.prompt("in Berlin", time_zone="Europe/Berlin")
        await talk.ended("in Berlin")

    [seen] = talk.script.requests
    assert seen.texts == ("in Berlin",)
    assert "client_time_zone: Europe/Berlin" in seen.instructions


async def test_a_reminder_is_its_message_alone(world: TalkWorld) -> None:
    """One prompt with one block, like any prompt."""
    async with world.talk() as talk:
        arguments = {"prompt": "stretch", "after_seconds": 1}
        await talk.say("remind me", CallTool("schedule_create", arguments), Say("it is set"))
        reminder = await talk.ended("schedule-1")

    assert talk.script.requests[2].texts[1] == reminder.input.text
    assert talk.script.requests[2].instructions == ""


@pytest.mark.parametrize(
    ("change", "remembered", "is_said"),
    [
        ({}, ("my colour is blue", "and now?"), False),
        ({"can_load": False}, ("and now?",), True),
        ({"agent_name": "another"}, ("and now?",), False),
        ({"folder": "elsewhere"}, ("and now?",), True),
    ],
)
async def test_what_a_restart_goes_on_with(
    world: TalkWorld,
    change: dict[str, Any],
    remembered: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
    *,
    is_said: bool,
) -> None:
    """The agent's own session, if it is the same agent, keeps sessions, and has this one."""
    async with world.talk() as talk:
        await talk.say("my colour is blue")
    options = dict(change)
    if "folder" in options:
        world.folder = world.folder / options.pop("folder")
        world.folder.mkdir()
    async with world.talk(**options) as talk:
        await talk.say("and now?")

    assert talk.script.requests[0].texts == remembered
    assert ("it begins a new one" in caplog.text) == is_said


async def test_what_an_agent_repeats_when_it_loads_is_not_said_again(world: TalkWorld) -> None:
    """Only what comes of the turn is its text."""
    async with world.talk() as talk:
        await talk.say("hello", Say("good morning"))
    async with world.talk() as talk:
        await talk.say("again", Say("good evening"))

    assert talk.said == "good evening"


async def test_a_fork_does_not_share_the_agents_session(world: TalkWorld) -> None:
    """Two conversations in one would hear each other."""
    async with world.talk() as talk:
        await talk.say("my colour is blue")
    await world.store.fork("main", "child")
    async with world.talk(name="child") as talk:
        await talk.say("what is my colour?")

    assert talk.script.requests[0].texts == ("what is my colour?",)


async def test_text_that_comes_after_the_end_of_its_turn_belongs_to_it(world: TalkWorld) -> None:
    """The protocol has no sign that everything was sent."""
    async with world.talk(late=" - and more") as talk:
        await talk.say("hello", Say("good morning"))

    assert talk.said == "good morning - and more"
    assert isinstance(talk.outputs[-1], TurnEnded)


@pytest.mark.parametrize("allowed", [False, True])
async def test_what_the_agent_asks_for_is_asked_once(world: TalkWorld, *, allowed: bool) -> None:
    """An answer never lasts longer than this once."""
    asked: list[Permission] = []

    async def ask(permission: Permission) -> bool:
        asked.append(permission)
        return allowed

    async with world.talk(asks_first=True, ask=ask) as talk:
        await talk.say("remind me", CREATE, Say("done"))
        listed = await talk.conversation.schedule.call_tool("schedule_list", {})

    assert asked == [Permission("schedule_create", "user")]
    assert bool(listed) == allowed


async def test_a_cancelled_turn_withdraws_its_question(world: TalkWorld) -> None:
    """The agent is answered, and the next turn is an ordinary one."""
    asking = Gate()

    async def ask(_: Permission) -> bool:
        await asking.wait()
        return True

    async with world.talk(asks_first=True, ask=ask) as talk:
        talk.script.play(CREATE)
        talk.conversation.runtime.prompt("remind me")
        await asking.reached.wait()
        talk.conversation.runtime.cancel_turn()
        cancelled = await talk.ended("remind me")
        ended = await talk.say("are you there?", Say("yes"))

    assert (cancelled.outcome, ended.outcome) == ("cancelled", "completed")


# Real processes.


def process(folder: Path, *options: str, lines: list[str] | None = None) -> Any:
    """How the scripted agent is begun as a program."""
    heard = [] if lines is None else lines
    command = [sys.executable, str(AGENT), str(folder), *options]
    environment = {"PYTHONPATH": str(ROOT)}
    return spawning(command, cwd=folder, environment=environment, on_stderr=heard.append)


@asynccontextmanager
async def talking_to(connect: Any, folder: Path) -> AsyncIterator[Talk]:
    """A new conversation with that agent."""
    store = MemoryStore(clock=SystemClock())
    driver = partial(AcpTurns, connect, agent="process", cwd=folder)
    async with asyncio.timeout(HANG_S), open_conversation(store, "main", driver) as conversation:
        talk = Talk(conversation, Script())
        conversation.runtime.subscribe(talk.hear)
        conversation.runtime.start()
        yield talk


async def test_a_real_process_sets_a_reminder(tmp_path: Path) -> None:
    """What it writes beside the protocol is heard line by line."""
    lines: list[str] = []
    connect = process(tmp_path, lines=lines)
    async with talking_to(connect, tmp_path) as talk:
        ended = await talk.say("remind me in 3600 seconds to stretch")

    assert ended.outcome == "completed"
    assert lines == ["the agent is here"]


async def test_a_process_that_is_killed_is_begun_again(tmp_path: Path) -> None:
    """The turn it died in has failed; the one after it is an ordinary one."""
    connect = process(tmp_path, "--dies-of", "die")
    async with talking_to(connect, tmp_path) as talk:
        dead, ended = await talk.say("die"), await talk.say("hello")

    assert dead.outcome == "failed"
    assert str(dead.error) == "the agent ended in the middle of the turn"
    assert ended.outcome == "completed"


async def test_a_process_that_ignores_a_cancelled_turn_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a bounded time; the next turn begins it again and goes on where it was."""
    monkeypatch.setattr(acp_turns, "CANCEL_S", 0.05)
    hanging = asyncio.Event()

    def hear(line: str) -> None:
        if line == "the agent hangs":
            hanging.set()

    connect = spawning(
        [sys.executable, str(AGENT), str(tmp_path), "--hangs-at", "think"],
        cwd=tmp_path,
        environment={"PYTHONPATH": str(ROOT)},
        on_stderr=hear,
    )
    async with talking_to(connect, tmp_path) as talk:
        talk.conversation.runtime.prompt("think")
        await hanging.wait()
        talk.conversation.runtime.cancel_turn()
        cancelled = await talk.ended("think")
        ended = await talk.say("are you there?")

    assert (cancelled.outcome, ended.outcome) == ("cancelled", "completed")


async def test_a_process_that_left_between_turns_is_begun_again(tmp_path: Path) -> None:
    """No message is lost on an agent that is known to be gone."""
    connections: list[AgentConnection] = []
    connect = process(tmp_path, "--leaves-after", "bye")

    @asynccontextmanager
    async def kept(client: acp.Client) -> AsyncIterator[AgentConnection]:
        async with connect(client) as connection:
            connections.append(connection)
            yield connection

    async with talking_to(kept, tmp_path) as talk:
        await talk.say("bye")
        while not connections[0].has_ended():  # noqa: ASYNC110 - the loop tells only asyncio
            await asyncio.sleep(0.01)
        ended = await talk.say("hello")

    assert ended.outcome == "completed"
    assert len(connections) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "no-such-program cannot be started: No such file or directory"),
        ([sys.executable, "-c", ""], "the agent ended before it began a session"),
        (
            [sys.executable, "-c", "import time; time.sleep(99)"],
            "the agent began no session within",
        ),
    ],
)
async def test_a_program_that_is_no_agent_fails_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    """In one line, none of it the program's own words."""
    monkeypatch.setattr(acp_turns, "BEGIN_S", 2.0)
    connect = spawning(command, cwd=tmp_path, environment={}, on_stderr=lambda _: None)
    async with talking_to(connect, tmp_path) as talk:
        ended = await talk.say("hello")

    assert ended.outcome == "failed"
    assert isinstance(ended.error, AcpError)
    assert str(ended.error).startswith(said)
