"""Who decides what a crash leaves: chance in a run by seed, a plan in the exhaustive mode."""

import random
from typing import Literal, Protocol

from attrs import frozen

from schedule_adapters.testing.simulation.fates import Pending, after_power_cut

Crash = Literal["killed", "power cut"]


class Luck(Protocol):
    """The choices of one crash, and of a failed fsync."""

    def crash(self) -> Crash:
        """Whether the system lives on, with all that was written, or the power is cut."""
        ...

    def written(self, size: int) -> int:
        """How much of a write is done when the process dies inside it."""
        ...

    def keeps(self) -> bool:
        """Whether a change of one name that no sync confirmed is on the disk."""
        ...

    def content(self, durable: bytes, pending: list[Pending]) -> bytes:
        """What is on the disk of a file with unsynced changes."""
        ...


@frozen
class Chance:
    """Luck by seed."""

    chance: random.Random

    def crash(self) -> Crash:
        """Either, as likely."""
        return self.chance.choice(("killed", "power cut"))

    def written(self, size: int) -> int:
        """Anything from nothing to all."""
        return self.chance.randint(0, size)

    def keeps(self) -> bool:
        """Either, as likely."""
        return self.chance.random() < 1 / 2

    def content(self, durable: bytes, pending: list[Pending]) -> bytes:
        """Each change has a fate of its own."""
        return after_power_cut(durable, pending, self.chance)
