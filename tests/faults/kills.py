"""SIGKILL, again and again: at any moment, in an opening, in a write, in a recovery."""

import random
import time
from collections import Counter
from typing import Final

from tests.faults.trial import Trial
from tests.faults.zygote import Life, Zygote

_SESSIONS: Final = 10
"""In turn, so that the lease of one runs out while the others live."""
_LIVES: Final = 8
"""Of each session before it is judged; its log, and so each opening, stays short."""
_LONGEST_S: Final = 0.06
_MOST_LINES: Final = 40
_SPIN_S: Final = 0.001


def run(zygote: Zygote, url: str, *, kills: int, seed: int) -> Counter[str]:
    """Kill that many lives; gives the counts.

    Args:
        zygote: gives the lives.
        url: of the store.
        kills: how many lives are to die; those that were over before do not count.
        seed: of everything that is drawn.

    Raises:
        AssertionError: a promise was broken.
    """
    dice = random.Random(seed)  # noqa: S311 - no secret
    counts: Counter[str] = Counter()
    while counts["kills"] < kills:
        numbers = [dice.randrange(1 << 30) for _ in range(_SESSIONS)]
        trials = [Trial(zygote, url, f"killed-{n}", n, openings=60) for n in numbers]
        for trial in trials * _LIVES:
            if counts["kills"] < kills:
                life = trial.spawn(steps=12)
                _wait_for_the_moment(life, dice)
                life.kill()
                counts["kills"] += not life.diary.is_over
                counts["kills before the session was open"] += not life.diary.has("opened")
        for trial in trials:
            counts += trial.judge()
    return counts


def _wait_for_the_moment(life: Life, dice: random.Random) -> None:
    """Half of the deaths come at any time, half right behind something that was written."""
    if dice.random() < 0.5:
        life.diary.read_for(dice.uniform(0, _LONGEST_S))
    else:
        life.diary.read_lines(dice.randint(1, _MOST_LINES), timeout_s=_LONGEST_S * 10)
        time.sleep(dice.uniform(0, _SPIN_S))
