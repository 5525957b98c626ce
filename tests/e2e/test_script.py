"""The chat without a terminal: lines in, lines out, for scripts."""

import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pexpect.fdpexpect import fdspawn

from schedule_adapters.time_context import local_time
from schedule_core.instants import DAY_MS, HOUR_MS, Instant
from tests.e2e.chat_process import (
    PROGRAM,
    TIMEOUT_S,
    Story,
    environment,
    log_path,
    run,
    script,
    seed,
)


def test_lingering_waits_for_what_is_due_within_its_time(tmp_path: Path) -> None:
    """The near reminder comes back before the exit, the far one stays; exit code 0."""
    done = script(
        "remind me in 1 second to stretch",
        "remind me in 1 hour to rest",
        root=tmp_path,
        options=("--linger", "5"),
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "* reminder schedule-1\nReminder: stretch (schedule-1" in done.stdout
    assert ["create", "create", "dispatch"] == Story.of(tmp_path).operations


def test_without_linger_the_reminder_stays_and_commands_run_in_order(tmp_path: Path) -> None:
    """Each line's turn ends before the next line is read, and nothing waits for the hour."""
    done = script(
        "remind me in 1 hour to rest",
        "/list",
        "remind me in 2 hours to sleep",
        "/delete schedule-1",
        "/list",
        "/quit",
        "this is not read any more",
        root=tmp_path,
    )
    assert (0, "") == (done.returncode, done.stderr)
    shown = [line for line in done.stdout.splitlines() if not line.startswith(("[", "I will"))]
    assert ["schedule-1", "deleted", "schedule-2"] == [line.split()[0] for line in shown]
    story = Story.of(tmp_path)
    assert ["create", "create", "delete"] == story.operations
    assert 2 == len(story.turns)


def test_text_that_the_locale_lacks_ends_nothing(tmp_path: Path) -> None:
    """Bytes that do not decode, letters that do not encode: replaced; no traceback, no hang."""
    done = run(
        *("chat", "--root", str(tmp_path)),
        root=tmp_path,
        stdin=b"\xff\xfe\nremind me in 1 hour to eat \xe5\xaf\xbf\n/list\n",
        PYTHONIOENCODING="ascii",
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "schedule-1  " in done.stdout


@pytest.mark.parametrize(
    ("zone", "options"),
    [("Asia/Tokyo", ()), ("Europe/Berlin", ("--time-zone", "europe/berlin"))],
)
def test_tomorrow_at_nine_is_nine_on_the_users_own_wall(
    tmp_path: Path, zone: str, options: tuple[str, ...]
) -> None:
    """The zone comes from TZ, or from the option that outranks it; the log holds UTC."""
    line = "remind me tomorrow at 9am to call home"
    done = script(line, root=tmp_path, options=options, TZ="Asia/Tokyo")
    assert re.search(rf"09:00:00 \(\w+\) {zone}", done.stdout)
    story = Story.of(tmp_path)
    (record,) = story.created
    said_at = local_time(Instant(story.snapshot.events[0].time), zone)
    due_at = local_time(record.scheduled_at, zone)
    assert said_at is not None
    assert due_at is not None
    assert (1, 9, 0) == ((due_at.date() - said_at.date()).days, due_at.hour, due_at.minute)
    if zone == "Asia/Tokyo":  # nine hours ahead of UTC in every season
        assert 0 == record.scheduled_at % DAY_MS
    else:
        assert record.scheduled_at % DAY_MS in {7 * HOUR_MS, 8 * HOUR_MS}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits another process: Linux only")
def test_a_failing_disk_is_told_without_any_words_of_the_user(tmp_path: Path) -> None:
    """The answer is "uncertain", the diagnostics name no prompt, and the disk may come back."""
    seed(tmp_path, "rest", at="2100-01-01T00:00:00.000Z")
    log = log_path(tmp_path)
    chat = subprocess.Popen(  # noqa: S603 - our own program
        [PROGRAM, "chat", "--root", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    )
    with chat, killed_at_the_end(chat):
        assert chat.stdin is not None
        assert chat.stdout is not None
        assert chat.stderr is not None
        stdin, output = chat.stdin, fdspawn(chat.stdout, timeout=TIMEOUT_S)

        def say(line: str, expected: str) -> None:
            stdin.write(f"{line}\n".encode())
            stdin.flush()
            output.expect(expected.encode())

        say("/list", "schedule-1 ")
        unlimited = resource.prlimit(chat.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(chat.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, unlimited[1]))
        say("remind me in 1 hour to fetch the SESAME", "The disk did not confirm it")
        # The turn's own end waits for the disk too; this one is answered after it.
        say("/events 1", "turn/ended")
        resource.prlimit(chat.pid, resource.RLIMIT_FSIZE, unlimited)
        say("remind me in 2 hours to sleep", r"I will remind you at .*\(schedule-2\)")
        stdin.close()
        assert 0 == chat.wait(TIMEOUT_S)
        diagnostics = chat.stderr.read().decode()
    assert "could not be written" in diagnostics
    assert "SESAME" not in diagnostics
    assert "Traceback" not in diagnostics
    assert ["rest", "sleep"] == [record.prompt for record in Story.of(tmp_path).created]


@contextmanager
def killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()  # does nothing to one that has ended


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_diagnostics_that_cannot_be_written_hold_up_nothing(tmp_path: Path) -> None:
    """Standard error is full and the model is unreachable: turns still end, one by one."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(  # noqa: S603 - our own program
            [PROGRAM, "chat", "--root", str(tmp_path), "--model", "openai-chat:scripted"],
            input=b"one\ntwo\n",
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=TIMEOUT_S,
            env=environment(
                tmp_path, OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY="not-a-key"
            ),
            check=False,
        )
    assert 0 <= done.returncode
    assert ["failed", "failed"] == Story.of(tmp_path).outcomes


def test_a_failed_turn_shows_in_the_exit_code(tmp_path: Path) -> None:
    """A script that goes on as if nothing had happened would be worse than one that stops."""
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "not-a-key"}
    options = ("--model", "openai-chat:scripted")
    done = script("hello", root=tmp_path, options=options, **environ)
    assert 1 == done.returncode
    assert "this turn failed" in done.stderr
