"""A walk that stopped, on disk: enough to go on with the same program another day."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from isolde._core.exploration import ExplorationCounts, Sources
from isolde.engines.explore.behaviours import Node
from isolde.engines.explore.elsewhere import packed, unpacked
from isolde.engines.explore.program import Program
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import Found, Left
from isolde.errors import InputError, UsageError

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was left, what was found until then, and what is known of the bodies, round by round."""

    left: Left
    failed: tuple[Found, ...]
    beyond: tuple[Sources, ...]
    rounds: tuple[tuple[Node, ...], ...]


def write_checkpoint(path: str, program: Program, question: Question, checkpoint: Checkpoint) -> None:
    """Writes it whole or not at all."""
    left = checkpoint.left
    content = {
        "isolde": "exploration",
        "version": _VERSION,
        "program": _digest(program),
        "question": asdict(question),
        "counts": astuple(left.counts),
        "seconds": left.seconds,
        "left": left.executions,
        "failed": [astuple(found) for found in checkpoint.failed],
        "beyond": checkpoint.beyond,
        "rounds": [[packed(node) for node in nodes] for nodes in checkpoint.rounds],
    }
    aside = f"{path}.{os.getpid()}.new"
    Path(aside).write_text(json.dumps(content))
    Path(aside).replace(path)


def read_checkpoint(path: str, program: Program, question: Question) -> Checkpoint | None:
    """What the file holds of this program and question; ``None`` if there is no such file yet."""
    try:
        content: Any = json.loads(Path(path).read_text())
    except FileNotFoundError:
        return None
    except (ValueError, UnicodeDecodeError):
        raise InputError(f"{path}: it is no checkpoint of an exploration") from None
    if not isinstance(content, dict) or content.get("isolde") != "exploration" or content.get("version") != _VERSION:
        raise InputError(f"{path}: it is no checkpoint of an exploration of this version")
    if content.get("program") != _digest(program):
        raise UsageError(f"{path}: it belongs to another program, or the program has changed; remove it to start anew")
    if content.get("question") != json.loads(json.dumps(asdict(question))):
        raise UsageError(f"{path}: it was written for other options; remove it to start anew")
    try:
        return _decoded(content)
    except (TypeError, ValueError, KeyError, IndexError):
        raise InputError(f"{path}: it is damaged; remove it to start anew") from None


def _decoded(content: dict[str, Any]) -> Checkpoint:
    def sources(rows: Any) -> Sources:
        return [(int(transaction), [int(source) for source in read]) for transaction, read in rows]

    left = Left(
        tuple((sources(rows), bool(pending)) for rows, pending in content["left"]),
        ExplorationCounts(*content["counts"]),
        float(content["seconds"]),
    )
    failed = tuple(
        Found(check, sources(rows), None if state is None else [(key, value) for key, value in state])
        for check, rows, state in content["failed"]
    )
    rounds = tuple(tuple(unpacked(row) for row in rows) for rows in content["rounds"])
    return Checkpoint(left, failed, tuple(sources(rows) for rows in content["beyond"]), rounds)


def _digest(program: Program) -> str:
    """What tells one program from another: its calls, its first state, and the code of its functions."""
    parts = [str(call) for call in program.calls]
    parts += [repr(sorted(map(repr, program.initial.items()))), repr(program.levels)]
    parts += [_code(call.function) for call in program.calls]
    if program.over_tables:
        parts += [repr(program.schema), repr(program.rows)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _code(function: Any) -> str:
    code = getattr(getattr(function, "function", function), "__code__", None)
    return (
        ""
        if code is None
        else f"{code.co_code.hex()} {[part for part in code.co_consts if not hasattr(part, 'co_code')]}"
    )
