"""The doctor on logs that the published original wrote."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from schedule_core.decoder import encode_record
from tests.adapters.doctor.log_world import agrees, both

LOGS: Final = Path(__file__).parents[2] / "golden" / "original_logs"
ROWS: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in (LOGS / "manifest.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_log_says_what_its_manifest_says(row: dict[str, Any]) -> None:
    """Format by content, events, reminders and ids; the recurring kind is refused."""
    name = row["file"]
    compressed = name.endswith(".zstd")
    if compressed:
        pytest.importorskip("zstandard")
    content = (LOGS / name).read_bytes()
    report = both(content) if compressed else agrees(content)

    assert (row["session"], row["events"]) == (report.session, report.events)
    kind = "zstd" if compressed else "packed" if "packed" in name else "plain"
    assert kind == report.format
    if name.startswith("every-"):
        assert report.first_fault is not None
        assert (report.first_fault.code, report.first_fault.seq) == ("unknown_kind", 0)
        assert report.active == ()
        return
    assert report.first_fault is None
    assert [encode_record(record) for record in report.active] == row["active"]
    assert list(report.seen) == row["seenIds"]
