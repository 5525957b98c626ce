"""URLs, through fsspec, and what is missing for them."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import pytest

from tests.adapters.doctor_cli.demo_logs import sound_day, torn
from tests.adapters.doctor_cli.pictures import doctor, timeline

fsspec: Any = pytest.importorskip("fsspec")


@pytest.fixture
def bucket() -> str:
    """A folder in memory that holds two logs and something else."""
    folder = f"memory://{uuid4()}"
    files = {"a/session.jsonl": torn().text, "b.log": sound_day().text, "notes.txt": b"hello\n"}
    for name, content in files.items():
        with fsspec.open(f"{folder}/{name}", "wb") as file:
            file.write(content)
    return folder


def test_folder_behind_a_url_is_searched_like_any_other(bucket: str) -> None:
    rows = [json.loads(line) for line in doctor(bucket, "--json").out.splitlines()]
    assert [f"{bucket}/a/session.jsonl", f"{bucket}/b.log"] == [row["file"] for row in rows]
    assert ["torn", "garden"] == [row["session"] for row in rows]


def test_one_file_behind_a_url(bucket: str) -> None:
    assert 0 == doctor(f"{bucket}/b.log").code
    assert 2 == doctor(f"{bucket}/notes.txt").code
    gone = doctor(f"{bucket}/gone", f"{bucket}/b.log")
    assert 2 == gone.code
    assert f"{bucket}/gone: unreadable: there is no such file or folder\n" in gone.out
    assert "6 reminders" in timeline(f"{bucket}/b.log").out


def test_folder_in_an_archive(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("logs/session.jsonl", sound_day().text)
    url = f"zip://logs::{(tmp_path / 'logs.zip').as_uri()}"
    assert doctor(url).out.endswith("1 log: 1 sound\n")


def test_url_is_not_repaired(bucket: str, tmp_path: Path) -> None:
    shown = doctor(f"{bucket}/a/session.jsonl", "--repair-to", str(tmp_path)).out
    assert "repair: Not repaired: only files of this machine are." in shown


@pytest.mark.parametrize("url", ["nonsense://a", "http://[", "abc::def", "memory://gone/\x1b[31m"])
def test_url_that_leads_nowhere_is_one_line(url: str) -> None:
    done = doctor(url)
    assert 2 == done.code
    assert 2 == done.out.count("\n")
    assert "\x1b" not in done.out


def test_without_fsspec_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    done = doctor("memory://a")
    assert 2 == done.code
    hint = "a URL is read after: pip install 'session-schedule[fsspec]'"
    assert f"memory://a: unreadable: {hint}\n" in done.out
    assert f"session-schedule: memory://a: {hint}\n" == timeline("memory://a").err


def test_without_zstandard_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.zstd"
    log.write_bytes(importlib.import_module("zstandard").compress(sound_day().text))
    assert 0 == doctor(str(tmp_path)).code
    monkeypatch.setitem(sys.modules, "zstandard", None)
    done = doctor(str(tmp_path))
    assert 2 == done.code
    assert "pip install 'session-schedule[zstd]'" in done.out
