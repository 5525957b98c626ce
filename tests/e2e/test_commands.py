"""Every other command: what it prints, how it exits, and that reading changes nothing."""

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from schedule_adapters.testing.postgres import own_schema
from schedule_core.tools import TOOLS
from tests.e2e.chat_process import PROGRAM, Story, environment, log_path, run, script, seed

FAR = "2100-01-01T00:00:00.000Z"
COMMANDS = (
    "chat",
    "list",
    "delete",
    "events",
    "fork",
    "copy",
    "sessions",
    "store",
    "catalog",
    "doctor",
    "timeline",
    "web",
    "mcp",
    "acp",
)
READERS = (
    ("list", "--session", "gone"),
    ("events", "--session", "gone"),
    ("delete", "--session", "gone", "schedule-1"),
    ("fork", "gone", "child"),
)


def one_error(root: Path, *arguments: str, **environ: str) -> str:
    """Run a command that fails; gives its one line."""
    done = run(*arguments, root=root, **environ)
    assert (1, "") == (done.returncode, done.stdout)
    (line,) = done.stderr.splitlines()
    assert line.startswith("session-schedule: ")
    return line


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "session.lock"
    }


def test_list_and_delete(tmp_path: Path) -> None:
    """One line for each reminder, in the zone of the reader; hostile text stays text."""
    seed(tmp_path, "call home", "\x1b[31mred \u202elive", at=FAR)
    here = ("--root", str(tmp_path))
    listed = run("list", *here, "--time-zone", "Europe/Berlin", root=tmp_path)
    first, second = listed.stdout.splitlines()
    assert first.startswith("schedule-1  2100-01-01 01:00:00 Europe/Berlin  (in ")
    assert first.endswith(")  call home")
    assert second.endswith(")  \ufffd[31mred \ufffdlive")
    deleted = run("delete", *here, "schedule-1", root=tmp_path)
    assert (0, "deleted schedule-1\n") == (deleted.returncode, deleted.stdout)
    assert one_error(tmp_path, "delete", *here, "schedule-1").endswith(
        "there is no active reminder schedule-1"
    )
    assert ["create", "create", "delete"] == Story.of(tmp_path).operations
    run("delete", *here, "schedule-2", root=tmp_path)
    assert "no reminders\n" == run("list", *here, root=tmp_path).stdout


def test_events_fork_and_sessions(tmp_path: Path) -> None:
    """A fork has the history and none of the reminders; both stand in the list of sessions."""
    seed(tmp_path, "call home", at=FAR)
    here = ("--root", str(tmp_path))
    events = run("events", *here, root=tmp_path).stdout.splitlines()
    assert ["0", "1"] == [line.split()[0] for line in events]
    assert events[1].endswith("create schedule-1 for 2100-01-01 00:00:00 UTC: call home")
    forked = run("fork", *here, "main", "child", root=tmp_path)
    assert (0, "child begins with 2 events of main; its reminders stay with the parent\n") == (
        forked.returncode,
        forked.stdout,
    )
    assert "child: there is such a session" in one_error(tmp_path, "fork", *here, "main", "child")
    sessions = run("sessions", *here, root=tmp_path).stdout.splitlines()
    assert [
        "child  3 events, no reminders",
        "main  2 events, 1 reminder, next 2100-01-01 00:00:00 UTC",
    ] == sessions
    assert "no reminders\n" == run("list", *here, "--session", "child", root=tmp_path).stdout


def test_catalog_version_and_help(tmp_path: Path) -> None:
    """What a newcomer asks first; each command has a help text of its own."""
    tools = json.loads(run("catalog", "--json", root=tmp_path).stdout)
    assert [tool.name for tool in TOOLS] == [tool["name"] for tool in tools]
    assert "# Tool catalog" in run("catalog", root=tmp_path).stdout
    told = run("--version", root=tmp_path).stdout
    assert told.startswith(f"session-schedule {version('session-schedule')}, time zone data 20")
    helped = run("--help", root=tmp_path)
    assert 0 == helped.returncode
    assert all(f"    {command} " in helped.stdout for command in COMMANDS)


