"""`python -m schedule_adapters.testing.simulation`: many seeds, one seed, or everything small."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from schedule_adapters.testing.simulation.exhaustive import Exhaustion, scripts
from schedule_adapters.testing.simulation.ledger import Ledger
from schedule_adapters.testing.simulation.run import folder, quiet, simulate

_AT_ONCE = 50
_FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; 1 if a rule was broken, and then says where."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=1, help="in how many processes")
    parser.add_argument(
        "--exhaustive",
        type=int,
        metavar="LENGTH",
        help="instead: every script of up to LENGTH operations, every crash point, every byte",
    )
    options = parser.parse_args(arguments)
    began = time.monotonic()
    if options.exhaustive is not None:
        failures, lines = _exhaust(options.exhaustive)
    else:
        seeds = range(options.first, options.first + options.seeds)
        failures, lines = _simulate(seeds, options.workers)
    lines.append(f"{'seconds':<34}{time.monotonic() - began:>16,.1f}")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stderr.write("".join(f"{failure}\n" for failure in failures))
    return _FAILED if failures else 0


def run_seeds(seeds: Iterable[int]) -> tuple[list[str], Ledger]:
    """Run some seeds; gives what failed, with the command that repeats it, and the account."""
    failures, ledger = [], Ledger()
    for seed in seeds:
        try:
            ledger.add(simulate(seed))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it belongs to this seed
            again = f"python -m schedule_adapters.testing.simulation --first {seed} --seeds 1"
            failures.append(f"seed {seed}: {type(error).__name__}: {error}\n  again: {again}")
    return failures, ledger


def _simulate(seeds: range, workers: int) -> tuple[list[str], list[str]]:
    batches = [seeds[start : start + _AT_ONCE] for start in range(0, len(seeds), _AT_ONCE)]
    if workers == 1:
        return _account(map(run_seeds, batches))
    with ProcessPoolExecutor(workers) as pool:
        return _account(pool.map(run_seeds, batches))


def _account(batches: Iterable[tuple[list[str], Ledger]]) -> tuple[list[str], list[str]]:
    failures, total = [], Ledger()
    for failed, ledger in batches:
        failures += failed
        total.add(ledger)
    return failures, total.lines()


def _exhaust(longest: int) -> tuple[list[str], list[str]]:
    count = 0
    with quiet(), folder() as root:
        exhaustion = Exhaustion(root)
        try:
            for script in scripts(longest):
                exhaustion.try_script(script)
                count += 1
        except AssertionError as error:
            return ["\n".join([f"{type(error).__name__}: {error}", *error.__notes__])], []
    lives = exhaustion.ledger.processes
    return [], [
        f"{name:<34}{value:>16,}"
        for name, value in (
            ("scripts", count),
            ("crash points", exhaustion.ledger.points),
            ("contents of a log read", exhaustion.images),
            ("lives with a crash", sum(exhaustion.ledger.crashes.values())),
            ("lives", lives),
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
