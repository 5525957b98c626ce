"""Power cuts: a machine whose disk loses what was not synced, at the n-th change of it."""

import importlib
import json
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

from attrs import define

from tests.faults.places import url_in
from tests.faults.trial import Trial
from tests.faults.zygote import ROOT, Life, Zygote

_UNMOUNT: Final = shutil.which("fusermount3") or shutil.which("fusermount")
_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.002


def obstacle() -> str | None:
    """Why no file system of ours can be mounted here; None if one can."""
    if not Path("/dev/fuse").exists():
        return "there is no /dev/fuse on this machine"
    if _UNMOUNT is None:
        return "fusermount is missing: install fuse3"
    try:
        importlib.import_module("mfusepy")
    except (ImportError, OSError) as error:
        return f"mfusepy cannot be used: {error}"
    return None


@define
class Machine:
    """A machine with a power disk.

    Attributes:
        disk: where the disk is while the machine is on.
    """

    disk: Path
    _orders: IO[bytes]
    _reports: IO[bytes]

    def boot(
        self,
        *,
        seed: int,
        fresh: bool = False,
        stop_at: int | None = None,
        is_cut: bool = True,
        fail_at: int | None = None,
    ) -> None:
        """Switch it on.

        Args:
            seed: decides what a cut leaves.
            fresh: with an empty disk.
            stop_at: at which change the life on it ends.
            is_cut: for the power goes then; else the life is killed, and the disk goes on.
            fail_at: which sync of a file fails.
        """
        order = {"fresh": fresh, "stop_at": stop_at, "is_cut": is_cut, "fail_at": fail_at}
        order |= {"seed": seed}
        self._orders.write(json.dumps(order).encode() + b"\n")
        self._orders.flush()
        self._await("on")

    def live_until_stop(self, life: Life) -> bool:
        """Let that life go on to its end, or until the disk stops; tells whether it did."""
        while not life.diary.ended:
            if select.select([self._reports], [], [], 0)[0]:
                self._await("stop")
                life.send(signal.SIGKILL)
                self._orders.write(b"dead\n")
                life.end()
                return True
            life.diary.read_for(_LOOK_S)
        life.end()
        return False

    def shut_down(self) -> Counter[str]:
        """Switch it off without any further sync; gives what was lost."""
        end = time.monotonic() + _PATIENCE_S
        while subprocess.run(  # noqa: S603 - a program of the system, and our own folder
            [_UNMOUNT or "", "-u", self.disk], stderr=subprocess.DEVNULL, check=False
        ).returncode:
            assert time.monotonic() < end, "the disk cannot be unmounted"
            time.sleep(_LOOK_S)  # who was killed is not quite gone yet
        return Counter(self._await("lost"))

    def _await(self, word: str) -> dict[str, Any]:
        while True:
            line = self._reports.readline()
            assert line, "the disk is gone"
            said, members = json.loads(line)
            if said == word:
                return dict(members)


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine, off; its disk will be in that folder."""
    disk = folder / "disk"
    disk.mkdir()
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.faults.power_disk", disk],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Machine(disk, process.stdin, process.stdout)
        finally:
            if disk.is_mount():
                subprocess.run([_UNMOUNT or "", "-uz", disk], check=True)  # noqa: S603 - as above
            process.stdin.close()


def run(  # noqa: PLR0913 - a place, a length, a seed
    zygote: Zygote, kind: str, folder: Path, *, steps: int, seed: int, stride: int = 1
) -> Counter[str]:
    """Cut the power at the n-th change of a life, each n in turn; and in the recovery too.

    Args:
        zygote: gives the lives.
        kind: of the store.
        folder: an empty one, for the disk.
        steps: how much the life does before it ends by itself.
        seed: of everything that is drawn.
        stride: from one n to the next; which is the first follows from the seed.

    Raises:
        AssertionError: a promise was broken.
    """
    counts: Counter[str] = Counter()
    dice = random.Random(seed)  # noqa: S311 - no secret
    with machine(folder) as victim:
        for nth in count(1 + seed % stride, stride):
            trial = Trial(zygote, url_in(kind, victim.disk), f"cut-{nth}", seed)
            met = _boot_and_live(victim, trial, counts, dice, fresh=True, stop_at=nth, steps=steps)
            _boot_and_live(victim, trial, counts, dice, stop_at=dice.randint(1, 20), steps=1)
            _boot_and_live(victim, trial, counts, dice, settle=True, steps=0)
            victim.boot(seed=0)
            counts += trial.judge()
            victim.shut_down()
            if not met:
                return counts
    raise AssertionError("not reached")


def kill_before_cut(  # noqa: PLR0913 - a place, a length, a seed
    zygote: Zygote, kind: str, folder: Path, *, steps: int, seed: int, stride: int = 1
) -> Counter[str]:
    """Kill a life at its n-th change, each n in turn; let another one go on; cut the power.

    The second one finds what the first one wrote and never synced, and builds on it.

    Args:
        zygote: gives the lives.
        kind: of the store.
        folder: an empty one, for the disk.
        steps: how much the first life does before it ends by itself.
        seed: of everything that is drawn.
        stride: from one n to the next; which is the first follows from the seed.

    Raises:
        AssertionError: a promise was broken.
    """
    counts: Counter[str] = Counter()
    dice = random.Random(seed)  # noqa: S311 - no secret
    with machine(folder) as victim:
        for nth in count(1 + seed % stride, stride):
            trial = Trial(zygote, url_in(kind, victim.disk), f"left-{nth}", seed)
            victim.boot(seed=dice.randrange(1 << 30), fresh=True, stop_at=nth, is_cut=False)
            met = victim.live_until_stop(trial.spawn(steps=steps))
            victim.live_until_stop(trial.spawn(steps=dice.randrange(2)))  # or this one is killed
            counts += victim.shut_down()
            _boot_and_live(victim, trial, counts, dice, settle=True, steps=0)
            victim.boot(seed=0)
            counts += trial.judge()
            victim.shut_down()
            counts["killed before the cut"] += met
            if not met:
                return counts
    raise AssertionError("not reached")


def fail_syncs(  # noqa: PLR0913 - a place, a length, a seed
    zygote: Zygote, kind: str, folder: Path, *, steps: int, seed: int, stride: int = 1
) -> Counter[str]:
    """Let the n-th sync of a file fail and lose its pages, each n in turn; then cut the power.

    The page cache shows what was lost until the cut, and every later sync says that all is
    well: only a store that does not trust such a file any more keeps what it acknowledges.

    Args:
        zygote: gives the lives.
        kind: of the store.
        folder: an empty one, for the disk.
        steps: how much the life does; then one more reminder has to be acknowledged.
        seed: of everything that is drawn.
        stride: from one n to the next; which is the first follows from the seed.

    Raises:
        AssertionError: a promise was broken.
    """
    counts: Counter[str] = Counter()
    dice = random.Random(seed)  # noqa: S311 - no secret
    with machine(folder) as victim:
        for nth in count(1 + seed % stride, stride):
            trial = Trial(zygote, url_in(kind, victim.disk), f"unsynced-{nth}", seed)
            victim.boot(seed=dice.randrange(1 << 30), fresh=True, fail_at=nth)
            trial.live(steps=steps, openings=3, insist=True)
            report = victim.shut_down()
            _boot_and_live(victim, trial, counts, dice, settle=True, steps=0)
            victim.boot(seed=0)
            counts += report + trial.judge()
            victim.shut_down()
            if report["syncs"] < nth:
                return counts
            counts["syncs that failed"] += 1
    raise AssertionError("not reached")


def _boot_and_live(  # noqa: PLR0913 - a boot, and a life by its plan
    victim: Machine,
    trial: Trial,
    counts: Counter[str],
    dice: random.Random,
    *,
    fresh: bool = False,
    stop_at: int | None = None,
    **what: Any,
) -> bool:
    """One boot with one life, up to the cut; tells whether there was one while it lived."""
    victim.boot(seed=dice.randrange(1 << 30), fresh=fresh, stop_at=stop_at)
    met = victim.live_until_stop(trial.spawn(**what))
    counts += victim.shut_down()
    counts["cuts"] += met
    return met
