"""The score of each module, and what is wrong with it."""

from collections import Counter
from typing import Final

from attrs import define, field

from tests.mutation.forks import Outcome, Verdict
from tests.mutation.mutants import Mutant

FLOOR_PERCENT: Final = 95.0


@define
class Report:
    """What became of every fault.

    Attributes:
        mutants: the faults that are tried.
        explained: the reason for each fault that no test can notice, by its key.
        is_whole: whether these are the faults of all modules.
    """

    mutants: list[Mutant]
    explained: dict[str, str]
    is_whole: bool
    _outcomes: dict[str, Outcome] = field(factory=dict)

    @property
    def done(self) -> int:
        """How many faults were tried."""
        return len(self._outcomes)

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Note one verdict."""
        self._outcomes[mutant.key] = verdict.outcome

    @property
    def unexplained(self) -> list[str]:
        """The survivors without a reason."""
        return [key for key in self._survivors() if key not in self.explained]

    @property
    def outdated(self) -> list[str]:
        """The reasons for faults that do not survive, or do not exist any more."""
        modules = {mutant.module for mutant in self.mutants}
        survivors = set(self._survivors())
        return [
            key
            for key in self.explained
            if key not in survivors and key.partition(":")[0] in modules
        ]

    @property
    def score_percent(self) -> float:
        """How many of all faults the tests notice; an explained survivor counts against it."""
        return _percent(Counter(self._outcomes.values()))

    def is_good(self) -> bool:
        """Tell whether nothing is left to do; the floor is one for the whole core only."""
        is_enough = not self.is_whole or self.score_percent >= FLOOR_PERCENT
        return is_enough and not self.unexplained and not self.outdated

    def text(self) -> str:
        """The table and the lists."""
        lines = ["| module | faults | killed | timeout | survived | explained | score |"]
        lines.append("|---|--:|--:|--:|--:|--:|--:|")
        modules = sorted({mutant.module for mutant in self.mutants})
        lines += (self._row(name, {name}) for name in modules)
        lines.append(self._row("all", set(modules)))
        lines += (f"not explained: {key}" for key in self.unexplained)
        lines += (f"explained, but not a survivor: {key}" for key in self.outdated)
        return "\n".join(lines)

    def _survivors(self) -> list[str]:
        return [key for key, outcome in self._outcomes.items() if outcome is Outcome.SURVIVED]

    def _row(self, title: str, modules: set[str]) -> str:
        keys = [each.key for each in self.mutants if each.module in modules]
        count = Counter(self._outcomes[key] for key in keys)
        explained = sum(key in self.explained for key in keys)
        cells = (
            title,
            len(keys),
            count[Outcome.KILLED],
            count[Outcome.TIMEOUT],
            count[Outcome.SURVIVED],
            explained,
            f"{_percent(count):.1f} %",
        )
        return f"| {' | '.join(map(str, cells))} |"


def _percent(count: Counter[Outcome]) -> float:
    return 100 * (1 - count[Outcome.SURVIVED] / count.total())
