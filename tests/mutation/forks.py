"""A fault is tried in a fork: whatever it breaks, hangs or fills dies with that process."""

import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, TypeVar

from attrs import frozen

_Subject = TypeVar("_Subject")

MEMORY_BYTES: Final = 4 * 2**30
"""A fault that fills a list without end stops here; the tests need a tenth of it."""


class Outcome(StrEnum):
    """How a trial ended; only `SURVIVED` is bad."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


@frozen
class Verdict:
    """What became of one fault.

    Attributes:
        outcome: how the trial ended.
        killer: the node id of the test that noticed; empty if none did.
    """

    outcome: Outcome
    killer: str = ""


Trial = Callable[[], str | None]
"""Gives the node id of the test that failed, or None if all passed; runs in a fork."""


def run_trials(
    trials: Iterable[tuple[_Subject, Trial]], jobs: int
) -> Iterator[tuple[_Subject, Verdict]]:
    """Hold the trial of each subject in a fork of its own, `jobs` of them at a time.

    Raises:
        RuntimeError: a trial broke in another way than by a failing test.
    """
    waiting = iter(trials)
    running: dict[int, tuple[_Subject, int]] = {}
    while True:
        while len(running) < jobs and (following := next(waiting, None)) is not None:
            subject, trial = following
            pid, pipe = _fork(trial)
            running[pid] = subject, pipe
        if not running:
            return
        pid, status = os.wait()
        subject, pipe = running.pop(pid)
        yield subject, _verdict(subject, status, pipe)


def limit_cpu(seconds: float) -> None:
    """End this process after that much more processor time; 0 takes the limit away."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _fork(trial: Trial) -> tuple[int, int]:
    """Start a trial; gives its process and the pipe that will hold the killer's name."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        killer = trial()
        os.write(theirs, (killer or "").encode())
        os._exit(0)
    finally:  # an exception must not carry on the parent's work in this process
        os._exit(1)


def _verdict(subject: object, status: int, pipe: int) -> Verdict:
    with os.fdopen(pipe, encoding="utf-8") as stream:
        killer = stream.read()
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Verdict(Outcome.TIMEOUT if name == "SIGPROF" else Outcome.KILLED, f"({name})")
    if os.WEXITSTATUS(status) != 0:
        raise RuntimeError(f"the trial itself broke: {subject}")
    return Verdict(Outcome.KILLED if killer else Outcome.SURVIVED, killer)
