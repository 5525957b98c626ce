"""What the commands print, to the letter (`tests/golden/doctor/README.md`)."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from schedule_adapters.doctor.finding_codes import finding_codes_markdown
from schedule_adapters.doctor.findings import FindingCode
from tests.adapters.doctor_cli.demo_logs import GOLDEN, demo_files, write_logs
from tests.adapters.doctor_cli.pictures import NAMED, doctor, golden_files

DOCS = Path(__file__).parents[3] / "docs"
NAMES = ("doctor.txt", "doctor.jsonl", "doctor.html", "terminal-80.ansi", "timeline-60.txt",
         "timeline-80.txt", "timeline-120.txt", "garden.svg", "hostile.svg")  # fmt: skip
MEMBERS = ("file", "session", "events", "active", "seen", "findings", "sound", "error", "format",
           "changes", "dispatched", "deleted", "unlisted", "lines", "size", "repair")  # fmt: skip


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("demo")
    write_logs(folder / "logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return dict(golden_files())


def golden(name: str) -> str:
    return (GOLDEN / name).read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_output_is_what_the_golden_file_says(name: str, shown: dict[str, str]) -> None:
    """If this is meant to change: `python -m tests.adapters.doctor_cli.pictures`."""
    assert golden(name) == shown[name]
    assert set(shown) == set(NAMES)


@pytest.mark.parametrize(("name", "content"), list(demo_files()))
def test_demo_log_is_what_the_code_writes(name: str, content: bytes) -> None:
    """If this is meant to change: `python -m tests.adapters.doctor_cli.demo_logs`."""
    assert content == (GOLDEN / "logs" / name).read_bytes()


def test_every_line_of_json_has_the_same_members_in_the_same_order() -> None:
    rows = [json.loads(line) for line in golden("doctor.jsonl").splitlines()]
    assert {MEMBERS} == {tuple(row) for row in rows}
    garden = rows[0]
    assert ["schedule-5", "schedule-6"] == garden["active"]
    assert ["schedule-1", "schedule-2", "schedule-3", "schedule-4", "schedule-5", "schedule-6"] == (
        garden["seen"]
    )
    assert golden("doctor.jsonl").isascii()


def test_page_runs_nothing_and_loads_nothing() -> None:
    """A strict policy, no script, no address outside, and no markup from a log."""
    page = golden("doctor.html")
    tags = Tags()
    tags.feed(page)
    assert not tags.seen & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert {"#"} == {address[0] for address in tags.addresses}
    [style] = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy in tags.policies
    assert "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;" in page
    assert "water the tomatoes" not in page
    assert "prompt &" not in page


@pytest.mark.parametrize("name", ["garden.svg", "hostile.svg"])
def test_picture_is_well_formed_and_describes_itself(name: str) -> None:
    root = ET.fromstring(golden(name))  # noqa: S314 - our own file
    space = "{http://www.w3.org/2000/svg}"
    names = {element.tag.removeprefix(space) for element in root.iter()}
    assert names <= {"svg", "title", "desc", "style", "rect", "text", "line", "g", "circle", "path"}
    title, described = root.find(f"{space}title"), root.find(f"{space}desc")
    assert title is not None
    assert described is not None
    assert (title.text or "").startswith("Reminders of session ")
    assert "created 2030-03-01 10:" in (described.text or "")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title desc"


@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_a_log_moves_a_cursor_or_turns_a_line(name: str) -> None:
    text = re.sub("\x1b\\[[0-9;]*m", "", golden(name)) if name.endswith(".ansi") else golden(name)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_document_of_finding_codes_is_what_the_code_says() -> None:
    """If this fails, run `session-schedule catalog --write docs`."""
    text = finding_codes_markdown()
    assert text == (DOCS / "finding-codes.md").read_text("utf-8")
    assert {f"| `{code}` |" for code in FindingCode} == set(
        re.findall("^[|] `[a-z0-9_]+` [|]", text, re.MULTILINE)
    )


def test_document_shows_real_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of each example of `docs/doctor.md` is one that the commands print."""
    monkeypatch.chdir(tmp_path)
    write_logs(Path("logs"))
    printed = doctor("logs", "--repair-to", "repaired").out + doctor(*NAMED).out
    real = {*printed.splitlines(), *golden("timeline-80.txt").splitlines()}
    examples = re.findall("```text\n(.*?)```", (DOCS / "doctor.md").read_text("utf-8"), re.DOTALL)
    assert 3 == len(examples)
    assert set() == {line for example in examples for line in example.splitlines()} - real
    assert golden("garden.svg") == (DOCS / "timeline.svg").read_text("utf-8")


class Tags(HTMLParser):
    """Every tag, link and policy of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.addresses: list[str] = []
        self.policies: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            if name in {"href", "src", "action"}:
                self.addresses.append(value or "")
            elif name == "content":
                self.policies.append(value or "")
            assert not name.startswith("on")
