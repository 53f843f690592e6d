"""Where a tool imagines a writer of the initial value, and somebody really writes it: there is only one of them."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

from definition import satisfies
from isolde.engines.check import check
from isolde.findings import Verdict
from isolde.formats import decode, read
from isolde.history import History, Read, Transaction, Write, render
from isolde.levels import Level
from test_foreign_formats import INITIAL, NOTHING, bincode, cobra, logs

SKEW_BEHIND_ZEROS = ((0, (("w", 1, 0), ("w", 2, 0))), (1, (("r", 1, 0), ("w", 2, 1))), (2, (("r", 2, 0), ("w", 1, 1))))
"""Session, operations: the first transaction writes the zeros that the others read."""


def test_an_initial_value_exists_only_where_nobody_writes_it(tmp_path: Path) -> None:
    """The implicit one would be a second writer of 0, and what the tool saw as violated would be explained by it."""
    plume = "".join(f"{f}({k},{v},{s},{s})\n" for s, ops in SKEW_BEHIND_ZEROS for f, k, v in ops)
    hist = "\n---\n".join("[" + " ".join(f"k{k}{'==' if f == 'r' else ':='}{v}" for f, k, v in ops) + "]" for _, ops in SKEW_BEHIND_ZEROS)  # fmt: skip
    awdit = "=====\n".join("".join(f"{f} {k} {v}\n" for f, k, v in ops) for _, ops in SKEW_BEHIND_ZEROS)
    events = [[([(int(f == "w"), k, v, 1) for f, k, v in ops], 1)] for _, ops in SKEW_BEHIND_ZEROS]
    as_json = [[{"events": [[f, k, v] for f, k, v in ops], "committed": True}] for _, ops in SKEW_BEHIND_ZEROS]
    contents = {
        "plume": plume.encode(),
        "dbcop-hist": hist.encode(),
        "awdit": awdit.encode(),
        "dbcop-bincode": bincode(events),
        "dbcop-json": json.dumps(as_json).encode(),
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        columns = read(str(path), name)
        assert dict(decode(columns).initial) == {}, name
        verdicts = [f.verdict for f in check(columns, [Level.SERIALIZABLE, Level.SNAPSHOT_ISOLATION]).findings]
        assert verdicts == [Verdict.VIOLATED, Verdict.SATISFIED], name


def texts_of(sessions: list[list[list[tuple[str, int, int]]]]) -> dict[str, bytes]:
    """The same reads and writes in every text of numbers, by encoders that share nothing with the writers."""
    plume, number = "", 0
    for session, transactions in enumerate(sessions):
        for ops in transactions:
            plume += "".join(f"{f}({k},{v},{session},{number})\n" for f, k, v in ops)
            number += 1
    sign = {"r": "==", "w": ":="}
    hist = "---\n".join(
        "".join("[" + " ".join(f"k{k}{sign[f]}{v}" for f, k, v in ops) + "]\n" for ops in transactions)
        for transactions in sessions
    )
    events = [[([(int(f == "w"), k, v, 1) for f, k, v in ops], 1) for ops in transactions] for transactions in sessions]
    objects = [[{"events": ops, "committed": True} for ops in transactions] for transactions in sessions]
    return {
        "plume": plume.encode(),
        "dbcop-hist": hist.encode(),
        "dbcop-bincode": bincode(events),
        "dbcop-json": json.dumps(objects).encode(),
    }


def test_400_texts_with_written_zeros_mean_the_same_to_every_reader_and_to_the_definition(tmp_path: Path) -> None:
    levels = [Level.READ_ATOMIC, Level.CAUSAL, Level.SNAPSHOT_ISOLATION, Level.SERIALIZABLE]
    seen: Counter[tuple[Level, bool]] = Counter()
    for seed in range(400):
        rng = random.Random(f"zeros-{seed}")
        values = {key: list(range(rng.choice((0, 1)), 9)) for key in (0, 1)}
        written = {key: [0] for key in (0, 1)}
        sessions: list[list[list[tuple[str, int, int]]]] = [[[]] for _ in range(rng.randint(2, 3))]
        for at in range(rng.randint(3, 5)):
            ops: list[tuple[str, int, int]] = []
            for _ in range(rng.randint(1, 3)):
                key = rng.choice((0, 1))
                if rng.random() < 0.5:
                    written[key].append(values[key].pop(0))
                    ops.append(("w", key, written[key][-1]))
                else:
                    ops.append(("r", key, rng.choice(written[key][-3:])))
            sessions[at % len(sessions)].append(ops)
        sessions = [[ops for ops in session if ops] for session in sessions]
        zeros = {k for session in sessions for ops in session for f, k, v in ops if (f, v) == ("w", 0)}
        meant = History(
            tuple(
                Transaction(f"{s}.{t}", s, tuple(Read(k, v) if f == "r" else Write(k, v) for f, k, v in ops))
                for s, session in enumerate(sessions)
                for t, ops in enumerate(session)
            ),
            {key: 0 for key in (0, 1) if key not in zeros},
        )
        expected = [satisfies(meant, level.value) for level in levels]
        seen.update((level, bool(verdict)) for level, verdict in zip(levels, expected, strict=True))
        for name, content in texts_of(sessions).items():
            path = tmp_path / "h"
            path.write_bytes(content)
            found = [f.verdict is Verdict.SATISFIED for f in check(read(str(path), name), levels).findings]
            assert found == expected, f"{name}, seed {seed}: {render(meant)}"
    assert all(seen[level, verdict] > 20 for level in levels for verdict in (True, False)), seen


def test_a_log_of_cobra_may_hold_the_writer_of_the_initial_state(tmp_path: Path) -> None:
    written = {
        "T0.log": cobra(("S", INITIAL), ("W", INITIAL, 1, 0), ("W", INITIAL, 2, 0), ("C", INITIAL)),
        "T1.log": cobra(("S", 1), ("R", INITIAL, INITIAL, 1, 0), ("R", NOTHING, NOTHING, 3, 0), ("C", 1)),
    }
    history = decode(read(str(logs(tmp_path / "c", written))))
    assert render(history) == (f"T0: {INITIAL}=[w(1,{INITIAL}) w(2,{INITIAL})] | T1: [r(1,{INITIAL}) r(3,_)]")
