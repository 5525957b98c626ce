"""What the documents show runs, and what they name exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON_BLOCK = re.compile("```python\n(.*?)```", re.DOTALL)
CODE_BLOCK = re.compile("```.*?```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")
DOCUMENTS = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
"""The blocks of those in `docs/agents` are run by each framework's own tests."""


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if path.parent.name != "agents"], ids=lambda p: p.name
)
def test_every_python_block_of_a_document_runs(document: Path) -> None:
    for block in PYTHON_BLOCK.findall(document.read_text("utf-8")):
        exec(compile(block, str(document), "exec"), {})  # noqa: S102 - our own document


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    prose = CODE_BLOCK.sub("", document.read_text("utf-8"))
    for target in LINK.findall(prose):
        assert (document.parent / target).exists(), target


def test_the_readme_shows_at_most_twelve_lines_of_library_use() -> None:
    [block] = PYTHON_BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert len(block.strip().split("\n")) <= 12


def test_the_architecture_names_every_module_of_the_core() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    modules = {p.stem for p in (ROOT / "src/schedule_core").glob("*.py")} - {"__init__"}
    assert {name for name in modules if f"`{name}`" not in text} == set()


def test_the_library_example_frames_its_reminder() -> None:
    shown = _run("examples/library.py")
    assert "schedule-2 2026-12-01T08:00:00.000Z" in shown
    assert "[SCHEDULE REMINDER]" in shown


def test_the_conversation_example_brings_its_reminder_back(tmp_path: Path) -> None:
    shown = _run("examples/conversation.py", str(tmp_path))
    assert "source='reminder'" in shown
    assert "outcome='completed'" in shown


def _run(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout
