"""`python -m schedule_adapters.web`: the page alone, on a folder of JSONL sessions."""

import argparse
import asyncio
import sys
from pathlib import Path

from schedule_adapters.live import SystemClock
from schedule_adapters.stores.jsonl import JsonlStore
from schedule_adapters.web.command import WebError, add_arguments, run


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="python -m schedule_adapters.web")
    parser.add_argument("--root", type=Path, required=True, help="where sessions are kept")
    add_arguments(parser)
    arguments = parser.parse_args()
    try:
        asyncio.run(run(arguments, JsonlStore(arguments.root, clock=SystemClock())))
    except WebError as error:
        sys.exit(f"session-schedule: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
