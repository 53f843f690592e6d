"""Programs in files, and programs made of an application's transactions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from isolde.engines.explore.program import Origin, Program, populated
from isolde.errors import UsageError
from isolde.visible import visible

if TYPE_CHECKING:
    from isolde.workloads.application import Application, Part, Scale


def programs_in(path: str) -> list[Program]:
    """Every ``Program`` that the file holds at its top level, in the order of the file; named as there."""
    from isolde.workloads.applications.files import names_in

    found: dict[str, Program] = {}
    for name, value in names_in(path).items():
        # Another name of the same program is no other program.
        if isinstance(value, Program) and not any(value is known for known in found.values()):
            found[name] = value
    if not found:
        raise UsageError(
            f"{path}: it holds no Program; write PROGRAM = isolde.Program(sessions=[…]) at its top level,"
            " or give --sessions if it is an application"
        )
    return [replace(program, name=program.name or name, origin=Origin(path, name)) for name, program in found.items()]


def program_again(origin: Origin) -> Program:
    """The program of another process, read again."""
    from isolde.workloads.applications import application_named
    from isolde.workloads.scales import scale_of

    if origin.sessions:
        application = application_named(origin.path)
        return program_of(application, origin.sessions, scale_of(application, origin.scale), origin.seed, origin)
    return next(program for program in programs_in(origin.path) if program.origin == origin)


def program_of(
    application: Application, sessions: Sequence[str], scale: Scale, seed: int, origin: Origin | None = None
) -> Program:
    """Sessions as texts, such as ``enroll(1, 1); leave(1)``. Arguments that are left out at the end are drawn as in a run.

    >>> from isolde.workloads.applications import application_named
    >>> courseware = application_named("courseware")
    >>> program = program_of(courseware, ["leave(1); deregister(1)"], courseware.scale, 0)
    >>> [str(call) for call in program.calls]
    ['leave(1)', 'deregister(1)']
    """
    from isolde.workloads.blame import blamed

    random = Random(seed)
    with blamed(f"the rows of {application.name}"):
        rows = populated(application.populate(Random(seed), scale))
    listed = [[_call(application, node, scale, random) for node in _calls(text)] for text in sessions]
    return Program(sessions=listed, application=application, rows=rows, name=application.name, origin=origin)


def _calls(text: str) -> list[ast.Call]:
    calls = []
    for part in text.split(";"):
        if not part.strip():
            continue
        try:
            node = ast.parse(part.strip(), mode="eval").body
        except SyntaxError:
            node = None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise UsageError(f"'{visible(part.strip())}' is no call of a transaction; write enroll(1, 1); leave(1)")
        calls.append(node)
    if not calls:
        raise UsageError(f"the session '{visible(text)}' has no call of a transaction")
    return calls


def _call(application: Application, node: ast.Call, scale: Scale, random: Random) -> tuple[Any, ...]:
    from isolde.workloads.blame import blamed

    assert isinstance(node.func, ast.Name)
    name = node.func.id
    part: Part | None = next((part for part in application.parts if part.name == name), None)
    if part is None:
        known = ", ".join(part.name for part in application.parts)
        raise UsageError(f"{application.name} has no transaction {name}; it has {known}")
    shown = visible(ast.unparse(node))
    try:
        given = [ast.literal_eval(argument) for argument in node.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except ValueError:
        raise UsageError(f"{shown}: arguments are numbers, texts, None, True, False and lists of them") from None
    signature = inspect.signature(part.transaction.function)
    try:
        bound = signature.bind_partial(None, *given, **named).arguments
    except TypeError as error:
        raise UsageError(f"{shown} does not fit {name}{signature}: {error}") from None
    names = list(signature.parameters)[1:]
    with blamed(f"the arguments of {name}"):
        drawn = part.arguments(random, scale)
    return (part.transaction, *(bound[name] if name in bound else drawn[name] for name in names))
