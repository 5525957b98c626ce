"""Several processes and a Dask cluster: the same answers in the same order."""

import gc
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schedule_adapters.doctor import parallel
from schedule_adapters.doctor.sources import Target, find_targets
from tests.adapters.doctor_cli.demo_logs import NOW, write_logs
from tests.adapters.doctor_cli.pictures import doctor

ORIGINAL = Path(__file__).parents[2] / "golden" / "original_logs"


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every demo log and every log of the original, and two paths that are none."""
    monkeypatch.chdir(tmp_path)
    write_logs(Path("logs"))
    return ["logs", "gone", str(ORIGINAL), "logs/notes.txt"]


def test_jobs_change_nothing_but_the_time(paths: list[str]) -> None:
    assert doctor(*paths, "--json") == doctor(*paths, "--json", "--jobs", "2")
    assert doctor(*paths) == doctor(*paths, "--jobs", "2")


def test_lost_worker_is_said_of_each_log_that_it_was_to_read(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given workers that end at once, no answer is missing and none is made up."""
    monkeypatch.setattr(parallel, "_end_on_interrupt", partial(os._exit, 3))
    targets = [target for target in find_targets(paths) if isinstance(target, Target)]
    found = list(parallel.examine_in_processes(targets, NOW, lambda _: None, jobs=2))
    assert [target.name for target in targets] == [examination.name for examination in found]
    assert {parallel._LOST} == {examination.failure for examination in found}


def test_dask_gives_what_this_machine_gives(paths: list[str]) -> None:
    """A real cluster of two worker processes, files read through fsspec."""
    distributed: Any = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp"
    ) as cluster:
        assert doctor(*paths, "--json") == doctor(
            *paths, "--json", "--dask", cluster.scheduler_address
        )


def test_no_cluster_at_that_address_is_one_clear_line(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of the attempt is left for the collector, which may come at a bad moment."""
    distributed: Any = pytest.importorskip("distributed")
    monkeypatch.setattr(parallel, "_CONNECT_S", 0.3)
    for address in ("tcp://127.0.0.1:9", "nonsense", "foo://x"):
        done = doctor(*paths, "--dask", address)
        assert (2, "") == (done.code, done.out)
        assert f"session-schedule: no Dask cluster answers at {address}\n" == done.err
        assert [] == [each for each in gc.get_objects() if type(each) is distributed.Client]


def test_without_dask_it_says_what_to_install(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = doctor(*paths, "--dask", "tcp://127.0.0.1:9")
    hint = "a Dask cluster is used after: pip install 'session-schedule[dask]'"
    assert (2, f"session-schedule: {hint}\n") == (done.code, done.err)
