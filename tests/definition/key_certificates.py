"""Levels of histories over keys with certificates that tell every version set, by Adya's definitions; and random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

from isolde.history import CompareAndSet, History, Operation, Read, Status, Transaction, TxnId, Write, observed, written
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet

from .certificates import Edge, cyclic, snapshots
from .evidence import Told
from .satisfaction import satisfies

_WEAK = ("read-committed", "read-atomic", "causal", "prefix")


class KeyDefinition:
    """One history with its certificate."""

    def __init__(self, history: History, certificate: Certificate) -> None:
        self.history, self.told = history, certificate
        self.by_id = {t.id: t for t in history.transactions}
        listed = {v[0] for one in certificate.objects.values() for v in one.versions if v} | {*certificate.commits}
        self.effective = [
            t.id
            for t in history.transactions
            if t.status is Status.COMMITTED or (t.status is Status.UNKNOWN and t.id in listed)
        ]
        self.listed = {key: [v for v in one.versions if v] for key, one in certificate.objects.items()}
        self.lines: dict[ObjectId, list[VersionId]] = {}
        for key, versions in self.listed.items():
            last = {v[0]: at for at, v in enumerate(versions)}
            self.lines[key] = [v for at, v in enumerate(versions) if last[v[0]] == at]
        self.by_value: dict[VersionId, VersionId | None] = {}

    def writes(self, txn: TxnId, key: ObjectId) -> list[int]:
        ops = self.by_id[txn].ops
        return [at for at, op in enumerate(ops) if (found := written(op)) is not None and found[0] == key]

    def reads(self) -> Iterator[tuple[VersionId, ObjectId, object]]:
        for txn in self.effective:
            for at, op in enumerate(self.by_id[txn].ops):
                seen = observed(op)
                if seen is not None:
                    yield (txn, at), seen[0], seen[1]

    def version(self, op: VersionId, key: ObjectId) -> VersionId | None:
        if op not in self.told.reads:
            return self.by_value[op]
        seen = self.told.reads[op]
        if key in (seen.versions or {}):
            return (seen.versions or {})[key]
        if seen.sees is None:
            return None
        own = [at for at in self.writes(op[0], key) if at < op[1]]
        if own:
            return op[0], own[-1]
        names = ({*self.told.commits[: seen.sees.first]} - {*seen.sees.without}) | {*seen.sees.also}
        visible = [v for v in self.lines.get(key, []) if v[0] in names and v[0] != op[0]]
        return visible[-1] if visible else None

    def fitting(self, op: VersionId, key: ObjectId, value: object) -> list[VersionId | None]:
        """The versions that an operation without a version set may have read, by its value."""
        own = [at for at in self.writes(op[0], key) if at < op[1]]
        if own and self.value(key, (op[0], own[-1])) == value:
            return [(op[0], own[-1])]
        written_ones = [(t.id, at) for t in self.history.transactions for at in self.writes(t.id, key)]
        fits = [version for version in (None, *written_ones) if self.value(key, version) == value]
        # What was never installed explains nothing that something installed does.
        return [v for v in fits if v is None or (v[0] in self.effective and v[0] != op[0])] or fits

    def value(self, key: ObjectId, version: VersionId | None) -> object:
        if version is None:
            assert isinstance(key, int | str)
            return self.history.initial.get(key)
        found = written(self.by_id[version[0]].ops[version[1]])
        assert found is not None
        return found[1]

    def faulty(self) -> bool:
        for name in {op.key for t in self.history.transactions for op in t.ops if isinstance(op, Write)}:
            for txn in self.effective:
                wrote, listed = self.writes(txn, name), self.listed.get(name)
                if listed is not None and wrote and not any(v[0] == txn and v[1] >= wrote[-1] for v in listed):
                    return True
        for op, key, value in self.reads():
            if op not in self.told.reads:
                fits = self.fitting(op, key, value)
                if not fits:
                    return True
                if len(fits) > 1:
                    continue
                self.by_value[op] = fits[0]
            version = self.version(op, key)
            if self.value(key, version) != value:
                return True
            own = [at for at in self.writes(op[0], key) if at < op[1]]
            if own and version != (op[0], own[-1]):
                return True
            if version is None or (own and version == (op[0], own[-1])):
                continue
            if version[0] == op[0] or version[0] not in self.effective:
                return True
            if version not in self.lines.get(key, [(version[0], self.writes(version[0], key)[-1])]):
                return True
        return False

    def overwrites(self) -> Iterator[Edge]:
        for versions in (*self.lines.values(), *self.listed.values()):
            yield from ((a, b, "ww") for (a, _), (b, _) in pairwise(versions) if a != b)

    def edges(self) -> Iterator[Edge]:
        yield from self.overwrites()
        for op, key, _ in self.reads():
            version = self.version(op, key)
            if version is not None and version[0] == op[0]:
                continue
            line = self.lines.get(key, [])
            at = line.index(version) if version in line else -1
            if version is not None:
                yield version[0], op[0], "wr"
            if at + 1 < len(line) and line[at + 1][0] != op[0]:
                yield op[0], line[at + 1][0], "rw"
        for at, a in enumerate(self.effective):
            for b in self.effective[at + 1 :]:
                if self.by_id[a].session == self.by_id[b].session:
                    yield a, b, "so"

    def verdicts(self) -> dict[str, bool | None]:
        answers: dict[str, bool | None] = {"read-uncommitted": not cyclic(self.effective, list(self.overwrites()))}
        levels = ("pl-2", "repeatable-read", "snapshot-isolation", "serializable", *_WEAK)
        if self.faulty():
            return answers | dict.fromkeys(levels, False)
        if any(op not in self.told.reads and op not in self.by_value for op, _, _ in self.reads()):
            # A circle of overwrites breaks every level, whatever was read.
            return answers | dict.fromkeys(levels, None if answers["read-uncommitted"] else False)
        edges = list(self.edges())
        answers["pl-2"] = not cyclic(self.effective, [edge for edge in edges if edge[2] != "rw"])
        answers["repeatable-read"] = answers["serializable"] = not cyclic(self.effective, edges)
        answers["snapshot-isolation"] = snapshots(self.effective, edges)
        told = Told(
            edges=tuple(self.overwrites()),
            orders=tuple((None, *(v[0] for v in line)) for line in self.lines.values() if line),
        )
        return answers | {level: satisfies(self._named(), level, told=told) for level in _WEAK}

    def _named(self) -> History:
        """The same with a value of its own for each version."""
        transactions = []
        for t in self.history.transactions:
            ops: list[Operation] = []
            for at, op in enumerate(t.ops if t.id in self.effective else ()):
                seen, wrote = observed(op), written(op)
                if seen is not None:
                    version = self.version((t.id, at), seen[0])
                    ops.append(Read(seen[0], None if version is None else repr(version)))
                if wrote is not None:
                    ops.append(Write(wrote[0], repr((t.id, at))))
            status = Status.COMMITTED if t.id in self.effective else Status.ABORTED
            transactions.append(Transaction(t.id, t.session, tuple(ops), status))
        return History(tuple(transactions))


def random_keys(seed: int) -> tuple[History, Certificate]:
    """A small history over keys, whose values may repeat, and a certificate that may be wrong about it."""
    rng = random.Random(f"keys {seed}")
    wild = rng.choice([0.0, 0.1, 0.3])
    forgotten = rng.choice([0.0, 0.0, 0.2])
    names = [f"t{at}" for at in range(rng.randint(2, 5))]
    lines: dict[str, list[VersionId]] = {key: [] for key in "xy"}
    values: dict[tuple[str, VersionId], int | None] = {}
    commits: list[str] = []
    reads: dict[VersionId, VersionSet] = {}
    done: list[Transaction] = []
    for name in names:
        ops: list[Operation] = []
        own: dict[str, VersionId] = {}
        snapshot = rng.randint(max(0, len(commits) - 2), len(commits))
        for place in range(rng.randint(1, 4)):
            key = rng.choice("xy")
            first = snapshot if rng.random() < 0.7 else len(commits)
            seen = VersionSet(Sees(first, tuple(n for n in commits[:first] if rng.random() < wild / 3)))
            visible = [v for v in lines[key] if v[0] in set(commits[:first]) - {*seen.sees.without}]  # type: ignore[union-attr]
            version = own.get(key) or (visible[-1] if visible else None)
            if rng.random() < wild / 3:
                known = [v for k, v in values if k == key]
                version = rng.choice([None, *known])
                seen = VersionSet(None if rng.random() < 0.5 else seen.sees, {key: version})
            current = 0 if version is None else values[key, version]
            if rng.random() < wild / 8:
                current = 9
            new = rng.choice([1, 2, 3, None])
            kind = rng.random()
            if kind < 0.5:
                ops.append(Read(key, current))
            elif kind < 0.9:
                ops.append(Write(key, new))
            else:
                ops.append(CompareAndSet(key, current, new, applied=True))
            if rng.random() >= forgotten:
                reads[name, place] = seen
            if kind >= 0.5:
                own[key] = (name, place)
                values[key, (name, place)] = new
        status = rng.choice([Status.COMMITTED] * 8 + [Status.ABORTED, Status.UNKNOWN])
        if status is Status.COMMITTED or (status is Status.UNKNOWN and rng.random() < 0.5):
            commits.append(name)
            for key, version in own.items():
                at = rng.randint(0, len(lines[key])) if rng.random() < wild else len(lines[key])
                lines[key].insert(at, version)
                if rng.random() < wild / 10:
                    lines[key].append(lines[key][0])
        done.append(Transaction(name, rng.choice("abc"), tuple(ops), status))
    objects: dict[ObjectId, Installed] = {
        key: Installed((None, *line))
        for key, line in lines.items()
        if any(o.key == key for t in done for o in t.ops)  # type: ignore[union-attr]
    }
    history = History(tuple(done), initial={"x": 0, "y": 0})
    return history, Certificate("random", objects, tuple(commits), reads)
