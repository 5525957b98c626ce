"""The catalogs under `docs/` say what the code says."""

import json
from pathlib import Path

import pytest

from schedule_adapters.catalog import (
    catalog_files,
    event_catalog_markdown,
    tool_catalog_json,
    tool_catalog_markdown,
)
from schedule_adapters.events import EVENT_TYPES
from schedule_core import SCHEDULE_EVENT_TYPE, TOOLS, ErrorCode

DOCS = Path(__file__).parents[2] / "docs"
FILES = dict(catalog_files())


@pytest.mark.parametrize("name", FILES)
def test_a_catalog_file_is_what_the_code_says(name: str) -> None:
    """If this fails, run `session-schedule catalog --write docs`."""
    file = DOCS / name
    assert FILES[name] == file.read_text("utf-8")


def test_the_json_catalog_holds_the_tools_as_the_model_meets_them() -> None:
    expected = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "output": tool.output,
        }
        for tool in TOOLS
    ]
    assert expected == json.loads(tool_catalog_json())


def test_every_code_has_its_meaning() -> None:
    """Given a new code, then the catalog cannot be made without saying what it means."""
    text = tool_catalog_markdown()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [f"| `{code}`" for code in ErrorCode] == [row[: row.index(" |", 2)] for row in rows]


def test_every_schema_in_the_tool_catalog_is_json() -> None:
    blocks = tool_catalog_markdown().split("```json\n")[1:]
    schemas = [json.loads(block.partition("```")[0]) for block in blocks]
    assert [schema for tool in TOOLS for schema in (tool.parameters, tool.output)] == schemas


def test_every_event_type_has_a_section_and_a_row_for_each_member() -> None:
    text = event_catalog_markdown()
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    names = [SCHEDULE_EVENT_TYPE, *(event.name for event in EVENT_TYPES)]
    assert [f"## `{name}`" for name in names] == headings
    for event in EVENT_TYPES:
        section = text.partition(f"## `{event.name}`\n")[2].partition("\n## ")[0]
        assert event.meaning in section
        for member, meaning in event.members.items():
            assert f"| `{member}` | {meaning} |" in section


@pytest.mark.parametrize("name", FILES)
def test_a_catalog_file_ends_with_one_line_break(name: str) -> None:
    assert FILES[name].endswith("\n")
    assert not FILES[name].endswith("\n\n")
