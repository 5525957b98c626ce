"""What the pages of MCP and ACP show is what runs."""

import subprocess
import sys
from pathlib import Path

from tests.adapters.mcp.mcp_world import HANG_S, plain_environment

ROOT = Path(__file__).parents[3]


def shown(name: str, folder: Path, *arguments: str) -> str:
    """What the example prints when it is started there; its page has to show the whole of it."""
    example = ROOT / "examples" / f"{name}_quickstart.py"
    assert example.read_text("utf-8") in (ROOT / f"docs/agents/{name}.md").read_text("utf-8")
    programs = str(Path(sys.executable).parent)
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "error", str(example), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env={**plain_environment(PYTHONPATH=str(ROOT)), "PATH": programs},
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_the_host_of_the_page_gets_its_reminder_back(tmp_path: Path) -> None:
    printed = shown("mcp", tmp_path)
    assert printed.startswith("[SCHEDULE REMINDER]\n")
    assert printed.endswith('reminder_prompt_json: "stretch"\n')


def test_the_agent_of_the_page_gets_its_reminder_back(tmp_path: Path) -> None:
    agent = ROOT / "tests/adapters/agents/acp_agent.py"
    printed = shown("acp", tmp_path, sys.executable, str(agent), str(tmp_path / "store"))
    assert "source='reminder'" in printed
    assert "outcome='completed'" in printed.splitlines()[-1]
