"""Owners paused by SIGSTOP, and another process that wants their session meanwhile."""

import signal
import time
from collections import Counter
from itertools import count
from pathlib import Path
from threading import Event
from typing import Final

from tests.faults.proxy import Fate, proxied
from tests.faults.severed import APPEND_MARK
from tests.faults.trial import Trial
from tests.faults.zygote import Life, Zygote

_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.002
_NOTHING_APPENDED: Final = b"SELECT 0\0Z\0\0\0\5I"
"""How the server's answer ends when no lease with that token was there: no row, and idle."""


def keep_out(zygote: Zygote, url: str, *, steps: int, seed: int, stride: int = 1) -> Counter[str]:
    """Pause an owner before its n-th append, each n in turn; its lock keeps everybody out.

    An owner that is paused in the middle of a commit may keep a whole database waiting.

    Raises:
        AssertionError: a promise was broken, or a second owner got in.
    """
    counts: Counter[str] = Counter()
    for nth in count(1, stride):
        trial = Trial(zygote, url, f"stopped-{nth}", seed)
        owner = trial.spawn(steps=steps, stop_at=nth, insist=True)
        if wait_for_stop(owner):
            [refusal] = trial.live(steps=steps).of("refused")
            counts["owners paused"] += 1
            counts[f"second owners refused: {refusal['code']}"] += 1
            owner.send(signal.SIGCONT)
        owner.end()
        assert owner.diary.is_over, "the owner did not go on"
        counts += trial.judge()
        if len(owner.diary.of("append")) < nth:
            return counts
    raise AssertionError("not reached")


def fence(zygote: Zygote, url: str, *, steps: int, seed: int, stride: int = 1) -> Counter[str]:
    """Pause an owner while its n-th append is on the wire, until another one took over.

    The owner has looked at its lease and sent the statement; the wire holds it, the process
    is stopped, the lease runs out, and a second owner takes it and writes. Then the statement
    arrives, and the owner goes on. Each n in turn.

    Raises:
        AssertionError: a promise was broken, or the append was not refused.
    """
    counts: Counter[str] = Counter()
    for nth in count(1, stride):
        trial = Trial(zygote, url, f"fenced-{nth}", seed, openings=60)
        wire = _HeldWire(nth)
        with proxied(url, wire.decide) as proxy:
            owner = trial.spawn(url=proxy, steps=steps, openings=1)
            if wire.wait_for_append(owner):
                owner.send(signal.SIGSTOP)
                # Paused as well, behind its first append: the lease is its, and not free.
                second = trial.spawn(steps=steps, insist=True, stop_at=2)
                wait_for_stop(second)
                wire.arrives.set()
                assert wire.is_answered.wait(_PATIENCE_S), "the append was not answered"
                second.send(signal.SIGCONT)
                assert second.end().is_over, f"nobody took over: {second.diary.entries[-2:]}"
                owner.send(signal.SIGCONT)
                counts["owners paused"] += 1
                counts["appends refused for their token"] += wire.answer.endswith(_NOTHING_APPENDED)
            owner.end()
        if not wire.is_held.is_set():
            return counts + trial.judge()
        said = {name["code"] for kind in ("refused", "unsaved") for name in owner.diary.of(kind)}
        counts["owners told that they are none"] += "session_taken_over" in said
        counts += trial.judge()
    raise AssertionError("not reached")


def lapse(zygote: Zygote, url: str, *, steps: int, seed: int, stride: int = 1) -> Counter[str]:
    """Pause an owner before its n-th append until its lease ran out and another one took over.

    Here it looks at its lease when it goes on. Each n in turn.

    Raises:
        AssertionError: a promise was broken.
    """
    counts: Counter[str] = Counter()
    for nth in count(1, stride):
        trial = Trial(zygote, url, f"lapsed-{nth}", seed, openings=60)
        owner = trial.spawn(steps=steps, stop_at=nth, openings=1)
        met = wait_for_stop(owner)
        if met:
            second = trial.live(steps=steps)
            assert second.is_over, f"nobody took over: {second.entries[-2:]}"
            owner.send(signal.SIGCONT)
            counts["owners paused"] += 1
        owner.end()
        counts += trial.judge()
        if not met:
            return counts
    raise AssertionError("not reached")


class _HeldWire:
    """Holds the n-th append of a wire until it may arrive, and keeps the answer to it."""

    def __init__(self, nth: int) -> None:
        self.is_held = Event()
        self.arrives = Event()
        self.is_answered = Event()
        self.answer = b""
        self._left = nth

    def decide(self, _: int, request: bytes) -> Fate | None:
        """What the proxy asks."""
        self._left -= APPEND_MARK in request
        if self._left > 0 or self.is_held.is_set():
            return None
        self.is_held.set()
        assert self.arrives.wait(_PATIENCE_S), "the append was forgotten on the wire"
        return Fate(answered=1, saw=self._keep, is_cut=False)

    def wait_for_append(self, owner: Life) -> bool:
        """Wait until it is held; False if that life is over before."""
        while not owner.diary.ended and not self.is_held.is_set():
            owner.diary.read_for(_LOOK_S)
        return self.is_held.is_set()

    def _keep(self, answer: bytes) -> None:
        self.answer = answer
        self.is_answered.set()


def wait_for_stop(life: Life) -> bool:
    """Wait until that life has stopped itself; False if it is over before."""
    end = time.monotonic() + _PATIENCE_S
    while not life.diary.ended:
        if _state(life.pid) == "T":
            return True
        assert time.monotonic() < end, "the life neither stops nor ends"
        life.diary.read_for(_LOOK_S)
    return False


def _state(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return stat.rpartition(")")[2].split()[0]
