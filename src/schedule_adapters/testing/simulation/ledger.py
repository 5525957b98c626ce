"""What a series of runs has been through, added up."""

from collections import Counter

from attrs import define, field


@define
class Ledger:
    """The account of one run, or of many.

    Attributes:
        simulated_s: seconds on the monotonic clock, and asleep.
        points: at how many places a process could have died.
        crashes: how many it did, by kind.
        faults: how many were injected, by kind.
        deliveries: how many reminders entered a conversation.
    """

    seeds: int = 0
    simulated_s: float = 0.0
    processes: int = 0
    steps: int = 0
    points: int = 0
    crashes: Counter[str] = field(factory=Counter)
    faults: Counter[str] = field(factory=Counter)
    deliveries: int = 0
    turns: int = 0
    answers: int = 0

    def add(self, other: "Ledger") -> None:
        """Add the account of another series."""
        self.seeds += other.seeds
        self.simulated_s += other.simulated_s
        self.processes += other.processes
        self.steps += other.steps
        self.points += other.points
        self.crashes += other.crashes
        self.faults += other.faults
        self.deliveries += other.deliveries
        self.turns += other.turns
        self.answers += other.answers

    def lines(self) -> list[str]:
        """The account, a line for each thing."""
        rows = [
            ("seeds", f"{self.seeds:,}"),
            ("simulated hours", f"{self.simulated_s / 3_600:,.1f}"),
            ("processes", f"{self.processes:,}"),
            ("steps", f"{self.steps:,}"),
            ("crash points passed", f"{self.points:,}"),
            *((f"crashes: {kind}", f"{n:,}") for kind, n in sorted(self.crashes.items())),
            *((f"faults: {kind}", f"{n:,}") for kind, n in sorted(self.faults.items())),
            ("reminders delivered", f"{self.deliveries:,}"),
            ("turns", f"{self.turns:,}"),
            ("tool answers judged", f"{self.answers:,}"),
        ]
        return [f"{name:<34}{value:>16}" for name, value in rows]
