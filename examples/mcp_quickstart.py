"""A host of your own: its reminders live in an MCP server, and the bridge brings them back."""

import asyncio
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from schedule_adapters.mcp.bridge import HostBridge
from schedule_adapters.mcp.wire import TakenReminder


async def main(root: Path) -> None:
    """Set a reminder for a second from now, and print the turn in which it comes back."""
    turn, came_back = asyncio.Lock(), asyncio.Event()  # your host holds `turn` in each turn

    async def run_turn(reminder: TakenReminder) -> None:
        print(reminder.message)  # yours: a turn of your agent with this user-role message
        came_back.set()

    server = StdioServerParameters(
        command="session-schedule", args=["mcp", "--session", "main", "--root", str(root)]
    )
    async with Client(server) as client:
        running = asyncio.create_task(HostBridge(run_turn, idle=turn).run(client))
        await client.call_tool("schedule_create", {"prompt": "stretch", "after_seconds": 1})
        await came_back.wait()
        await asyncio.sleep(1)  # a real host goes on; this one lets the acknowledgement through
        running.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "sessions")))
