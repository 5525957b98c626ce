"""A host of your own: its reminders live in an MCP server, and the bridge brings them back."""

import asyncio

from mcp import Client, StdioServerParameters

from schedule_adapters.mcp.bridge import HostBridge
from schedule_adapters.mcp.wire import TakenReminder

SERVER = StdioServerParameters(command="session-schedule", args=["mcp", "--root", "sessions"])
TURN, HEARD = asyncio.Lock(), asyncio.Queue[str]()  # your host holds TURN in each of its turns


async def run_turn(reminder: TakenReminder) -> None:
    """Yours: a turn of your agent with this user-role message."""
    await HEARD.put(reminder.message)


async def main() -> None:
    """Set a reminder for a second from now, and print the turn in which it comes back."""
    async with Client(SERVER) as client:
        running = asyncio.create_task(HostBridge(run_turn, idle=TURN).run(client))
        await client.call_tool("schedule_create", {"prompt": "stretch", "after_seconds": 1})
        print(await HEARD.get())
        await asyncio.sleep(1)  # a real host goes on; this one lets the acknowledgement through
        running.cancel()


asyncio.run(main())
