"""The faults that no test of the core can notice, each with the reason."""

import tomllib
from pathlib import Path
from typing import Final

EXPLAINED: Final = Path(__file__).with_name("explained.toml")


def read_explained() -> dict[str, str]:
    """The reason for each fault, by the key of the fault."""
    groups = tomllib.loads(EXPLAINED.read_text("utf-8"))["unseen"]
    return {fault: group["why"] for group in groups for fault in group["faults"]}
