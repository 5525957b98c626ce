"""Runs of the simulator by seed."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from schedule_adapters.testing.simulation.ledger import Ledger
from schedule_adapters.testing.simulation.machine import Machine
from schedule_adapters.testing.simulation.oracles import BROKEN
from schedule_adapters.testing.simulation.owners import Owners

_EACH_OWNERS: Final = 5
"""Every fifth seed is about several owners and a lease; the others are about one machine."""


def simulate(seed: int) -> Ledger:
    """Run one seed.

    Raises:
        AssertionError: a rule was broken; the seed repeats it.
    """
    BROKEN.clear()
    with quiet():
        if seed % _EACH_OWNERS == 0:
            return Owners(seed).run()
        with folder() as root:
            return Machine(seed, root).run()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the product's log still: a run with many faults has much to say."""
    log = logging.getLogger("schedule_adapters")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


@contextmanager
def folder() -> Iterator[Path]:
    """An empty folder for a crash disk, in memory where there is such a place."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - of our own
    root = Path(tempfile.mkdtemp(prefix="simulation-", dir=memory))
    try:
        yield root
    finally:
        shutil.rmtree(root)
