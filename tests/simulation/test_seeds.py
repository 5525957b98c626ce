"""Two thousand lives of a machine: whatever goes wrong in them, the rules hold."""

import subprocess
import sys

import pytest

from schedule_adapters.testing.simulation.__main__ import main, run_seeds
from schedule_adapters.testing.simulation.oracles import BROKEN, Oracle, Violation
from schedule_adapters.testing.simulation.run import simulate

SEEDS = 2_000
_SLICE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, _SLICE))
def test_no_rule_is_broken_in_any_run(first: int) -> None:
    """Each seed is one life with its own mixture of faults; a failing one says how to repeat it."""
    failures, ledger = run_seeds(range(first, first + _SLICE))
    assert failures == []
    assert ledger.seeds == _SLICE


def test_a_seed_is_the_same_life_every_time_and_everywhere() -> None:
    """The seed is the bug report: it needs nothing else, not even the same hash seed."""
    script = (
        "from schedule_adapters.testing.simulation.run import simulate\n"
        "for seed in (3, 5, 10, 11): print('\\n'.join(simulate(seed).lines()))"
    )
    told = {
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(told) == 1


def test_the_runs_are_not_idle() -> None:
    """A simulator that meets no fault proves nothing: the ledger of a few seeds has them all."""
    failures, ledger = run_seeds(range(120))
    assert failures == []
    assert ledger.deliveries > 200
    assert set(ledger.crashes) == {"killed", "power cut"}
    assert {
        "failed barrier",
        "failed cut",
        "failed fsync",
        "failed fsync of a folder",
        "full disk",
        "lost message",
        "no name",
        "paused owner",
        "refused event",
        "slow work",
        "unreadable clock",
        "unreadable log",
    } <= set(ledger.faults)


def test_a_broken_rule_is_not_lost_where_the_product_catches_broadly() -> None:
    """A violation counts from the moment it is made, whoever catches it."""
    BROKEN.clear()
    violation = Violation(Oracle.NEVER_EARLY, "for once")
    assert [violation] == BROKEN
    simulate(1)  # begins anew
    assert BROKEN == []


def test_the_command_prints_the_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    """`--seeds` and `--first` say what to run; 0 means that no rule was broken."""
    assert main(["--first", "3", "--seeds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["seeds", "2"] == lines[0].split()
    assert any(line.startswith("simulated hours") for line in lines)
