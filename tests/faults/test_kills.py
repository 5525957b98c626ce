"""Processes killed at any moment, 200 for each store; `python -m tests.faults` kills 10,000."""

import asyncio

import pytest

from tests.faults import kills
from tests.faults.conftest import Tell
from tests.faults.places import STORES
from tests.faults.zygote import Zygote

SEED = 20_261


@pytest.mark.parametrize("kind", STORES)
async def test_who_is_killed_loses_nothing_acknowledged_and_repeats_nothing(
    url: str, lives: Zygote, tell: Tell
) -> None:
    """Given deaths at any time and behind any line of the diary, then every promise holds."""
    counts = await asyncio.to_thread(kills.run, lives, url, kills=200, seed=SEED)

    tell(counts)
    assert counts["kills"] == 200
    assert counts["creates acknowledged"] > 50
    assert counts["deletes acknowledged"] > 5
    assert counts["reminders heard"] > 10
    # Some died between the append and the answer: the script looks where it matters.
    assert counts["creates kept unacknowledged"] > 0
    assert counts["events dropped unacknowledged"] > 0
    assert counts["repeats"] == 0
