"""One small fault in one function of the core: what it is, and how to put it in place."""

import ast
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from types import CodeType
from typing import Final

import libcst as cst
from attrs import field, frozen
from mutmut.mutation.file_mutation import Mutation, create_mutations, deep_replace

CORE: Final = Path(__file__).parents[2] / "src" / "schedule_core"


@frozen
class Mutant:
    """One function of the core with one small fault.

    Attributes:
        module: name of the module inside `schedule_core`.
        function: the qualified name of the function.
        change: what the fault is, `before => after`; unique within the function.
        lines: the line numbers of the module that the fault touches.
        code: the function's code with the fault.
        decorated: whether it is a property or a cache; those are never called at import.
    """

    module: str
    function: str
    change: str
    lines: frozenset[int]
    code: CodeType = field(repr=False, eq=False)
    decorated: bool = field(eq=False)
    _tree: cst.Module = field(repr=False, eq=False)
    _mutation: Mutation = field(repr=False, eq=False)

    @property
    def key(self) -> str:
        """A name that stays the same for as long as the changed line does."""
        return f"{self.module}: {self.function}: {self.change}"

    @property
    def place(self) -> tuple[str, str]:
        """The module and the function."""
        return self.module, self.function

    @property
    def file(self) -> str:
        """The path of the module."""
        return str(CORE / f"{self.module}.py")

    @property
    def source(self) -> str:
        """The whole module with the fault."""
        assert not self.decorated, "its decorator was left out to find this fault"
        whole = deep_replace(self._tree, self._mutation.original_node, self._mutation.mutated_node)
        assert isinstance(whole, cst.Module)
        return whole.code


def module_names() -> list[str]:
    """Every module of the core."""
    return sorted(path.stem for path in CORE.glob("*.py") if path.stem != "__init__")


def find_mutants(module: str) -> list[Mutant]:
    """Every fault that mutmut knows for the functions of one module.

    mutmut passes over decorated functions, because a copy of one could have side effects.
    Ours are properties and caches; they are read a second time without their decorators.
    """
    text = (CORE / f"{module}.py").read_text("utf-8")
    plain = cst.parse_module(text)
    bare = plain.visit(_Undecorate())
    assert isinstance(bare, cst.Module)
    repeats: Counter[tuple[str, str]] = Counter()
    return [
        *_mutants(module, text, plain.code, repeats, decorated=False),
        *_mutants(module, text, bare.code, repeats, decorated=True),
    ]


class _Undecorate(cst.CSTTransformer):
    """Takes the decorators off functions; classes keep theirs."""

    def leave_FunctionDef(  # noqa: N802 - the name is libcst's
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        return updated_node.with_changes(decorators=[])


def _mutants(
    module: str, text: str, code: str, repeats: Counter[tuple[str, str]], *, decorated: bool
) -> Iterator[Mutant]:
    first_lines = _first_lines(text)
    tree, mutations, *_ = create_mutations(f"{module}.py", code)
    names = dict(_functions(tree))
    for mutation in mutations:
        function = mutation.contained_by_top_level_function
        if function not in names or first_lines[names[function]][1] is not decorated:
            continue
        name = names[function]
        first_line, _ = first_lines[name]
        before, after = _lines(function), _lines(_mutated(function, mutation))
        change, touched = _difference(before, after)
        repeats[name, change] += 1
        if repeats[name, change] > 1:
            change = f"{change} (#{repeats[name, change]})"
        yield Mutant(
            module=module,
            function=name,
            change=change,
            lines=frozenset(first_line + index for index in touched),
            code=_compile(name, after),
            decorated=decorated,
            tree=tree,
            mutation=mutation,
        )


def _first_lines(text: str) -> dict[str, tuple[int, bool]]:
    """For each function, the line of its `def`, and whether it is decorated."""
    found = {}
    for node in ast.parse(text).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for function in inside:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                name = prefix + function.name
                found[name] = (function.lineno, bool(function.decorator_list))
    return found


def _functions(tree: cst.Module) -> Iterator[tuple[cst.FunctionDef, str]]:
    for node in tree.body:
        if isinstance(node, cst.FunctionDef):
            yield node, node.name.value
        elif isinstance(node, cst.ClassDef):
            for method in node.body.body:
                if isinstance(method, cst.FunctionDef):
                    yield method, f"{node.name.value}.{method.name.value}"


def _mutated(function: cst.FunctionDef, mutation: Mutation) -> cst.FunctionDef:
    mutated = deep_replace(function, mutation.original_node, mutation.mutated_node)
    assert isinstance(mutated, cst.FunctionDef)
    return mutated


def _lines(function: cst.FunctionDef) -> list[str]:
    """The lines of a function, from its `def` on, not indented."""
    return cst.Module([function.with_changes(leading_lines=[])]).code.splitlines()


def _difference(before: list[str], after: list[str]) -> tuple[str, list[int]]:
    """What was changed, in words, and the indices of the lines that were."""
    old: list[str] = []
    new: list[str] = []
    touched: list[int] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            old += map(_bare, before[start:end])
            new += map(_bare, after[other_start:other_end])
            touched += range(start, end)
    return f"{' '.join(old)} => {' '.join(new) or '(nothing)'}", touched


def _bare(line: str) -> str:
    """A line without its comment, which may be reworded."""
    return line.partition("  # ")[0].strip()


def _compile(name: str, lines: list[str]) -> CodeType:
    """The code of a function; in a class of its name, so that `super()` and `__x` work."""
    class_name, _, function_name = name.rpartition(".")
    if class_name:
        lines = [f"class {class_name}:", *(f"    {line}" for line in lines)]
    code = compile("\n".join(lines), f"<mutant of {name}>", "exec", dont_inherit=True)
    for part in name.split("."):
        code = next(
            each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == part
        )
    assert code.co_name == function_name
    return code
