"""Everything small: each script, each crash point, each byte, each fate."""

from pathlib import Path

import pytest

from schedule_adapters.testing.simulation.exhaustive import OPERATIONS, Exhaustion, Script
from schedule_adapters.testing.simulation.run import folder, quiet

SCRIPTS: list[Script] = [
    ("create",),
    ("prompt",),
    *(("create", second) for second in OPERATIONS),
]
"""The whole, up to four operations, is `--exhaustive 4` of the command."""


@pytest.mark.parametrize("script", SCRIPTS, ids="-".join)
def test_whatever_is_left_of_a_write_nothing_confirmed_is_lost(script: Script) -> None:
    """Given a death at any point of the script, when it is opened again, then all is well."""
    with quiet(), folder() as root:
        exhaustion = Exhaustion(root)
        exhaustion.try_script(script)
    assert exhaustion.ledger.points > 0


def test_every_byte_of_the_pending_write_is_tried(tmp_path: Path) -> None:
    """One create writes some hundred bytes, and each is a place to tear, pad, hole."""
    with quiet():
        exhaustion = Exhaustion(tmp_path)
        exhaustion.try_script(("create",))
    assert exhaustion.images > 6 * 300
    assert set(exhaustion.ledger.crashes) == {"killed", "power cut"}
