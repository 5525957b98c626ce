"""The command `doctor`: what it looks at, what it says, and how it exits."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.doctor_cli.demo_logs import DemoLog, damaged, odd, sound_day, torn, write_logs
from tests.adapters.doctor_cli.pictures import doctor, on_a_terminal

ORIGINAL = Path(__file__).parents[2] / "golden" / "original_logs"
MANIFEST = (ORIGINAL / "manifest.jsonl").read_text("utf-8").splitlines()
VERSION_1_LOGS = [line for line in MANIFEST if '"every-' not in line]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, content: DemoLog | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.text)
    return name


def rows(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in doctor(*arguments, "--json").out.splitlines()]


def test_exit_code_is_that_of_the_worst_log() -> None:
    """0 sound, 1 findings, 2 unreadable; warnings only with --strict."""
    put("sound", sound_day())
    put("odd", odd())
    put("damaged", damaged())
    assert 0 == doctor("sound").code
    assert 0 == doctor("sound", "odd").code
    assert 1 == doctor("sound", "odd", "--strict").code
    assert 0 == doctor("sound", "--strict").code
    assert 1 == doctor("damaged", "sound").code
    assert 2 == doctor("gone", "damaged", "sound").code


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_broken_file_does_not_stop_the_others(form: tuple[str, ...]) -> None:
    """One line each, no traceback, in the order in which they were named."""
    put("sound", sound_day())
    put("text", b"hello\n")
    put("empty", b"")
    put("newer", b'{"type":"session","version":7,"id":"a","createdAt":0}\n')
    done = doctor("gone", "text", "empty", "newer", "sound", *form)
    assert (2, "") == (done.code, done.err)
    if form:
        found = [json.loads(line) for line in done.out.splitlines()]
        assert ["gone", "text", "empty", "newer", "sound"] == [row["file"] for row in found]
        assert [None, None, None, None, True] == [row["sound"] for row in found]
        assert ["unsupported_log"] == [finding["code"] for finding in found[3]["findings"]]
    else:
        lines = done.out.splitlines()
        assert "gone: unreadable: there is no such file or folder" == lines[0]
        assert lines[1].startswith("text: unreadable: this is not a session log")
        assert lines[2].startswith("empty: unreadable: this is not a session log")
        assert "newer:1: error: The header names a version" in lines[4]
        assert "5 logs: 1 sound, 4 unreadable" == lines[-1]


def test_file_that_nobody_can_read_says_so() -> None:
    """The memory of a process at address 0: it opens, and reading it fails for everybody."""
    done = doctor("/proc/self/mem")
    assert 2 == done.code
    assert done.out.startswith("/proc/self/mem: unreadable: ")


def test_folder_is_searched_by_content_in_order_each_log_once() -> None:
    """Logs under any name, at any depth; other files in silence, saved-aside bytes too."""
    put("logs/b/notes.txt", b"not a log\n")
    put("logs/b/any.name", sound_day())
    put("logs/a/session.jsonl", torn())
    put("logs/a/session.jsonl.torn-381-0", b'{"type":"x"}\n{"type":"schedule/change","seq":2,"ti')
    put("logs/c.json", b'\n{"type":"session"}\n')
    put("logs/headless.jsonl", b'{"ty\n' + sound_day().text.partition(b"\n")[2])
    Path("logs/loop").symlink_to(".", target_is_directory=True)
    os.mkfifo("logs/pipe")
    found = rows("logs", "logs/b/any.name")
    assert ["logs/headless.jsonl", "logs/a/session.jsonl", "logs/b/any.name"] == [
        row["file"] for row in found
    ]


def test_folder_without_a_log_is_no_success() -> None:
    """Whoever checks the wrong folder must not be told that all is well."""
    put("logs/notes.txt", b"not a log\n")
    done = doctor("logs")
    assert 2 == done.code
    assert done.out.startswith("logs: unreadable: there is no session log in this folder\n")


def test_lost_content_of_a_stored_log_is_found_by_its_name() -> None:
    """A crash can leave a file of NUL bytes; its name says that it was a log."""
    put("logs/session.jsonl", b"\0" * 500 + b"\n")
    [row] = rows("logs")
    assert "bad_header" in [finding["code"] for finding in row["findings"]]
    assert 1 == doctor("logs").code


def test_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (ORIGINAL / "basic-zstd-0.jsonl.zstd").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    [row] = rows("-", "--jobs", "2")
    assert ("-", "basic/zstd", 35, "zstd") == (
        row["file"], row["session"], row["events"], row["format"],
    )  # fmt: skip


def test_a_log_of_the_original_with_a_later_kind_is_refused() -> None:
    """Version 1 is strict: the recurring kind is unknown to it, and nothing is delivered."""
    put("log", (ORIGINAL / "every-plain-0.jsonl").read_bytes())
    [row] = rows("log")
    assert (3, [], False) == (row["events"], row["active"], row["sound"])
    assert "unknown_kind" == row["findings"][0]["code"]


@pytest.mark.parametrize("line", VERSION_1_LOGS)
def test_every_log_of_the_original_is_counted_as_it_counts(line: str) -> None:
    """All three encodings, told by their content alone."""
    expected = json.loads(line)
    put("log", (ORIGINAL / expected["file"]).read_bytes())
    [row] = rows("log")
    assert (expected["session"], expected["events"], expected["seenIds"]) == (
        row["session"], row["events"], row["seen"],
    )  # fmt: skip
    assert [record["id"] for record in expected["active"]] == row["active"]
    assert row["format"] == expected["file"].split("-")[1]
    assert row["sound"]


def test_quiet_leaves_out_what_is_sound() -> None:
    write_logs(Path("logs"))
    shown = doctor("logs", "--quiet").out
    assert "garden" not in shown
    assert "logs/odd-jobs.jsonl: " in shown
    assert shown.endswith("7 logs: 1 sound, 1 sound with warnings, 5 with errors\n")


def test_repair_writes_a_copy_and_says_what_it_did() -> None:
    """The log itself stays; damage is explained, not repaired; a second run cuts nothing."""
    put("torn.jsonl", torn().text[:-1])
    put("damaged.jsonl", damaged())
    before = Path("torn.jsonl").read_bytes()
    repairs = [row["repair"] for row in rows("torn.jsonl", "damaged.jsonl", "--repair-to", "out")]
    assert before == Path("torn.jsonl").read_bytes()
    assert 46 == repairs[0]["removed_bytes"]
    assert 0 == doctor(repairs[0]["copy"]).code
    assert (
        before == Path(repairs[0]["copy"]).read_bytes() + Path(repairs[0]["removed"]).read_bytes()
    )
    assert repairs[1]["copy"] is None
    assert "Not repaired" in repairs[1]["summary"]
    again = doctor("torn.jsonl", "--repair-to", "out")
    assert "is there already; move it, or name another folder" in again.out
    assert 1 == again.code


def test_page_that_cannot_be_written_is_one_clear_line() -> None:
    put("sound", sound_day())
    done = doctor("sound", "--html", "no/such/page.html")
    assert 2 == done.code
    assert "session-schedule: no/such/page.html: nothing was written: there is no such" in done.err


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    put("odd", odd())
    expected = doctor("odd").out
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    assert expected == doctor("odd").out


def test_screen_shows_the_first_findings_of_many() -> None:
    log = DemoLog("many")
    for _ in range(50):
        log.event("schedule/change", {"version": 2})
    put("many", log)
    shown = on_a_terminal(80, "many")
    assert 20 == shown.count("unknown version")
    assert "and 30 more findings; --json and --html list them" in shown
    assert 50 == len(rows("many")[0]["findings"])


@pytest.mark.parametrize("width", [60, 80, 200])
def test_screen_is_never_wider_than_the_terminal(width: int) -> None:
    write_logs(Path("logs"))
    from rich.text import Text  # noqa: PLC0415 - only here

    shown = Text.from_ansi(on_a_terminal(width, "logs"))
    assert max(line.cell_len for line in shown.split("\n")) <= width


@pytest.mark.parametrize(
    "wrong", [("--jobs", "0"), ("--jobs", "x"), ("--jobs", "9" * 5000), ("--now", "noon"), ()]
)
def test_wrong_words_are_usage_errors(wrong: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as refused:
        doctor(*(("log", *wrong) if wrong else ()))
    assert 2 == refused.value.code
