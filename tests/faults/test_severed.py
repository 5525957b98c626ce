"""Connections to PostgreSQL cut at any byte, on the wire and by the server; 300 of them."""

import asyncio

import pytest

from tests.faults import severed
from tests.faults.conftest import Tell
from tests.faults.zygote import Zygote

SEED = 1


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_a_cut_connection_leaves_no_event_lost_or_doubled(
    url: str, lives: Zygote, tell: Tell
) -> None:
    """Given cuts in requests, behind them and in answers, each commit in doubt is resolved."""
    counts = await asyncio.to_thread(severed.run, lives, url, cuts=300, seed=SEED)

    tell(counts)
    for place in ("in a request", "behind a request", "in an answer", "by the server"):
        assert counts[f"cut {place}"] > 10
    # The answer was lost, the commit was not; and the next attempt finds its own lines there.
    assert counts["appends in doubt that were committed"] > 5
    assert counts["appends that found their lines there"] > 5
    assert counts["creates acknowledged"] > 10
