"""Faults in what runs at import: each is tried by importing the core anew, with the fault.

Collecting all tests for each of them would take hours, so the tests of its own module and
the fixed words must notice it alone. The process that forks these trials has pytest loaded and
has never seen the core.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Final

import coverage
import pytest
import pytest_asyncio.plugin  # noqa: F401 - so that each fork has it already

from tests.mutation.forks import Trial, limit_cpu
from tests.mutation.mutants import CORE, Mutant, module_names

TESTS: Final = Path(__file__).parents[1] / "core"
PYTEST_ARGUMENTS: Final = (
    *("-qq", "-s", "--tb=no"),
    *("-p", "no:cacheprovider", "--disable-plugin-autoload"),  # some take seconds to import
    *("-p", "pytest_asyncio.plugin", "-p", "_hypothesis_pytestplugin"),
    *("-W", "ignore:Module already imported"),  # this program uses hypothesis itself
)
CPU_LIMIT_S: Final = 120
"""For the tests of one module; they need a few."""


def lines_run_at_import() -> dict[str, set[int]]:
    """For each module, the lines that run when all modules are imported; found in a fork."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        try:
            found = _import_under_coverage()
            rows = (f"{name} {line}\n" for name, lines in found.items() for line in lines)
            with os.fdopen(theirs, "w") as stream:
                stream.writelines(rows)
        finally:
            os._exit(0)
    os.close(theirs)
    lines: dict[str, set[int]] = {name: set() for name in module_names()}
    with os.fdopen(ours) as stream:
        for row in stream:
            name, line = row.split()
            lines[name].add(int(line))
    os.wait()
    assert all(lines.values()), "every module runs something at import"
    return lines


def _import_under_coverage() -> dict[str, list[int]]:
    tracer = coverage.Coverage(data_file=None, config_file=False, source=[str(CORE)])
    with tracer.collect():
        for name in module_names():
            __import__(f"schedule_core.{name}")
    data = tracer.get_data()
    return {name: data.lines(str(CORE / f"{name}.py")) or [] for name in module_names()}


def cold_trial(mutant: Mutant) -> Trial:
    """Import the core with that fault, and run the tests of its module."""

    def trial() -> str | None:
        limit_cpu(CPU_LIMIT_S)
        sys.meta_path.insert(0, _Finder(mutant))
        return _first_failure(mutant.module)

    return trial


def whole_trial(module: str) -> Trial:
    """Import the core as it is, and run the tests of one module: the proof that they pass."""
    return lambda: _first_failure(module)


def _first_failure(module: str) -> str | None:
    """Run the tests of one module of the core; gives the first that fails, if one does."""
    watch = _Watch()
    own = sorted(map(str, TESTS.glob(f"test_{module}*.py")))
    files = [*own, str(TESTS / "test_messages.py")]
    status = pytest.main([*PYTEST_ARGUMENTS, "-x", *files], plugins=[watch])
    assert status is not pytest.ExitCode.NO_TESTS_COLLECTED
    return None if status == 0 else watch.failed or "(import)"


class _Watch:
    """Remembers which test failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


class _Finder(MetaPathFinder):
    """Finds the one module with the fault."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != f"schedule_core.{self._mutant.module}":
            return None
        loader = _Loader(fullname, self._mutant)
        return spec_from_file_location(fullname, self._mutant.file, loader=loader)


class _Loader(SourceFileLoader):
    """Loads it."""

    def __init__(self, fullname: str, mutant: Mutant) -> None:
        super().__init__(fullname, mutant.file)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._mutant.source, self.get_filename(fullname), "exec", dont_inherit=True)
