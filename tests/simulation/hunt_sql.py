"""Finds the first seed that kills each bug of a SQL store: `python -m tests.simulation.hunt_sql`.

With names, only those. Prints the rule that was broken and the seed, as they belong into the
list.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from schedule_adapters.testing.simulation.oracles import Oracle
from tests.simulation.planted_sql_bugs import PLANTED_SQL_BUGS
from tests.simulation.planting import PlantedBug, kills, planted
from tests.simulation.postgres_medium import live_in_postgres
from tests.simulation.sqlite_medium import live_in_sqlite

MOST_SEEDS: Final = 40
LIVES: Final[Mapping[str, Callable[[int], None]]] = {
    "sqlite": live_in_sqlite,
    "postgresql": live_in_postgres,
}
"""How a seed is lived, for each place of a bug."""


def hunt(bug: PlantedBug, seeds: range = range(MOST_SEEDS)) -> tuple[Oracle, int] | None:
    """The first of these seeds that kills a bug, and the rule that it broke."""
    with planted(bug):
        for seed in seeds:
            oracle = kills(seed, LIVES[bug.place])
            if oracle is not None:
                return oracle, seed
    return None


def _chosen() -> Iterator[PlantedBug]:
    wanted = sys.argv[1:]
    chosen = {"sqlite", "postgresql"} & set(wanted)
    for bug in PLANTED_SQL_BUGS:
        if not wanted or bug.name in wanted or bug.place in chosen:
            yield bug


if __name__ == "__main__":
    logging.disable()
    for bug in _chosen():
        found = hunt(bug)
        what = "SURVIVES" if found is None else f"Oracle.{found[0].name}, {found[1]}"
        sys.stdout.write(f"{bug.place}: {bug.name}: {what}\n")
        sys.stdout.flush()
