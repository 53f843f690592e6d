"""What both languages name is named alike: levels, relations, and the stub of the extension against the extension itself."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import get_args

import isolde._core
from isolde._core import _native, generator_names, question_names, relation_names
from isolde.engines.check.decide import QUESTIONS
from isolde.findings.model import Kind
from isolde.levels import LEVELS, Level

STUB = Path(isolde._core.__file__).with_name("_native.pyi")


def test_every_level_has_its_question_in_the_core_and_every_question_its_level() -> None:
    assert set(QUESTIONS) == set(Level)
    assert sorted(QUESTIONS.values()) == sorted(question_names())


def test_a_question_is_called_as_its_level_is() -> None:
    # Three questions are named after what they ask; "snapshot" leaves the word isolation out.
    named = {"overwrites": "read-uncommitted", "information-flow": "pl-2"}
    for level, question in QUESTIONS.items():
        assert named.get(question, question.replace("snapshot", "snapshot-isolation")) == level.value


def test_the_generator_calls_levels_as_python_does_by_their_long_and_short_names() -> None:
    named = generator_names()[2]
    rows = {row.level.value: row.short for row in LEVELS}
    assert named[1::2] == [rows[name] for name in named[0::2]]


def test_the_kinds_of_edges_are_the_relations_of_the_core() -> None:
    assert list(get_args(Kind)) == relation_names()


def stubbed() -> dict[str, ast.ClassDef | ast.FunctionDef]:
    tree = ast.parse(STUB.read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """The names of the parameters, and whether each has a default."""
    found = node.args
    required = len(found.args) - len(found.defaults)
    plain = [(a.arg, at >= required) for at, a in enumerate(found.args)]
    return plain + [(a.arg, d is not None) for a, d in zip(found.kwonlyargs, found.kw_defaults, strict=True)]


def real_parameters(thing: object) -> list[tuple[str, bool]]:
    signature = inspect.signature(thing)  # type: ignore[arg-type]
    return [(p.name, p.default is not inspect.Parameter.empty) for p in signature.parameters.values()]


def test_the_stub_names_what_the_extension_has() -> None:
    real = {name for name in vars(_native) if not name.startswith("_")}
    assert set(stubbed()) == real


def test_the_stub_gives_every_function_and_method_its_parameters() -> None:
    for name, node in stubbed().items():
        real = getattr(_native, name)
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == real_parameters(real), name
            continue
        if issubclass(real, Exception):
            continue
        methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef) and m.name != "__len__"}
        public = {method for method in vars(real) if not method.startswith("_")}
        assert set(methods) - {"__init__"} == public, name
        for method, stub in methods.items():
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in stub.decorator_list)
            # The extension tells the parameters of a constructor with its class.
            found = real_parameters(real if method == "__init__" else getattr(real, method))
            expected = parameters(stub) if static else parameters(stub)[1:]
            found = found if static or method == "__init__" else found[1:]
            assert expected == found, f"{name}.{method}"
