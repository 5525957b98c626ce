"""Effects: session stores, the asyncio shell, agent runtimes and the command line.

May import `schedule_core` and the world; the core never imports this package.
"""
