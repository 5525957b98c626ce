"""The same for the SQL stores, by short lives over a real file and a real server."""

from collections import Counter
from functools import cache

import pytest

from schedule_adapters.testing.postgres import server_url
from schedule_adapters.testing.simulation.oracles import Oracle
from tests.simulation.hunt_sql import LIVES, hunt
from tests.simulation.planted_sql_bugs import PLANTED_SQL_BUGS
from tests.simulation.planting import PlantedBug, kills, planted


@pytest.mark.parametrize("bug", PLANTED_SQL_BUGS, ids=lambda bug: f"{bug.place}: {bug.name}")
def test_a_planted_bug_of_a_sql_store_is_killed(bug: PlantedBug) -> None:
    """By its recorded seed, on which the unmutated code is green.

    A change of the product shifts what a seed does. Then the bug must still be found within
    the first seeds, and `python -m tests.simulation.hunt_sql` records which one it is now.
    """
    _require_database(bug.place)
    assert bug.seed is not None
    seed = bug.seed
    with planted(bug):
        killed = kills(seed, LIVES[bug.place]) is not None
    if not killed:
        found = hunt(bug)
        assert found is not None, "survives the first seeds"
        seed = found[1]
    assert _green(bug.place, seed) is None, "the unmutated code is green on the same seed"


def test_there_are_enough_bugs_in_both_sql_stores() -> None:
    places = Counter(bug.place for bug in PLANTED_SQL_BUGS)
    assert set(places) == {"sqlite", "postgresql"}
    assert min(places.values()) >= 20
    assert len({(bug.place, bug.name) for bug in PLANTED_SQL_BUGS}) == places.total()


@cache
def _green(place: str, seed: int) -> Oracle | None:
    """What the unmutated code breaks on a seed; lived once, however many bugs share the seed."""
    return kills(seed, LIVES[place])


def _require_database(place: str) -> None:
    """Fail, or skip where that is allowed, if there is no server: a life would hide that."""
    if place == "postgresql":
        server_url()
