"""The n-th system call of a life fails or kills it, for every n."""

from pathlib import Path

import pytest

from tests.faults import syscalls
from tests.faults.conftest import Tell
from tests.faults.places import FILE_STORES
from tests.faults.syscalls import FAULTS, Fault
from tests.faults.zygote import Zygote

SEED = 3
STRIDES = {("sqlite", "pwrite64"): 17, ("sqlite", "fdatasync"): 3}
"""Not every n where there are very many; `python -m tests.faults` meets each."""


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(kind, fault, id=f"{kind}: {fault}")
        for kind in FILE_STORES
        for fault in FAULTS[kind]
    ],
)
def test_no_system_call_that_fails_breaks_a_promise(
    kind: str, fault: Fault, lives: Zygote, tmp_path: Path, tell: Tell
) -> None:
    """Given the fault at the n-th call, one n after the other, then what was acknowledged holds.

    Who survives it goes on and has its next reminders acknowledged again.
    """
    if obstacle := syscalls.obstacle():
        pytest.skip(obstacle)

    stride = STRIDES.get((kind, fault.call), 1)
    counts = syscalls.run(lives, kind, tmp_path, fault, steps=3, seed=SEED, stride=stride)

    tell(counts)
    assert counts["faults met"] > 0
