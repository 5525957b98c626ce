"""Plants a bug in the running product: one function gets the code of a changed text.

The text is replaced in the module's source, that source is compiled, and the one function
that holds the text gets its new code; globals, closures and identities stay. Where a constant
of the module holds it, as with a statement of SQL, the constant gets its new value. A text that
is not there exactly once is an error: a list of bugs must not outlive the code it is about.
"""

import ast
import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

from attrs import frozen

from schedule_adapters.testing.simulation.oracles import Oracle, Violation
from schedule_adapters.testing.simulation.run import simulate


@frozen
class PlantedBug:
    """One deliberate fault.

    Attributes:
        name: what is wrong, in a few words.
        place: "owner", "shell", "turns", "store", "lease", "sqlite" or "postgresql".
        module: where the text stands.
        old: the text, once in the module and inside one function, or one constant that the
            module itself reads; `new` takes its place.
        oracle: the rule that the killing run breaks.
        seed: the first seed that kills it.
    """

    name: str
    place: str
    module: str
    old: str
    new: str
    oracle: Oracle | None = None
    seed: int | None = None


@contextmanager
def planted(bug: PlantedBug) -> Iterator[None]:
    """Have the bug in the product for a while."""
    module = import_module(bug.module)
    source = inspect.getsource(module)
    assert source.count(bug.old) == 1, (
        f"{bug.name}: the text is there {source.count(bug.old)} times"
    )
    changed = source.replace(bug.old, bug.new)
    constant = _constant_around(source, source.index(bug.old))
    if constant is not None:
        with patch.object(module, constant, _evaluate(changed, constant, module)):
            yield
        return
    name = _function_around(source, source.index(bug.old))
    code = _find(compile(changed, module.__file__ or "", "exec"), name)
    function = _resolve(module, name)
    before = function.__code__
    assert code.co_freevars == before.co_freevars, f"{bug.name}: the closure would change"
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


def kills(seed: int, run: Callable[[int], object] = simulate) -> Oracle | None:
    """The rule that a run of this seed breaks; None if it breaks none.

    What breaks without naming a rule is an accident of the product.
    """
    try:
        run(seed)
    except Violation as violation:
        return violation.oracle
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - a mutant may fail in any way
        return Oracle.NO_ACCIDENT
    return None


def _line_at(source: str, offset: int) -> int:
    """The number of the line with the first character from here on that is no space."""
    rest = source[offset:]
    return source.count("\n", 0, offset + len(rest) - len(rest.lstrip())) + 1


def _constant_around(source: str, offset: int) -> str | None:
    """The name of the module's annotated constant that holds this place, if one does."""
    line = _line_at(source, offset)
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or 0):
            assert isinstance(node.target, ast.Name)
            return node.target.id
    return None


def _evaluate(source: str, constant: str, module: ModuleType) -> object:
    """The value of a constant in another text of its module."""
    (value,) = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == constant
    )
    assert value is not None, f"no value of {constant}"
    code = compile(ast.Expression(value), module.__file__ or "", "eval")
    return eval(code, vars(module))  # noqa: S307 - our own source


def _function_around(source: str, offset: int) -> str:
    """The qualified name of the outermost function that holds this place."""
    line = _line_at(source, offset)
    names: list[str] = []
    body: list[ast.stmt] = ast.parse(source).body
    while True:
        around = [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.lineno <= line <= (node.end_lineno or 0)
        ]
        assert around, f"line {line} is in no function"
        names.append(around[0].name)
        if not isinstance(around[0], ast.ClassDef):
            return ".".join(names)
        body = around[0].body


def _find(code: CodeType, name: str) -> CodeType:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_qualname == name:
                return each
            if name.startswith(f"{each.co_qualname}."):
                return _find(each, name)
    raise AssertionError(f"no code of {name}")


def _resolve(module: ModuleType, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    for attribute in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, attribute, None) or found
    assert isinstance(found, FunctionType), name
    return found
