"""Disks without room: every size at which a file, or the whole disk, may be full.

A full disk shows first as a short write. In each life somebody makes room after a few
refusals; then it has to go on as if nothing had been.
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.faults.places import url_in
from tests.faults.trial import Trial
from tests.faults.zygote import Zygote

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_DISK_SIZES: Final = {"jsonl": 64 << 10, "sqlite": 512 << 10}
STRIDES: Final = {"jsonl": 199, "sqlite": 12_007}
"""By store: from one file size to the next, in bytes; no divisor of any block size."""


def obstacle() -> str | None:
    """Why no small disk can be mounted here; None if one can."""
    if os.geteuid() != 0:
        return "only root can mount a tmpfs"
    if shutil.which("mount") is None:
        return "there is no mount command"
    return None


def limit_files(zygote: Zygote, kind: str, folder: Path, *, steps: int, seed: int) -> Counter[str]:
    """Let no file grow beyond each size in turn (RLIMIT_FSIZE), until one is never reached.

    Raises:
        AssertionError: a promise was broken, or a life did not recover.
    """
    counts: Counter[str] = Counter()
    for limit in count(STRIDES[kind] // 2, STRIDES[kind]):
        place = folder / str(limit)
        place.mkdir()
        trial = Trial(zygote, url_in(kind, place), f"limit-{limit}", seed)
        if not _live(trial, counts, steps, file_limit=limit):
            return counts
    raise AssertionError("not reached")


def fill_disks(  # noqa: PLR0913 - a place, a length, a seed
    zygote: Zygote, kind: str, folder: Path, *, steps: int, seed: int, pages: int = 1
) -> Counter[str]:
    """Leave so many pages of a tiny disk free, some more each time, until they suffice.

    Raises:
        AssertionError: a promise was broken, or a life did not recover.
    """
    counts: Counter[str] = Counter()
    size = _DISK_SIZES[kind]
    for free in range(0, size, _PAGE * pages):
        with _small_disk(folder, size):
            filler = folder / "filler"
            filler.write_bytes(bytes(size - free))
            trial = Trial(zygote, url_in(kind, folder), f"free-{free}", seed)
            if not _live(trial, counts, steps, filler=str(filler)):
                return counts
    raise AssertionError("the disk is too small for the whole life")


def _live(trial: Trial, counts: Counter[str], steps: int, **what: Any) -> bool:
    """One life on that disk, and its judgement; tells whether there was too little room."""
    diary = trial.live(steps=steps, openings=5, insist=True, **what)
    judged = trial.judge()
    counts.update(judged)
    met = judged["refused"] + judged["answers persistence_uncertain"] > 0
    counts["lives without room"] += met
    assert diary.has("opened"), f"never opened: {diary.of('refused')}"
    return met


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[None]:
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "faults", folder)
    try:
        yield
    finally:
        _run("umount", folder)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - our own words and folder
