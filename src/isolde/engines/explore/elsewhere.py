"""Whether bodies do the same in another process, where sets and dictionaries of texts have another order.

The other process reads the program again, runs its bodies along the same values (told by number, in the order in which they
were met) and compares what they do, by number too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from isolde._core.exploration import Stretch
from isolde.engines.explore.behaviours import Behaviours, Node
from isolde.engines.explore.bodies import Bodies, KeyBodies, described, not_deterministic
from isolde.engines.explore.program import Program, first_rows
from isolde.engines.explore.tables import TableBodies
from isolde.errors import UsageError

Rounds = Sequence[Sequence[Node]]
_HASH_SEEDS = ("1", "2", "3")
"""With two orders of a small set, one other process would often meet the same one."""
_NODES_MAX = 20_000
_SECONDS_MAX = 120.0


def replayed(program: Program, bodies: Bodies, rounds: Rounds) -> tuple[Bodies, Behaviours]:
    """The bodies, and what they do, as they were after these rounds; ``UsageError`` if they do something else now."""
    behaviours = Behaviours(program.calls, bodies)
    for number, nodes in enumerate(rounds):
        if number:
            assert isinstance(bodies, TableBodies), "only tables are explored in rounds"
            bodies = bodies.next_round()
            behaviours = Behaviours(program.calls, bodies)
        found = _difference(behaviours, nodes)
        if found is not None:
            call, answers = behaviours.run_to(found)
            raise UsageError(not_deterministic(call, answers, "as it did before", described(bodies.run(call, answers))))
    return bodies, behaviours


def _difference(behaviours: Behaviours, nodes: Sequence[Node]) -> int | None:
    """The first node that is another one here."""
    for number, node in enumerate(nodes):
        if number >= len(behaviours.nodes):
            assert node.parent is not None, "every transaction has its root already"
            behaviours.after(node.parent, node.value)
        if behaviours.nodes[number] != node:
            return number
    return None


def refuse_differences(program: Program, model: str, rounds: Rounds) -> None:
    """Runs the bodies in other processes; what differs is told with both runs. Only for a program that can be read again."""
    if program.origin is None:
        return
    question = json.dumps(
        {
            "origin": [getattr(program.origin, name) for name in ("path", "name", "sessions", "scale", "seed")],
            "model": model,
            "rounds": [[packed(node) for node in nodes[:_NODES_MAX]] for nodes in rounds],
        }
    ).encode()
    own = os.environ.get("PYTHONHASHSEED")
    seeds = [seed if seed != own else "4" for seed in _HASH_SEEDS]
    command = [sys.executable, "-m", "isolde.engines.explore.elsewhere"]
    children = []
    try:
        for seed in seeds:
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
            children.append(child)
        answers = [_answer(child, question) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    for answer in answers:
        if answer is not None:
            _complain(program, answer, rounds)


def _answer(child: subprocess.Popen[bytes], question: bytes) -> Any:
    try:
        out, _ = child.communicate(question, timeout=_SECONDS_MAX)
        return json.loads(out)
    except (subprocess.TimeoutExpired, ValueError, OSError):
        # A process that could not answer tells nothing about the bodies; those were compared here already.
        return None


def _complain(program: Program, answer: dict[str, Any], rounds: Rounds) -> None:
    round_number, number = answer["round"], answer["node"]
    call = program.calls[rounds[round_number][number].transaction]
    raise UsageError(not_deterministic(call, answer["answers"], answer["expected"], answer["did"]))


def packed(node: Node) -> list[Any]:
    stretch = node.stretch
    return [
        node.transaction,
        node.parent,
        node.value,
        [stretch.steps, stretch.writes, stretch.end, stretch.key, stretch.failed_check],
    ]


def unpacked(row: Sequence[Any]) -> Node:
    transaction, parent, value, (steps, writes, end, key, failed) = row
    pairs = tuple((key, written) for key, written in writes)
    return Node(transaction, parent, value, Stretch(steps, pairs, end, key, failed))


def _told(behaviours: Behaviours, node: Node) -> str:
    """A stretch that another process saw, in the numbers that this one knows."""

    def named(numbers: Any, number: int) -> str:
        return repr(numbers[number]) if number < len(numbers) else "something else"

    stretch = node.stretch
    writes = [
        f"write {named(behaviours.keys, key)} = {named(behaviours.values, value)}" for key, value in stretch.writes
    ]
    end = f"read {named(behaviours.keys, stretch.key)}" if stretch.end == "read" else stretch.end
    return ", ".join([*writes, end])


def answer(question: dict[str, Any], read: Callable[[Sequence[Any]], Program]) -> dict[str, Any] | None:
    """What the other process says: the first stretch that is another one there, if there is one."""
    program = read(question["origin"])
    bodies: Bodies
    if program.over_tables:
        bodies = TableBodies(program.schema, program.dialect, first_rows(program), question["model"])
    else:
        bodies = KeyBodies(program.initial)
    for round_number, rows in enumerate(question["rounds"]):
        if round_number:
            assert isinstance(bodies, TableBodies)
            bodies = bodies.next_round()
        behaviours = Behaviours(program.calls, bodies)
        nodes = [unpacked(row) for row in rows]
        number = _difference(behaviours, nodes)
        if number is not None:
            call, answers = behaviours.run_to(number)
            return {
                "round": round_number,
                "node": number,
                "answers": [repr(value) for value in answers],
                "expected": _told(behaviours, nodes[number]),
                "did": described(bodies.run(call, answers)),
            }
    return None


def _read_again(origin: Sequence[Any]) -> Program:
    from isolde.engines.explore.files import program_of, programs_in
    from isolde.workloads.applications import application_named
    from isolde.workloads.scales import scale_of

    path, name, sessions, scale, seed = origin
    if sessions:
        application = application_named(path)
        return program_of(application, sessions, scale_of(application, scale), seed)
    return next(program for program in programs_in(path) if program.origin is not None and program.origin.name == name)


if __name__ == "__main__":
    result = answer(json.load(sys.stdin), _read_again)
    sys.stdout.write(json.dumps(result))
