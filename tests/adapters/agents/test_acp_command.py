"""`session-schedule acp`: a real agent process, from a script and at a terminal."""

import asyncio
import subprocess
import sys
import warnings
from pathlib import Path
from subprocess import CompletedProcess
from typing import Self

import pexpect
import pyte
import pytest

from schedule_adapters.acp.permissions import AcpCommands, AskingPerson, unattended
from schedule_adapters.agents.acp_client import Permission
from schedule_adapters.chat.transcript import Kind
from schedule_adapters.conversation import open_conversation
from schedule_adapters.live import SystemClock
from schedule_adapters.stores.memory import MemoryStore
from tests.adapters.turn_world import ScriptedDriver
from tests.e2e.chat_process import PROGRAM, Chat, Story, _Screen, environment

ROOT = Path(__file__).parents[3]
AGENT = str(Path(__file__).with_name("acp_agent.py"))
HANG_S = 120.0
USER, REMINDER = Permission("edit a file", "user"), Permission("edit a file", "reminder")


def command(root: Path, *options: str, agent: tuple[str, ...] = ()) -> list[str]:
    """The arguments of `session-schedule` that talk to the scripted agent."""
    begin = [sys.executable, AGENT, str(root / "store"), *agent]
    return ["acp", "--root", str(root), "--cwd", str(root), *options, *begin]


def script(
    root: Path, *lines: str, options: tuple[str, ...] = (), agent: tuple[str, ...] = ()
) -> CompletedProcess[str]:
    """Talk with these lines as standard input."""
    return subprocess.run(  # noqa: S603 - our own program
        [PROGRAM, *command(root, *options, agent=agent)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env=environment(root, PYTHONPATH=str(ROOT)),
        check=False,
    )


class AcpChat(Chat):
    """A conversation in a terminal with the scripted agent, which asks first."""

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            # From 3.12 on: the test runner has threads. The child becomes another program.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._child = pexpect.spawn(
                PROGRAM,
                command(self.root, agent=("--asks",)),
                dimensions=(self.rows, self.columns),
                env=environment(self.root, PYTHONPATH=str(ROOT)),
                timeout=HANG_S,
            )
        self._child.delaybeforesend = None
        self._screen = _Screen(self.columns, self.rows, self._child.send)
        self._stream = pyte.ByteStream(self._screen)
        return self


def test_a_script_sets_a_reminder_and_waits_for_it(tmp_path: Path) -> None:
    """What the agent writes beside the protocol is on standard error."""
    asked = "remind me in 2 seconds to stretch"
    done = script(tmp_path, "hello", asked, options=("--linger", "60"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("you said: hello\n[schedule_create]\nthe tool said: ")
    assert "* reminder schedule-1\nyou said: [SCHEDULE REMINDER]\n" in done.stdout
    assert "the agent is here" in done.stderr
    Story.of(tmp_path).assert_delivered_once("schedule-1")


@pytest.mark.parametrize(("options", "operations"), [((), []), (("--allow",), ["create"])])
def test_what_a_script_allows(
    tmp_path: Path, options: tuple[str, ...], operations: list[str]
) -> None:
    """Nothing, unless it is told to."""
    asked = "remind me in 3600 seconds to stretch"
    done = script(tmp_path, asked, options=options, agent=("--asks",))
    assert done.returncode == 0, done.stderr
    assert operations == Story.of(tmp_path).operations


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no-such-program"], 1, "there is no program no-such-program"),
        (["--cwd", "/no/such/folder", "sleep"], 2, "'/no/such/folder' is not a folder"),
        ([], 2, "COMMAND"),
    ],
)
def test_what_cannot_begin_is_said(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    """Before the session is opened."""
    done = subprocess.run(  # noqa: S603 - our own program
        [PROGRAM, "acp", "--root", str(tmp_path), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env=environment(tmp_path),
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_at_a_terminal_the_person_answers_and_the_typed_line_survives(tmp_path: Path) -> None:
    """The question stands beside a prompt that stays usable; the reminder comes back."""
    with AcpChat(tmp_path) as chat:
        chat.started().say("remind me in 1 seconds to stretch")
        chat.expect(r"the agent asks: schedule_create\? /allow or /refuse")
        chat.say("/allow")
        chat.expect("the tool said: ")
        chat.type("half a th")
        chat.expect("^⏰ reminder schedule-1")
        chat.expect("^you said: .SCHEDULE REMINDER")
        chat.until(lambda: chat.input == "half a th")
        chat.say("ought")
        chat.expect("^you said: half a thought")
        chat.say("/help")
        chat.expect("^/refuse")
        assert chat.leave() == 0
    Story.of(tmp_path).assert_delivered_once("schedule-1")


async def test_questions_are_answered_in_order() -> None:
    """Each answer is for one; an answer without a question is said to be one."""
    shown: list[tuple[Kind, str]] = []

    def show(kind: Kind, text: str) -> None:
        shown.append((kind, text))

    person = AskingPerson(show)
    store = MemoryStore(clock=SystemClock())
    async with open_conversation(store, "main", lambda _: ScriptedDriver()) as conversation:
        commands = AcpCommands(conversation, SystemClock(), None, show, person)
        answers = [asyncio.ensure_future(person.ask(each)) for each in (USER, REMINDER)]
        await asyncio.sleep(0)
        assert await commands.run("/allow")
        assert await commands.run("/refuse")
        assert await asyncio.gather(*answers) == [True, False]
        assert await commands.run("/allow")
        assert not await commands.run("/quit")

    assert shown == [
        ("note", "the agent asks: edit a file? /allow or /refuse"),
        ("note", "the agent asks because of a reminder: edit a file? /allow or /refuse"),
        ("error", "the agent asks for nothing"),
    ]


async def test_a_question_that_is_withdrawn_is_not_waited_for() -> None:
    """Its turn was cancelled; the next answer is for the next question."""
    person = AskingPerson(lambda *_: None)
    withdrawn, asked = (asyncio.ensure_future(person.ask(USER)) for _ in range(2))
    await asyncio.sleep(0)
    withdrawn.cancel()
    assert person.answer(allowed=True)
    await asyncio.wait([withdrawn, asked])
    assert asked.result()


async def test_unattended_nothing_is_allowed_because_of_a_reminder() -> None:
    """Its text was stored; nobody typed it just now."""
    allowing, refusing = unattended(allows=True), unattended(allows=False)
    assert [await allowing(USER), await allowing(REMINDER)] == [True, False]
    assert [await refusing(USER), await refusing(REMINDER)] == [False, False]
