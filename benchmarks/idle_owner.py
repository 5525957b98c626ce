"""What an idle owner costs beside its agent: memory, and no CPU."""

import asyncio
import gc
import time
import tracemalloc

from benchmarks.report import promise
from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.live import LiveSchedule, SystemClock
from schedule_adapters.stores.memory import MemoryStore

_OWNERS = 1_000
_IDLE_S = 3.0


def run() -> bool:
    """Start owners with one pending reminder each, then leave them alone."""
    return asyncio.run(_measure())


async def _measure() -> bool:
    clock = SystemClock()
    store = MemoryStore(clock=clock)
    sessions = [await store.open(f"session-{number}") for number in range(_OWNERS)]
    agents = [AbsentAgent() for _ in sessions]
    for session in sessions:  # what the reminder itself costs in the log is not the owner's
        session.append("user/message", {"text": "hi"})
        await session.barrier()
    alone = await _idle_cpu_s()
    gc.collect()
    tracemalloc.start()
    owners = [
        LiveSchedule(agent, session, clock=clock)
        for agent, session in zip(agents, sessions, strict=True)
    ]
    for owner in owners:
        owner.start()
    await asyncio.sleep(0.5)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for owner in owners:
        await owner.call_tool("schedule_create", {"prompt": "later", "after_seconds": 86_400})
    await asyncio.sleep(0.5)
    busy = await _idle_cpu_s()
    for owner in owners:
        await owner.close()
    return all(
        (
            promise("memory of one idle owner", size / _OWNERS / 1024, 8, " KiB"),
            promise(
                f"CPU of {_OWNERS} waiting owners, share of one core",
                max(busy - alone, 0) / _IDLE_S,
                0.01,
            ),
        )
    )


async def _idle_cpu_s() -> float:
    started = time.process_time()
    await asyncio.sleep(_IDLE_S)
    return time.process_time() - started
