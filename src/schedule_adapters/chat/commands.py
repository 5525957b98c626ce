"""What a person can ask of the chat itself, rather than of the assistant."""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from attrs import frozen

from schedule_adapters.chat.transcript import Kind
from schedule_adapters.conversation import Conversation
from schedule_adapters.event_lines import event_line
from schedule_adapters.wording import state_line, view_line
from schedule_core import Clock, ScheduleLogError

HELP = """\
/list         the reminders that are still to come, or due and waiting
/delete ID    delete one of them
/events [N]   the last N events of the session log (20)
/help         this
/quit         leave; reminders come back when the session is opened again
Ctrl-C        end the assistant's turn, or clear the line
Ctrl-D        leave
Everything else goes to the assistant."""

_COUNT: Final = re.compile("[0-9]{1,9}")


@frozen
class Commands:
    """Runs the slash commands of one chat."""

    conversation: Conversation
    clock: Clock
    time_zone: str | None
    show: Callable[[Kind, str], None]

    async def run(self, line: str) -> bool:
        """Run one command line; False when the person wants to leave."""
        name, argument = [*line.split(maxsplit=1), ""][:2]
        argument = argument.strip()
        match name:
            case "/quit" | "/exit":
                return False
            case "/list":
                self._show_all(self._list())
            case "/delete" if argument:
                await self._delete(argument)
            case "/delete":
                self.show("error", "which one? /delete ID, with an id that /list shows")
            case "/events":
                self._show_all(self._events(argument or "20"))
            case "/help":
                self._show_all(HELP.split("\n"))
            case _:
                self.show("error", f"there is no {name}; /help lists the commands")
        return True

    def _show_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.show("note", line)

    def _list(self) -> Iterable[str]:
        trouble = state_line(self.conversation.schedule.state)
        if trouble:
            yield trouble
        try:
            views = self.conversation.schedule.views()
        except ScheduleLogError as error:
            yield str(error)
            return
        if not views:
            yield "no reminders"
        now = self.clock.now()
        for view in views:
            yield view_line(view, now, self.time_zone)

    async def _delete(self, schedule_id: str) -> None:
        answer = await self.conversation.schedule.call_tool("schedule_delete", {"id": schedule_id})
        match answer:
            case {"deleted": True}:
                self.show("note", f"deleted {schedule_id}")
            case {"deleted": False}:
                self.show("error", f"there is no active reminder {schedule_id}")
            case {"message": str(message)}:
                self.show("error", message)
            case _:
                self.show("error", str(answer))

    def _events(self, count: str) -> Iterable[str]:
        if not _COUNT.fullmatch(count):
            yield "how many? /events N, with a whole number"
            return
        limit, session = int(count), self.conversation.session
        start = max(session.length - limit, 0)
        for event in islice(session.events_from(start), limit):
            yield event_line(event, self.time_zone)
