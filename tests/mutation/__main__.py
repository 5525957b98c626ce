"""Try every fault; see `docs/mutation.md`.

    python -m tests.mutation [MODULE ...] [--jobs 2] [--hints FILE]

Exit status 1: the score is below the floor, or a survivor is not explained, or an explained
one does not survive.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from hypothesis import Phase, settings

from tests.mutation.explained import read_explained
from tests.mutation.hints import Hints
from tests.mutation.mutants import find_mutants, module_names
from tests.mutation.report import Report
from tests.mutation.trying import Trying, say, try_all

HINTS: Final = Path(".mutation_hints.json")


def main() -> int:
    """Run what the command line says; gives the exit status."""
    arguments = _arguments()
    # The same examples each time, so that the score is one; no shrinking: a failure is enough.
    settings.register_profile(
        "mutation",
        max_examples=100,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    start = time.monotonic()
    mutants = [mutant for name in arguments.modules for mutant in find_mutants(name)]
    report = Report(mutants, read_explained(), set(arguments.modules) == set(module_names()))
    hints = Hints.read(arguments.hints)
    say(f"{len(mutants)} faults; {time.monotonic() - start:.0f} s to make them")
    try:
        try_all(Trying(report, hints, arguments.jobs, start), mutants)
    finally:
        hints.save()
    say(f"\n{report.text()}\nin {time.monotonic() - start:.0f} s")
    return 0 if report.is_good() else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=module_names(), metavar="MODULE")
    parser.add_argument("--jobs", type=int, default=2, help="forks at a time")
    parser.add_argument("--hints", type=Path, default=HINTS, help="which test to ask first")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
