"""What the documents show runs, and what they name exists."""

import ast
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
QUICKSTARTS = sorted((ROOT / "examples").glob("*_quickstart.py"))


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


@pytest.mark.parametrize("quickstart", QUICKSTARTS, ids=lambda path: path.stem)
def test_a_quickstart_is_at_most_twelve_lines_below_its_imports(quickstart: Path) -> None:
    """Docstrings and empty lines do not count; comments do."""
    assert len(_lines_below_imports(quickstart.read_text("utf-8"))) <= 12


def test_every_quickstart_is_shown_whole_by_a_page() -> None:
    pages = {path.stem for path in (ROOT / "docs/agents").glob("*.md")} - {"kit"}
    assert pages == {_page(quickstart).stem for quickstart in QUICKSTARTS}
    for quickstart in QUICKSTARTS:
        assert f"```python\n{quickstart.read_text('utf-8')}```" in _page(quickstart).read_text(
            "utf-8"
        )


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


def _page(quickstart: Path) -> Path:
    name = quickstart.stem.removesuffix("_quickstart").replace("_", "-")
    return ROOT / "docs/agents" / f"{name}.md"


def _lines_below_imports(code: str) -> list[str]:
    tree = ast.parse(code)
    last = max(s.end_lineno or 0 for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())) as docstring, *_]):
                skipped.update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
            case _:
                pass
    lines = enumerate(code.splitlines(), 1)
    return [line for at, line in lines if at > last and at not in skipped and line.strip()]


def _run(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout
