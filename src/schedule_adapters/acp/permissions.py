"""What the agent wants to be allowed, asked beside a prompt that stays usable."""

import asyncio
from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen

from schedule_adapters.agents.acp_client import Ask, Permission
from schedule_adapters.chat.commands import HELP, Commands
from schedule_adapters.chat.transcript import Kind
from schedule_adapters.wording import one_line

_HELP: Final = """\
/allow        let the agent do what it asks for, this once
/refuse       do not"""


def unattended(*, allows: bool) -> Ask:
    """Answers where nobody can be asked: never yes for a reminder, which nobody typed just now."""

    async def answer(permission: Permission) -> bool:
        return allows and permission.source == "user"

    return answer


@define
class AskingPerson:
    """Shows what the agent asks for; the person's next /allow or /refuse answers it.

    Several at once are answered in the order in which they were asked.
    """

    _show: Callable[[Kind, str], None]
    _waiting: list[asyncio.Future[bool]] = field(factory=list)

    async def ask(self, permission: Permission) -> bool:
        """Show one question and wait for its answer."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        because = " because of a reminder" if permission.source == "reminder" else ""
        what = one_line(permission.title, 200)
        self._show("note", f"the agent asks{because}: {what}? /allow or /refuse")
        try:
            return await answer
        finally:
            self._waiting.remove(answer)

    def answer(self, *, allowed: bool) -> bool:
        """Answer the oldest question; False if there is none."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(allowed)
                return True
        return False


@frozen
class AcpCommands(Commands):
    """The commands of the chat, and the two that answer the agent."""

    person: AskingPerson

    async def run(self, line: str) -> bool:
        """Run one command line; False when the person wants to leave."""
        match line.split():
            case ["/allow" | "/refuse" as word]:
                if not self.person.answer(allowed=word == "/allow"):
                    self.show("error", "the agent asks for nothing")
                return True
            case ["/help"]:
                for each in [*_HELP.split("\n"), *HELP.split("\n")]:
                    self.show("note", each)
                return True
            case _:
                return await super().run(line)
