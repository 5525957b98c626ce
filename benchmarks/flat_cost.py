"""A management call on a log of a million events against one on a thousand."""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report import promise
from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.live import LiveSchedule, SystemClock
from schedule_adapters.sessions import Session
from schedule_adapters.stores.jsonl import JsonlStore

_SMALL, _LARGE = 1_000, 1_000_000
_ROUNDS, _CALLS = 9, 150


def run() -> bool:
    """Compare the best CPU time of alternating rounds; opening the logs is not counted."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> bool:
    store = JsonlStore(folder, clock=SystemClock())
    schedules = []
    for size in (_SMALL, _LARGE):
        session = await store.open(f"log of {size}")
        _fill(session, size)
        await session.barrier()
        schedule = LiveSchedule(AbsentAgent(), session)
        await schedule.call_tool("schedule_list", {})
        schedules.append(schedule)
    rounds = [[await _cpu_s(schedule) for schedule in schedules] for _ in range(_ROUNDS)]
    small, large = (min(times) for times in zip(*rounds, strict=True))
    return promise(
        f"CPU of create + list + delete, {_LARGE:,} events / {_SMALL:,}", large / small, 1.2
    )


def _fill(session: Session, size: int) -> None:
    text = "x" * 200
    for number in range(size):
        session.append("assistant/chunk", {"turn": number, "chunk": {"text": text}})


async def _cpu_s(schedule: LiveSchedule) -> float:
    started = time.process_time()
    for _ in range(_CALLS):
        made = await schedule.call_tool(
            "schedule_create", {"prompt": "check the build", "after_seconds": 3_600}
        )
        assert isinstance(made, dict)
        await schedule.call_tool("schedule_list", {})
        await schedule.call_tool("schedule_delete", {"id": made["id"]})
    return time.process_time() - started
