"""The n-th system call of a life fails, or kills it; for n = 1, 2, 3 ... until none is met."""

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.faults.places import url_in
from tests.faults.trial import Trial
from tests.faults.zygote import Life, Zygote

_STRACE: Final = shutil.which("strace")
_ATTACHED = re.compile(rb"Process [0-9]+ attached")
_INJECTED: Final = "(INJECTED)"


def obstacle() -> str | None:
    """Why no system call can be made to fail here; None if one can."""
    return "strace is missing" if _STRACE is None else None


@frozen
class Fault:
    """What becomes of the n-th call.

    Attributes:
        call: a system call.
        injection: what strace does to it.
        lasts: it becomes of all later calls too, until that life ends.
        then: what happens to another call besides, in strace's words.
    """

    call: str
    injection: str
    lasts: bool = False
    then: str | None = None

    @property
    def may_kill(self) -> bool:
        """Whether the life need not survive it."""
        return "SIGKILL" in f"{self.injection} {self.then}"

    @property
    def calls(self) -> str:
        """All calls that it is about."""
        return self.call if self.then is None else f"{self.call},{self.then.partition(':')[0]}"

    def __str__(self) -> str:
        words = f"{self.call} {self.injection.partition('=')[2]}"
        return f"{words}{' from there on' * self.lasts}{f', then {self.then}' if self.then else ''}"


_RENAME: Final = "/^rename"  # on this machine rename, renameat or renameat2
_LINK: Final = "/^link"
_EIO, _ENOSPC, _KILL = "error=EIO", "error=ENOSPC", "signal=SIGKILL"
_ALWAYS: Final = (
    *(Fault("pwrite64", injection) for injection in (_EIO, _ENOSPC, _KILL)),
    Fault("pwrite64", _EIO, lasts=True),
)
FAULTS: Final = {
    "jsonl": (
        *_ALWAYS,
        Fault("fsync", _EIO),
        Fault("fsync", _KILL),
        Fault("fsync", _EIO, lasts=True),
        Fault("ftruncate", _EIO),
        Fault("ftruncate", _KILL),
        Fault(_LINK, _EIO),
        Fault(_LINK, _KILL),
        # A poisoned log is written anew, and that fails as well.
        Fault("fsync", _EIO, then=f"{_RENAME}:{_EIO}:when=1"),
        Fault("fsync", _EIO, then=f"{_RENAME}:{_KILL}:when=1"),
        # A write fails, and cannot be cut back either.
        Fault("pwrite64", _ENOSPC, then=f"ftruncate:{_EIO}:when=2+"),
    ),
    "sqlite": (
        *_ALWAYS,
        Fault("fdatasync", _EIO),
        Fault("fdatasync", _KILL),
        Fault("fdatasync", _EIO, lasts=True),
        Fault("fsync", _EIO),
        Fault("fsync", _KILL),
        Fault("ftruncate", _EIO),
        Fault("ftruncate", _KILL),
    ),
}
"""By store: the calls that its durability is made of. One that is never made costs one run."""


def run(  # noqa: PLR0913 - a fault, a place, a length
    zygote: Zygote, kind: str, folder: Path, fault: Fault, *, steps: int, seed: int, stride: int = 1
) -> Counter[str]:
    """Let one life meet the fault at its n-th call, each n in turn, and others find the rest.

    Args:
        zygote: gives the lives.
        kind: of the store.
        folder: an empty one.
        fault: what happens.
        steps: how much the life does before it ends by itself.
        seed: of what the lives do; the same for each n.
        stride: from one n to the next; which is the first follows from the seed.

    Raises:
        AssertionError: a promise was broken.
    """
    counts: Counter[str] = Counter()
    for nth in count(1 + seed % stride, stride):
        place = folder / str(nth)
        place.mkdir()
        trial = Trial(zygote, url_in(kind, place), f"{fault} {nth}", seed)
        life = trial.spawn(steps=steps, hold=True, openings=3, insist=not fault.lasts)
        met = _live_with(life, fault, nth)
        assert life.diary.is_over or fault.may_kill, f"it ended early: {life.diary.entries[-3:]}"
        counts += trial.judge()
        if not met:
            return counts
        counts["faults met"] += 1
        counts["killed by one"] += not life.diary.is_over
    raise AssertionError("not reached")


def _live_with(life: Life, fault: Fault, nth: int) -> bool:
    """Live that life under strace; tells whether it met the fault."""
    assert _STRACE is not None, obstacle()
    with tempfile.NamedTemporaryFile() as trace:
        command = [_STRACE, "-f", "-p", str(life.pid), "-o", trace.name]
        command += ["-e", f"trace={fault.calls}", "-e", "signal=none"]
        command += ["-e", f"inject={fault.call}:{fault.injection}:when={nth}{'+' * fault.lasts}"]
        command += ["-e", f"inject={fault.then}"] if fault.then else []
        with subprocess.Popen(command, stderr=subprocess.PIPE) as strace:  # noqa: S603 - our words
            assert strace.stderr is not None
            line = strace.stderr.readline()
            assert _ATTACHED.search(line), f"strace said {line!r}"
            life.release()
            life.end()
            strace.communicate(timeout=30)
        lines = Path(trace.name).read_text().splitlines()
    name = fault.call.removeprefix("/^")
    return not life.diary.is_over or any(name in line and _INJECTED in line for line in lines)
