"""Owners paused by SIGSTOP."""

import asyncio

import pytest

from tests.faults import stopped
from tests.faults.conftest import Tell
from tests.faults.places import FILE_STORES
from tests.faults.zygote import Zygote

SEED = 1


@pytest.mark.parametrize("kind", FILE_STORES)
async def test_a_paused_owner_of_a_lock_stays_the_owner(
    url: str, lives: Zygote, tell: Tell
) -> None:
    """Given an owner paused before its n-th append, nobody else gets in; then it goes on."""
    counts = await asyncio.to_thread(stopped.keep_out, lives, url, steps=4, seed=SEED, stride=2)

    tell(counts)
    assert counts["second owners refused: session_locked"] > 2
    assert counts["repeats"] == 0


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_an_append_that_arrives_after_its_lease_was_taken_is_refused(
    url: str, lives: Zygote, tell: Tell
) -> None:
    """Given an owner paused with its append on the wire, and a second owner that wrote.

    The append shows an old token: the server writes none of it, and the owner is told.
    """
    counts = await asyncio.to_thread(stopped.fence, lives, url, steps=4, seed=SEED)

    tell(counts)
    assert counts["owners paused"] > 1
    assert counts["appends refused for their token"] == counts["owners paused"]
    assert counts["owners told that they are none"] == counts["owners paused"]
    assert counts["repeats"] == 0


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_an_owner_paused_past_its_lease_acts_on_nothing_any_more(
    url: str, lives: Zygote, tell: Tell
) -> None:
    """Given an owner paused before it looked at its lease, and a second owner that wrote."""
    counts = await asyncio.to_thread(stopped.lapse, lives, url, steps=4, seed=SEED, stride=3)

    tell(counts)
    assert counts["owners paused"] > 1
    assert counts["repeats"] == 0
