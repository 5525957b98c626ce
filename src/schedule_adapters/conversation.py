"""One session put together: store, runtime, reminders; opened, and closed in order."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from attrs import frozen

from schedule_adapters.facts import ReportHook, log_fact
from schedule_adapters.live import LiveOptions, LiveSchedule, SystemClock
from schedule_adapters.service import ScheduleService
from schedule_adapters.sessions import Session, SessionOpener, StoreError
from schedule_adapters.timers import WallTimers
from schedule_adapters.turn_driver import TurnDriver
from schedule_adapters.turns import SessionRuntime
from schedule_core import Clock


@frozen
class Conversation:
    """A live session: what was said is in `session`, turns run in `runtime`."""

    session: Session
    runtime: SessionRuntime
    schedule: LiveSchedule


@asynccontextmanager
async def open_conversation(  # noqa: PLR0913 - the parts of a composition, by name
    store: SessionOpener,
    session_id: str,
    make_driver: Callable[[Session], TurnDriver],
    *,
    clock: Clock | None = None,
    timers: WallTimers | None = None,
    options: LiveOptions | None = None,
    report: ReportHook = log_fact,
) -> AsyncIterator[Conversation]:
    """Open a session with its reminders; call `runtime.start()` to let turns begin.

    Leaving the context closes everything in order and saves what can be saved; the
    reminders stay in the log. A program with many conversations gives them one `timers`,
    made on the same loop, and need not say the clock again.

    Raises:
        StoreError: the session cannot be opened; see `SessionStore.open`.
        ValueError: the timers are another loop's, or look at another clock.
    """
    if clock is None:
        clock = SystemClock() if timers is None else timers.clock
    async with AsyncExitStack() as closing:  # last in, first out; each whatever became of the rest
        session = await store.open(session_id)
        closing.push_async_callback(_save_and_close, session)
        service = ScheduleService(clock=clock, timers=timers, options=options, report=report)
        closing.push_async_callback(service.close)
        runtime = SessionRuntime(session, make_driver(session), clock=clock)
        closing.push_async_callback(runtime.close)
        schedule = service.serve(runtime, session, runtime, name=session_id)
        assert schedule is not None, "a new root agent is served"
        yield Conversation(session, runtime, schedule)


async def _save_and_close(session: Session) -> None:
    try:
        with suppress(StoreError):  # reported when it happened; there is no one to tell now
            await session.barrier()
    finally:
        await session.close()