@pytest.mark.parametrize("arguments", READERS, ids=lambda arguments: arguments[0])
def test_reading_a_session_that_is_not_there_makes_none(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    root = tmp_path / "root"
    line = one_error(tmp_path, *arguments, "--root", str(root))
    assert line.endswith("gone: there is no such session")
    assert not root.exists()


def test_a_corrupt_log_is_named_with_its_line_and_left_as_it_is(tmp_path: Path) -> None:
    """Damage below a checkpoint: loud everywhere, for readers and writers, nothing cut."""
    seed(tmp_path, "call home", "call back", at=FAR)
    log = log_path(tmp_path)
    lines = log.read_bytes().split(b"\n")
    lines[2] = lines[2][:-10]
    log.write_bytes(b"\n".join(lines))
    before = files(tmp_path)
    offset = len(lines[0]) + len(lines[1]) + 2
    place = f"{log}: line 3 (byte {offset}): the line is not JSON"
    here = ("--root", str(tmp_path))
    for command in ("list", "events", "chat"):
        assert f"session-schedule: {place}" == one_error(tmp_path, command, *here)
    sessions = run("sessions", *here, root=tmp_path)
    assert (1, f"main  {place}\n") == (sessions.returncode, sessions.stderr)
    assert before == files(tmp_path)


def test_a_torn_tail_is_saved_aside_and_the_chat_works(tmp_path: Path) -> None:
    """A write that a crash cut off was never confirmed: its bytes are kept beside the log."""
    seed(tmp_path, "call home", at=FAR)
    log = log_path(tmp_path)
    whole = log.read_bytes()
    torn = b'{"type":"schedule/change","seq":2,"ti'
    log.write_bytes(whole + torn)
    before = files(tmp_path)
    here = ("--root", str(tmp_path))
    assert "schedule-1  " in run("list", *here, root=tmp_path).stdout
    assert before == files(tmp_path)
    assert "schedule-1  " in script("hello", "/list", root=tmp_path).stdout
    (saved,) = log.parent.glob("*.torn-*")
    assert torn == saved.read_bytes()
    assert log.read_bytes().startswith(whole)
    assert ["hello"] == Story.of(tmp_path).turns


def test_wrong_words_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Usage errors exit with 2, a model that cannot be used with 1, each with one reason."""
    root = tmp_path / "root"
    chat = ("chat", "--root", str(root))
    for wrong, reason in (
        (("--time-zone", "Mars/Base"), "'Mars/Base' is not a time zone"),
        (("--time-zone", "CET"), "'CET' is not a time zone"),
        (("--linger", "nan"), "'nan' is not a number from 0"),
    ):
        refused = run(*chat, *wrong, root=tmp_path)
        assert 2 == refused.returncode
        assert reason in refused.stderr.splitlines()[-1]
    unknown = one_error(tmp_path, *chat, "--model", "oracle")
    assert unknown.endswith("unknown model oracle; use offline, ollama:NAME or openai-chat:NAME")
    assert not root.exists()


@pytest.mark.parametrize("package", ["rich", "prompt_toolkit", "pydantic_ai"])
def test_without_its_extra_the_chat_says_what_to_install(tmp_path: Path, package: str) -> None:
    """The rest of the program works without it."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    path = str(tmp_path)
    line = one_error(tmp_path, "chat", "--root", path, PYTHONPATH=path)
    assert line.endswith(
        f"the chat needs {package}; install it with: pip install 'session-schedule[chat]'"
    )
    assert 0 == run("sessions", "--root", path, root=tmp_path, PYTHONPATH=path).returncode


def test_an_output_that_takes_nothing_is_one_error(tmp_path: Path) -> None:
    """A full disk behind a redirection: one line, and no traceback when the program ends."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(  # noqa: S603 - our own program
            [PROGRAM, "catalog"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            text=True,
            check=False,
        )
    assert (1, "session-schedule: No space left on device\n") == (done.returncode, done.stderr)


def test_a_store_can_be_named_by_url(tmp_path: Path) -> None:
    """jsonl:DIR is the root; what is no store is a usage error that says what there is."""
    seed(tmp_path, "call home", at=FAR)
    by_url = run("events", "--store", f"jsonl:{tmp_path}", root=tmp_path)
    assert by_url.stdout == run("events", "--root", str(tmp_path), root=tmp_path).stdout
    refused = run("list", "--store", "redis://user:secret@host", root=tmp_path)
    assert 2 == refused.returncode
    assert "use jsonl:DIR, sqlite:FILE or postgresql://USER@HOST/DATABASE" in refused.stderr
    assert "secret" not in refused.stderr.replace("--store redis://user:secret@host", "")


def test_sessions_are_copied_into_another_store(tmp_path: Path) -> None:
    """And live on there; a session that is there already is left alone, and said so."""
    seed(tmp_path, "call home", at=FAR)
    there = f"sqlite:{tmp_path / 'sessions.db'}"
    size = len((log_path(tmp_path)).read_bytes())

    copied = run("copy", f"jsonl:{tmp_path}", there, root=tmp_path)
    again = run("copy", f"jsonl:{tmp_path}", there, root=tmp_path)
    listed = run("list", "--store", there, root=tmp_path)
    deleted = run("delete", "--store", there, "schedule-1", root=tmp_path)

    assert copied.stdout.splitlines() == [
        f"main  {size} bytes",
        "open the copies from now on: a reminder comes back in each store it is opened in",
    ]
    assert (1, "") == (again.returncode, again.stdout)
    assert again.stderr.startswith("main  not copied: ")
    assert again.stderr.endswith("there is such a session\n")
    assert listed.stdout.endswith("call home\n")
    assert "deleted schedule-1\n" == deleted.stdout
    assert run("list", "--store", there, root=tmp_path).stdout == "no reminders\n"
    assert run("list", "--root", str(tmp_path), root=tmp_path).stdout.endswith("call home\n")


async def test_a_store_is_brought_up_to_date(tmp_path: Path) -> None:
    """Only PostgreSQL ever needs it; a store that is up to date stays so."""
    async with own_schema() as url:
        upgraded = run("store", "upgrade", "--store", url, root=tmp_path)
        again = run("store", "upgrade", "--store", url, root=tmp_path)
    files = run("store", "upgrade", "--store", f"jsonl:{tmp_path}", root=tmp_path)

    assert "the tables are those of this release\n" == upgraded.stdout == again.stdout
    assert "a jsonl store needs no upgrade\n" == files.stdout
