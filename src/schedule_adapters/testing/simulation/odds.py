"""What may go wrong in one run, and how often: drawn anew for each seed.

Rates that are the same in every run find less: a run with many faults of one kind and none of
another reaches states that an even mixture never does.
"""

import random
from typing import Final

from attrs import fields, frozen

_RATES: Final = (0.003, 0.01, 0.03, 0.1, 0.3)
_QUIET: Final = 0.55
"""How often one kind of fault is left out of a run altogether."""


@frozen
class Odds:
    """The chance of each fault at each place where it can happen; 0 to 1.

    Attributes:
        crash_in_disk: the process dies at one of the two edges of a disk call, or inside it.
        crash_at_await: it dies where the loop looks up between two steps, over ten.
        fsync: an fsync fails, and what it should have written may never be on the disk.
        full: a write is short, and the next one meets a full disk.
        truncate: a cut fails.
        names: a file gets no name, or a folder is not synced.
        append: the session refuses an event.
        read: the live log cannot be read.
        barrier: a barrier reports a failure, although it may have passed.
        slow: work on the disk takes seconds.
        clock: the wall clock cannot be read.
        step: before something happens, the wall clock steps or the machine sleeps.
        network: a request to the shared store, or its reply, is lost.
        pause: an owner stands still for a while, as after SIGSTOP.
    """

    crash_in_disk: float = 0
    crash_at_await: float = 0
    fsync: float = 0
    full: float = 0
    truncate: float = 0
    names: float = 0
    append: float = 0
    read: float = 0
    barrier: float = 0
    slow: float = 0
    clock: float = 0
    step: float = 0
    network: float = 0
    pause: float = 0

    @classmethod
    def draw(cls, chance: random.Random) -> "Odds":
        """The odds of one run."""
        return cls(**{each.name: _rate(chance) for each in fields(cls)})


CALM: Final = Odds()
"""Nothing goes wrong: how each run ends, so that liveness can be asked for."""


def _rate(chance: random.Random) -> float:
    return 0.0 if chance.random() < _QUIET else chance.choice(_RATES)
