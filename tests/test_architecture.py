"""The rules of ARCHITECTURE.md that import-linter has no contract for. A new module is covered without editing a list here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

PARAMETERS_MAX = 8
LINES_MAX = 80

# Functions that are larger all the same, and why. One that is no longer larger is to be taken out.
LARGER = {
    "isolde._core.synthetic.generate": "one parameter for each setting of the generator, all by keyword",
    "isolde._core.plans.Plans.__init__": "the same, for plans",
    "isolde.semantics.core.primitives.primitive": "one row of the table of primitives, a parameter a column",
    "isolde.engines.check.decide.check": "the options of a check, all by keyword, and one question a level",
    "isolde.workloads.applications.rubis.random_browse": "a transaction of RUBiS has the parameters that RUBiS gives it",
    "isolde.workloads.applications.tpcc.payment": "a transaction of TPC-C has the parameters and steps that TPC-C gives it",
}

# Modules that need each other, and why they are not one.
CIRCLES: dict[tuple[str, ...], str] = {}

# Who may import what is not Python's own: everything below these packages, and nobody else.
OWNERS = {
    "z3": "isolde.smt",
    "sqlglot": "isolde.tx.sql",
    "isolde._core._native": "isolde._core",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name."""

    def name(file: Path) -> str:
        parts = file.relative_to(SOURCE).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    return {name(file): ast.parse(file.read_text("utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


def imported(tree: ast.Module) -> Iterator[str]:
    """What a module imports, at once or later; ``from a import b`` may mean either."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize(("library", "owner"), OWNERS.items(), ids=lambda name: str(name))
def test_a_library_is_imported_by_its_owner_alone(library: str, owner: str) -> None:
    users = [name for name, tree in modules().items() if any(within(target, library) for target in imported(tree))]
    assert [name for name in users if not within(name, owner)] == []


def test_no_adapter_imports_another() -> None:
    """A module of ``databases`` that defines ``ADAPTER``, or that makes adapters, is one; the registry imports them by name."""
    adapters = [
        name
        for name, tree in modules().items()
        if within(name, "isolde.databases")
        and any(
            isinstance(node, ast.Assign | ast.AnnAssign)
            and any(
                isinstance(t, ast.Name) and t.id == "ADAPTER"
                for t in getattr(node, "targets", [getattr(node, "target", None)])
            )
            for node in tree.body
        )
    ]
    assert {"isolde.databases.sqlite", "isolde.databases.postgresql"} <= set(adapters)
    crossed = [
        (name, target)
        for name in adapters
        for target in set(imported(modules()[name]))
        for other in [*adapters, "isolde.databases.pep249"]
        if other != name and within(target, other)
    ]
    assert crossed == []


def test_no_modules_import_each_other_in_a_circle_at_run_time() -> None:
    """Imports inside of functions count; those that only type checkers read do not. A package is its ``__init__``."""
    graph = grimp.build_graph("isolde", exclude_type_checking_imports=True)
    below = {
        name: sorted(
            target
            for target in graph.find_modules_directly_imported_by(name)
            if not only_the_extension(graph, name, target)
        )
        for name in sorted(graph.modules)
    }
    found = [tuple(circle) for circle in circles(below)]
    assert [circle for circle in found if circle not in CIRCLES] == []
    assert sorted(set(CIRCLES) - set(found)) == []


def only_the_extension(graph: grimp.ImportGraph, importer: str, target: str) -> bool:
    """``from isolde._core import _native`` loads the extension, which is no module of ours, and nothing of ``isolde._core``."""
    lines = [detail["line_contents"] for detail in graph.get_import_details(importer=importer, imported=target)]
    return target == "isolde._core" and all(line == "from isolde._core import _native" for line in lines)


def circles(below: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in below[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            component, stack[at:] = stack[at:], []
            if len(component) > 1:
                found.append(sorted(component))

    for name in below:
        if name not in index:
            visit(name)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == [["b", "c"]]


def functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}.{node.name}", node
            yield from functions(node, f"{prefix}.{node.name}")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}.{node.name}")
        else:
            yield from functions(node, prefix)


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A verb has a parameter for each of its options, and a help text: click wants it so."""
    return any("click.command" in ast.unparse(decorator) for decorator in function.decorator_list)


def size(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """Parameters, and lines without the decorators."""
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    receiver = bool(parameters) and parameters[0].arg in ("self", "cls")
    assert function.end_lineno is not None
    return len(parameters) - receiver, function.end_lineno - function.lineno + 1


def test_functions_fit_on_a_screen_or_state_why_not() -> None:
    large = {
        f"{name} ({parameters} parameters, {lines} lines)": name
        for module, tree in modules().items()
        for name, function in functions(tree, module)
        if not is_command(function)
        for parameters, lines in [size(function)]
        if parameters > PARAMETERS_MAX or lines > LINES_MAX
    }
    assert [shown for shown, name in large.items() if name not in LARGER] == []
    assert sorted(set(LARGER) - set(large.values())) == []
