"""Which test noticed each fault the last time."""

import json
from pathlib import Path

from attrs import define

from tests.mutation.forks import Verdict
from tests.mutation.mutants import Mutant


@define
class Hints:
    """Which test noticed a fault the last time: it is asked first, and nothing else is kept.

    So a run that was broken off is soon where it was, and yet no verdict is ever an old one.
    """

    path: Path
    _killers: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Hints":
        """Read the hints of the last run, if there was one."""
        return cls(path, json.loads(path.read_text("utf-8")) if path.exists() else {})

    def killer_of(self, mutant: Mutant) -> str:
        """The node id of the test; empty if there is no hint."""
        return self._killers.get(mutant.key, "")

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Keep what was found."""
        self._killers[mutant.key] = verdict.killer

    def save(self) -> None:
        """Write the hints for the next run."""
        self.path.write_text(json.dumps(self._killers, indent=0, ensure_ascii=False), "utf-8")
