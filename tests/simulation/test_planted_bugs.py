"""A simulator is worth what it finds: each planted bug is killed by the seed beside it."""

from collections import Counter

import pytest

from tests.simulation.hunt import hunt
from tests.simulation.planted_bugs import PLANTED_BUGS
from tests.simulation.planting import PlantedBug, kills, planted

MOST_SEEDS = 400


@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=lambda bug: f"{bug.place}: {bug.name}")
def test_a_planted_bug_is_killed(bug: PlantedBug) -> None:
    """By its recorded seed, on which the unmutated code is green.

    A change of the product shifts what a seed does. Then the bug must still be found within
    the first seeds, and `python -m tests.simulation.hunt` records which one it is now.
    """
    assert bug.seed is not None
    with planted(bug):
        killed = kills(bug.seed) is not None
    seed = bug.seed
    if not killed:
        found = hunt(bug, range(MOST_SEEDS))
        assert found is not None, f"survives {MOST_SEEDS} seeds"
        seed = found[1]
    assert kills(seed) is None, "the unmutated code is green on the same seed"


def test_there_are_enough_bugs_in_every_place() -> None:
    """At least forty, and some in each part that could lose, repeat or hurry a reminder."""
    places = Counter(bug.place for bug in PLANTED_BUGS)
    assert set(places) == {"owner", "shell", "turns", "store", "lease"}
    assert min(places.values()) >= 6
    assert places.total() >= 40
    assert len({bug.name for bug in PLANTED_BUGS}) == places.total()
