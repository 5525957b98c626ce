"""Disks without room, by a limit on files and by a disk of 64 KiB."""

from pathlib import Path

import pytest

from tests.faults import disk_full
from tests.faults.conftest import Tell
from tests.faults.places import FILE_STORES
from tests.faults.zygote import Zygote

SEED = 1
PAGES = {"jsonl": 1, "sqlite": 7}


@pytest.mark.parametrize("kind", FILE_STORES)
def test_a_file_that_cannot_grow_loses_nothing_and_grows_again(
    kind: str, lives: Zygote, tmp_path: Path, tell: Tell
) -> None:
    """Given a limit at each size in turn, when it is lifted, then the same life goes on."""
    counts = disk_full.limit_files(lives, kind, tmp_path, steps=8, seed=SEED)

    tell(counts)
    assert counts["lives without room"] > 0  # at some sizes there is room for all of a life
    assert counts["room"] > 0


@pytest.mark.parametrize("kind", FILE_STORES)
def test_a_full_disk_loses_nothing_and_has_room_again(
    kind: str, lives: Zygote, tmp_path: Path, tell: Tell
) -> None:
    """Given a tiny disk with few free pages, when a file is removed, the same life goes on."""
    if obstacle := disk_full.obstacle():
        pytest.skip(obstacle)

    counts = disk_full.fill_disks(lives, kind, tmp_path, steps=16, seed=SEED, pages=PAGES[kind])

    tell(counts)
    assert counts["lives without room"] > 0
    assert counts["room"] > 0
