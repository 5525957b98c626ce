"""Many logs looked at: here, in several processes, or on a Dask cluster.

Each way calls `examine` once for each log and gives the answers in the order of the logs, so
they differ in nothing but time. What cannot be sent elsewhere (standard input) is read here.
"""

import gc
import importlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from schedule_adapters.doctor.examine import Examination, examine
from schedule_adapters.doctor.sources import Target, Unreadable, UnreadableError, reason_of
from schedule_core.instants import Instant

Targets = Sequence[Target | Unreadable]
OnRead = Callable[[int], None]
"""Told how many more bytes were read, for the progress bar."""

_CONNECT_S: Final = 10
_LOSSES: Final = frozenset({"BrokenProcessPool", "KilledWorker"})
_LOST: Final = "its worker process ended before it was read; is there enough memory?"


def examine_here(targets: Targets, now: Instant | None, on_read: OnRead) -> Iterator[Examination]:
    """Look at one log after the other."""
    for target in targets:
        yield examine(target, now, on_read)


def examine_in_processes(
    targets: Targets, now: Instant | None, on_read: OnRead, *, jobs: int
) -> Iterator[Examination]:
    """Look at that many logs at the same time, each in one process."""
    with ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_end_on_interrupt
    ) as pool:

        def send(target: Target) -> Future[Examination]:
            return pool.submit(examine, target, now)

        yield from _collect(targets, now, on_read, send)


def examine_on_dask(
    targets: Targets, now: Instant | None, on_read: OnRead, *, address: str
) -> Iterator[Examination]:
    """Look at the logs on the workers of a Dask cluster, which open them through fsspec.

    Raises:
        UnreadableError: Dask is missing, or no cluster answers at that address.
    """
    with ExitStack() as stack:
        client = stack.enter_context(_connect(address))

        def send(target: Target) -> Any:
            # Not pure: a log may have grown since it was read under the same name.
            return client.submit(examine, _reachable(target), now, pure=False)

        yield from _collect(targets, now, on_read, send)


def _collect(
    targets: Targets, now: Instant | None, on_read: OnRead, send: Callable[[Target], Any]
) -> Iterator[Examination]:
    """Send what can be sent, then take the answers in order; each is given up once taken."""
    sent = [_send(target, send) for target in targets]
    for index, target in enumerate(targets):
        future, sent[index] = sent[index], None
        if not isinstance(target, Target) or future is None:
            yield examine(target, now, on_read)
            continue
        if isinstance(future, Examination):
            yield future
            continue
        try:
            yield evolve(future.result(), name=target.name)
        except Exception as error:  # noqa: BLE001 - a worker may fail in any way
            reason = _LOST if type(error).__name__ in _LOSSES else reason_of(error)
            yield Examination(target.name, failure=reason)
        on_read(target.size)


def _send(target: Target | Unreadable, send: Callable[[Target], Any]) -> Any:
    if not isinstance(target, Target) or target.place is None:
        return None
    try:
        return send(target)
    except RuntimeError:  # the pool broke while work was handed out
        return Examination(target.name, failure=_LOST)


def _end_on_interrupt() -> None:
    """Let a worker end at once and silently when the person presses Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _reachable(target: Target) -> Target:
    """The target with a place that means the same on every machine that shares the files."""
    if isinstance(target.place, Path):
        return evolve(target, place=target.place.absolute().as_uri())
    return target


def _connect(address: str) -> Any:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise UnreadableError(
            "a Dask cluster is used after: pip install 'session-schedule[dask]'"
        ) from error
    try:
        return distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError):
        pass  # said below, once the exception and the frames that it holds are gone
    # The half-made client is freed here and now. Freed by the collector at a moment of its
    # own, inside the start of another client, it would wait for a lock of its own thread.
    gc.collect()
    raise UnreadableError(f"no Dask cluster answers at {address}")
