"""Faults in what runs during the tests: each is put into the collected, running process."""

import sys
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper, reduce
from itertools import zip_longest
from time import process_time
from types import FunctionType
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol
from attrs import define
from hypothesis import is_hypothesis_test

from tests.mutation.cold import PYTEST_ARGUMENTS, TESTS
from tests.mutation.forks import Trial, limit_cpu
from tests.mutation.mutants import CORE, Mutant

Lines = dict[int, list[str]]
"""For each line of one module, the node ids of the tests that reach it."""


@define
class Warm:
    """Some of the collected tests, and which lines of the core each of them reaches.

    Attributes:
        items: the tests, by node id, in the order in which to run them.
        seconds: the processor time of each.
        reached: for each module, who reaches each line.
    """

    items: dict[str, pytest.Item]
    seconds: dict[str, float]
    reached: dict[str, Lines]

    @classmethod
    def survey(cls, items: list[pytest.Item]) -> "Warm":
        """Run each test once, and see how long it takes and where it goes.

        Raises:
            RuntimeError: a test fails although the core is whole.
        """
        tracer = coverage.Coverage(data_file=None, config_file=False, source=[str(CORE)])
        seconds = {}
        with tracer.collect():
            for item in items:
                clear_caches()  # or only the first test would reach what is cached
                tracer.switch_context(item.nodeid)
                start = process_time()
                if _fails(item, None):
                    raise RuntimeError(f"fails without any fault: {item.nodeid}")
                seconds[item.nodeid] = process_time() - start
        data = tracer.get_data()
        ordered = sorted(items, key=lambda item: ("golden" in item.nodeid, seconds[item.nodeid]))
        return cls(
            items={item.nodeid: item for item in ordered},
            seconds=seconds,
            reached={path.stem: data.contexts_by_lineno(str(path)) for path in CORE.glob("*.py")},
        )

    def tests_of(self, mutant: Mutant) -> list[pytest.Item]:
        """The tests that reach a changed line, in the order in which to run them."""
        lines = self.reached[mutant.module]
        names = {name for line in mutant.lines for name in lines.get(line, ())}
        if not names:  # the line is a part of a longer statement, and never seen alone
            near = range(min(mutant.lines) - 8, max(mutant.lines) + 8)
            names = {name for line in near for name in lines.get(line, ())}
        return [item for name, item in self.items.items() if name in names]

    def trial(self, mutant: Mutant, hint: str) -> Trial:
        """Put the fault in place and run the tests that reach it, `hint` before the others."""
        tests = self.tests_of(mutant)
        tests.sort(key=lambda item: item.nodeid != hint)

        def trial() -> str | None:
            put_in_place(mutant)
            clear_caches()
            for item, following in zip_longest(tests, tests[1:]):
                limit_cpu(2 + 10 * self.seconds[item.nodeid])
                if _fails(item, following):
                    return item.nodeid
            return None

        return trial


def run_collected(work: Callable[[list[pytest.Item]], None]) -> None:
    """Collect the tests of the core, and do `work` with them instead of running them."""
    status = pytest.main([*PYTEST_ARGUMENTS, str(TESTS)], plugins=[_Loop(work)])
    assert status == 0, f"pytest ended with {status}"


class _Loop:
    """Stands in for the loop that runs the tests."""

    def __init__(self, work: Callable[[list[pytest.Item]], None]) -> None:
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._work(session.items)
        return True


def is_property(item: pytest.Item) -> bool:
    """Tell whether a test tries many examples; such a one takes a hundred times as long."""
    return is_hypothesis_test(getattr(item, "obj", None)) or "_properties.py" in item.nodeid


def put_in_place(mutant: Mutant) -> None:
    """Give the function of a fault the code with the fault, wherever it is known."""
    _function(mutant).__code__ = mutant.code


def _function(mutant: Mutant) -> FunctionType:
    module = sys.modules[f"schedule_core.{mutant.module}"]
    *path, name = mutant.function.split(".")
    owner = reduce(getattr, path, module)
    found = vars(owner)[name]
    found = found.fget if isinstance(found, property) else getattr(found, "__wrapped__", found)
    assert isinstance(found, FunctionType)
    return found


def clear_caches() -> None:
    """Forget what the functions of the core have cached."""
    for cache in _caches():
        cache.cache_clear()


def _caches() -> Iterator["_lru_cache_wrapper[Any]"]:
    for name, module in list(sys.modules.items()):
        if name.startswith("schedule_core."):
            yield from (v for v in vars(module).values() if isinstance(v, _lru_cache_wrapper))


def _fails(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports = runtestprotocol(item, log=False, nextitem=following)
    return any(report.failed for report in reports)
