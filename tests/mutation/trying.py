"""The order of a run: faults at import first, then plain tests, then property tests."""

import gc
import sys
import time

import pytest
from attrs import define

from tests.mutation.cold import cold_trial, lines_run_at_import, whole_trial
from tests.mutation.forks import Outcome, Verdict, run_trials
from tests.mutation.hints import Hints
from tests.mutation.mutants import Mutant
from tests.mutation.report import Report
from tests.mutation.warm import Warm, is_property, run_collected


@define
class Trying:
    """A run under way: says how far it has come.

    Attributes:
        report: what it has found.
        hints: what the last run found.
        jobs: how many forks there may be at a time.
        start: when it began, in seconds of the monotonic clock.
    """

    report: Report
    hints: Hints
    jobs: int
    start: float

    def take(self, mutant: Mutant, verdict: Verdict) -> None:
        """Note one verdict."""
        self.report.add(mutant, verdict)
        self.hints.add(mutant, verdict)
        if verdict.outcome is Outcome.SURVIVED:
            say(f"survived: {mutant.key}")
        if self.report.done % 50 == 0:
            self.hints.save()
            took = time.monotonic() - self.start
            say(f"{self.report.done} faults tried, {took:.0f} s")


def try_all(trying: Trying, mutants: list[Mutant]) -> None:
    """First the faults of what runs at import: this process must not know the core yet."""
    imported = lines_run_at_import()
    cold = [each for each in mutants if each.lines & imported[each.module]]
    whole = ((name, whole_trial(name)) for name in sorted({each.module for each in cold}))
    for module, verdict in run_trials(whole, trying.jobs):
        if verdict.outcome is not Outcome.SURVIVED:
            raise RuntimeError(f"{module} fails without any fault: {verdict.killer}")
    for mutant, verdict in run_trials(((each, cold_trial(each)) for each in cold), trying.jobs):
        trying.take(mutant, verdict)
    late = [each for each in mutants if not each.lines & imported[each.module]]
    if late:
        run_collected(lambda items: _try_late(items, trying, late))


def _try_late(items: list[pytest.Item], trying: Trying, mutants: list[Mutant]) -> None:
    """First by the plain tests; what they do not notice, by the long property tests too.

    An explained fault is left alone by the second: it would run every one of them in vain.
    """
    left = mutants
    for is_long in (False, True):
        if not left:
            return
        warm = Warm.survey([item for item in items if is_property(item) is is_long])
        gc.collect()
        gc.freeze()  # a fork then leaves the parent's pages alone
        trials = [(each, warm.trial(each, trying.hints.killer_of(each))) for each in left]
        left = []
        for mutant, verdict in run_trials(trials, trying.jobs):
            survived = verdict.outcome is Outcome.SURVIVED
            if survived and not is_long and mutant.key not in trying.report.explained:
                say(f"not noticed by the plain tests: {mutant.key}")
                left.append(mutant)
            else:
                trying.take(mutant, verdict)


def say(text: str) -> None:
    """Tell whoever waits, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
