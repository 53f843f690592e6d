"""Whether bodies do the same in another process, where sets and dictionaries of texts have another order.

The other process reads the program again, runs its bodies along the same values (told by number, in the order in which they
were met) and compares what they do.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from isolde._core.exploration import Stretch
from isolde.engines.explore.behaviours import Behaviours, Node
from isolde.engines.explore.bodies import Bodies, described, not_deterministic
from isolde.engines.explore.program import Origin, Program
from isolde.engines.explore.rounds import bodies_of, of_round
from isolde.engines.explore.store_bodies import Run, run
from isolde.engines.explore.values import likeness
from isolde.errors import UsageError

Rounds = Sequence[Sequence[Node]]
_HASH_SEEDS = ("1", "2")
"""With the two orders of a small set, a single other process would often meet the same one."""
_NODES_MAX = 20_000
_SECONDS_MAX = 120.0


def replayed(program: Program, bodies: Bodies, rounds: Rounds) -> list[Behaviours]:
    """What the bodies do, round by round, as it was known then; ``UsageError`` if they do something else now."""
    known = []
    for number, nodes in enumerate(rounds):
        bodies = of_round(program, bodies, number, len(rounds))
        behaviours = Behaviours(program.calls, bodies)
        for place, node in enumerate(nodes):
            _observe(behaviours, place, node)
            if behaviours.nodes[place] != node:
                call, answers = behaviours.run_to(place)
                did = described(bodies.run(call, answers))
                raise UsageError(not_deterministic(call, answers, "something else, when it was left", did))
        known.append(behaviours)
    return known


def _observe(behaviours: Behaviours, place: int, node: Node) -> None:
    if place >= len(behaviours.nodes):
        assert node.parent is not None, "every transaction has its root already"
        behaviours.after(node.parent, node.value)


def refuse_differences(program: Program, model: str, rounds: Sequence[Behaviours]) -> None:
    """Runs the bodies in other processes; what differs is told with both runs. Only for a program that can be read again."""
    if program.origin is None:
        return
    told = [
        [[node.transaction, node.parent, node.value, _told(known, node)] for node in known.nodes[:_NODES_MAX]]
        for known in rounds
    ]
    for answer in _asked(program, {"model": model, "rounds": told}):
        if answer is not None:
            call = program.calls[answer["transaction"]]
            raise UsageError(not_deterministic(call, answer["answers"], answer["expected"], answer["did"]))


def refuse_other_statements(program: Program, runs: Sequence[Run]) -> None:
    """The same for bodies on a store model."""
    if program.origin is None or not runs:
        return
    told = [(run.call.number, run.answers, str(run.asked)) for run in runs[:_NODES_MAX]]
    packed_runs = base64.b64encode(pickle.dumps(told)).decode()
    for answer in _asked(program, {"runs": packed_runs}):
        if answer is not None:
            raise runs[answer["run"]].refuse(answer["did"])


def _asked(program: Program, question: dict[str, Any]) -> list[Any]:
    """What other processes say, which read the program again and have other orders of sets."""
    assert program.origin is not None
    sent = json.dumps({"origin": asdict(program.origin), **question}).encode()
    own = os.environ.get("PYTHONHASHSEED")
    seeds = [seed if seed != own else "3" for seed in _HASH_SEEDS]
    command = [sys.executable, "-m", "isolde.engines.explore.elsewhere"]
    children = []
    try:
        for seed in seeds:
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
            children.append(child)
        return [_answer(child, sent) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def _answer(child: subprocess.Popen[bytes], question: bytes) -> Any:
    try:
        out, _ = child.communicate(question, timeout=_SECONDS_MAX)
        return json.loads(out)
    except (subprocess.TimeoutExpired, ValueError, OSError):
        # A process that could not answer tells nothing about the bodies; those were compared here already.
        return None


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
    """A stretch in words that are the same in every process, if it does the same."""
    keys, values, stretch = behaviours.keys, behaviours.values, node.stretch
    writes = [f"write {likeness(keys[key])} = {likeness(values[value])}" for key, value in stretch.writes]
    checks = [] if stretch.failed_check is None else [f"fail {behaviours.checks[stretch.failed_check][1]!r}"]
    end = f"read {likeness(keys[stretch.key])}" if stretch.end == "read" else stretch.end
    return ", ".join([*writes, *checks, end])


def answer(question: dict[str, Any], program: Program) -> dict[str, Any] | None:
    """What the other process says: the first stretch that is another one there, if there is one."""
    bodies = bodies_of(program, question["model"])
    rounds = question["rounds"]
    for number, rows in enumerate(rounds):
        bodies = of_round(program, bodies, number, len(rounds))
        behaviours = Behaviours(program.calls, bodies)
        for place, (transaction, parent, value, expected) in enumerate(rows):
            if place >= len(behaviours.nodes):
                behaviours.after(parent, value)
            did = _told(behaviours, behaviours.nodes[place])
            if did != expected:
                _, answers = behaviours.run_to(place)
                return {
                    "transaction": transaction,
                    "answers": list(map(repr, answers)),
                    "expected": expected,
                    "did": did,
                }
    return None


def answer_on_store(question: dict[str, Any], program: Program) -> dict[str, Any] | None:
    """What the other process says of bodies on a store model: the first run that does something else there."""
    # It comes from the process that started this one.
    for number, (call, answers, expected) in enumerate(pickle.loads(base64.b64decode(question["runs"]))):
        did = str(run(program.calls[call], answers))
        if did != expected:
            return {"run": number, "did": did}
    return None


if __name__ == "__main__":
    question = json.load(sys.stdin)
    from isolde.engines.explore.files import program_again

    path, name, sessions, scale, seed = question["origin"].values()
    origin = Origin(path, name, tuple(sessions), tuple(scale), seed)
    program = program_again(origin)
    result = answer_on_store(question, program) if "runs" in question else answer(question, program)
    sys.stdout.write(json.dumps(result))
