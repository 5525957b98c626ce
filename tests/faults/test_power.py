"""Power cuts on a disk of our own, which loses what was not synced."""

from pathlib import Path

import pytest

from tests.faults import power
from tests.faults.conftest import Tell
from tests.faults.places import FILE_STORES
from tests.faults.zygote import Zygote

SEED = 3
FINE_STRIDES = {"jsonl": 1, "sqlite": 11}
SYNC_STRIDES = {"jsonl": 1, "sqlite": 3}
STRIDES = {"jsonl": 3, "sqlite": 11}
"""From one n to the next: a database changes its disk more often for the same events."""


@pytest.fixture(autouse=True)
def _a_disk_can_be_mounted() -> None:
    if obstacle := power.obstacle():
        pytest.skip(obstacle)


@pytest.mark.parametrize("kind", FILE_STORES)
def test_a_power_cut_takes_nothing_that_was_acknowledged(
    kind: str, lives: Zygote, tmp_path: Path, tell: Tell
) -> None:
    """Given a cut at the n-th change of the disk, one n after the other; and in the recovery."""
    counts = power.run(lives, kind, tmp_path, steps=8, seed=SEED, stride=STRIDES[kind])

    tell(counts)
    assert counts["cuts"] > 5
    assert counts["creates acknowledged"] > 5
    assert counts["writes lost"] > 0
    assert counts["writes torn"] > 0
    assert counts["names lost"] > 0
    assert counts["repeats"] == 0


@pytest.mark.parametrize("kind", FILE_STORES)
def test_who_opens_what_a_killed_process_left_builds_on_nothing_that_a_power_cut_takes(
    kind: str, lives: Zygote, tmp_path: Path, tell: Tell
) -> None:
    """Given a kill at the n-th change, one n after the other, a second life, and a cut."""
    counts = power.kill_before_cut(
        lives, kind, tmp_path, steps=6, seed=SEED, stride=FINE_STRIDES[kind]
    )

    tell(counts)
    assert counts["killed before the cut"] > 5
    assert counts["writes lost"] > 0
    assert counts["repeats"] == 0


@pytest.mark.parametrize("kind", FILE_STORES)
def test_a_failed_sync_and_a_power_cut_take_nothing_that_was_acknowledged(
    kind: str, lives: Zygote, tmp_path: Path, tell: Tell
) -> None:
    """Given that the n-th sync fails, its pages lost though they can be read until the cut."""
    counts = power.fail_syncs(lives, kind, tmp_path, steps=4, seed=SEED, stride=SYNC_STRIDES[kind])

    tell(counts)
    assert counts["syncs that failed"] > 3
    assert counts["creates acknowledged"] > 5
    assert counts["repeats"] == 0


def test_the_failed_syncs_find_a_store_that_syncs_again(
    lives: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a planted bug, on the very seed on which the real store is sound, it is found."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the diaries of it are kept
    with pytest.raises(Exception, match="seed 3, session unsynced"):
        power.fail_syncs(lives, "trusting", tmp_path, steps=4, seed=SEED)


def test_the_power_cut_finds_a_store_that_never_syncs(
    lives: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a planted bug, on the very seed on which the real store is sound, it is found."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the diaries of it are kept
    with pytest.raises(Exception, match="seed 3, session cut"):
        power.run(lives, "forgetful", tmp_path, steps=6, seed=SEED)
