"""Random transaction functions of the documented subset of Python, as source text.

Names tell what they hold: ``a``, ``b`` are parameters, ``c`` a parameter that is a list of integers, ``d`` one that is a list of pairs of an integer
and a text, ``v`` integers that may be ``None``, ``s`` texts, ``r`` rows, ``q`` lists of rows, ``w`` what counts the rounds of a ``while``, and is
assigned to by nothing else.
"""

from __future__ import annotations

from random import Random

INTEGERS, TEXTS, ROWS, LISTS = ("v1", "v2", "v3"), ("s1", "s2"), ("r1", "r2"), ("q1", "q2")
GIVEN = {"c": ("v1",), "d": ("v2", "s2")}
"""Parameters that are lists, and the names that a loop over one gives its elements to."""
PARAMETERS = ", ".join(("a", "b", *GIVEN))
COLUMNS = ("id", "n")
ROW = "SELECT id, n, s FROM t WHERE id = :x"
LIST = "SELECT id, n, s FROM t WHERE id >= :x ORDER BY id"
VALUE = "SELECT n FROM t WHERE id = :x"
COUNT = "SELECT COUNT(*) FROM t WHERE n > :x"
TEXT = "SELECT s FROM t WHERE id = :x"
CHANGES = (
    "UPDATE t SET n = n + :x WHERE id > 2",
    "UPDATE t SET n = :x WHERE id = 1",
    "DELETE FROM t WHERE id = :x",
    "INSERT INTO t (id, n, s) VALUES (:x, 1, 'new')",
)


class Functions:
    """``module`` is the source of several functions; each may call those before it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.before: list[tuple[str, int]] = []
        self.rounds = 0
        self.indent = 1
        self.loops = 0

    def module(self, count: int) -> str:
        parts = ["from isolde.tx.python import transaction\n"]
        for number in range(count):
            parts.append(self.function(f"f{number}"))
        return "\n\n".join(parts)

    def function(self, name: str) -> str:
        self.rounds, self.returned = 0, self.random.choice((1, 1, 2))
        self.known, self.calls = {"a", "b"}, 0
        lines = self.block(self.random.randint(3, 7))
        tail = (
            []
            if self.random.random() < 0.1
            else [f"    return {', '.join(self.integer() for _ in range(self.returned))}"]
        )
        if tail and not self.calls:
            # Calls of calls in loops would take long.
            self.before.append((name, self.returned))
        typed = "a, b, c: list[int], d: list[tuple[int, str]]"
        told = self.random.choice((typed, PARAMETERS)) if self.uses_lists(lines) else typed
        return "\n".join(["@transaction", f"def {name}(tx, {told}):", *lines, *tail])

    def uses_lists(self, lines: list[str]) -> bool:
        """Whether the text itself tells that both are lists: an annotation has to if nothing else does."""
        return all(any(f"in {name}:" in line or f"len({name})" in line for line in lines) for name in GIVEN)

    # Statements

    def block(self, length: int) -> list[str]:
        lines = [line for _ in range(length) for line in self.statement()]
        return lines or [self.space() + "pass"]

    def space(self, more: int = 0) -> str:
        return "    " * (self.indent + more)

    def inner(self, loops: int = 0) -> list[str]:
        """A block that may not be run: what it assigns to has no value after it, unless by chance."""
        known = set(self.known)
        self.indent, self.loops = self.indent + 1, self.loops + loops
        lines = self.block(self.random.randint(1, 3))
        self.indent, self.loops = self.indent - 1, self.loops - loops
        if self.random.random() < 0.97:
            self.known = known
        return lines

    def statement(self) -> list[str]:
        choices = [self.assignment] * 6 + [self.change, self.augmented, self.together, self.ending]
        if self.indent < 4:
            choices += [self.conditional] * 3 + [self.each, self.span, self.repeat] + [self.element] * 2
        if self.loops:
            choices += [self.jump] * 2
        if self.before:
            choices.append(self.call)
        return [self.space() + line if not line.startswith(" ") else line for line in self.random.choice(choices)()]

    def assignment(self) -> list[str]:
        kind = self.random.choice(("v", "v", "v", "s", "r", "q"))
        if kind == "v":
            name = self.random.choice(INTEGERS)
            value = self.random.choice(
                (self.integer, self.integer, self.integer, self.integer, self.asked, self.nothing)
            )()
        elif kind == "s":
            name, value = self.random.choice(TEXTS), self.random.choice((self.text, self.asked_text))()
        elif kind == "r":
            name, value = self.random.choice(ROWS), f"tx.one({ROW!r}, x={self.key()})"
        else:
            name, value = self.random.choice(LISTS), f"tx.all({LIST!r}, x={self.key()})"
        self.known.add(name)
        return [f"{name} = {value}"]

    def augmented(self) -> list[str]:
        names = [name for name in INTEGERS if name in self.known]
        return [f"{self.random.choice(names)} {self.random.choice('+-')}= {self.integer()}"] if names else []

    def together(self) -> list[str]:
        if self.random.random() < 0.3:
            self.known |= {"v1", "s1", "v2"}
            return [f"v1, v2, s1 = tx.one({ROW!r}, x={self.key()})"]
        line = f"v1, v2 = {self.integer()}, {self.integer()}"
        self.known |= {"v1", "v2"}
        return [line]

    def change(self) -> list[str]:
        call = f"tx.execute({self.random.choice(CHANGES)!r}, x={self.key()})"
        if self.random.random() < 0.5:
            return [call]
        self.known.add("v3")
        return [f"v3 = {call}"]

    def call(self) -> list[str]:
        self.calls += 1
        name, count = self.random.choice(self.before)
        into = ", ".join(INTEGERS[:count])
        line = f"{into} = {name}(tx, {self.integer()}, {self.integer()}, {', '.join(GIVEN)})"
        self.known |= set(INTEGERS[:count])
        return [line]

    def ending(self) -> list[str]:
        if self.random.random() < 0.6:
            return []
        values = ", ".join(self.integer() for _ in range(self.returned))
        ends = (f"return {values}", f"assert {self.condition()}, 'as told'", "tx.abort('enough')", "raise ValueError")
        line = self.random.choices(ends, (3, 3, 1, 1))[0]
        return (
            [line]
            if self.indent == 1 and line.startswith("assert")
            else [f"if {self.condition()}:", self.space(1) + line]
        )

    def conditional(self) -> list[str]:
        lines = [f"if {self.condition()}:", *self.inner()]
        if self.random.random() < 0.3:
            lines += [self.space() + f"elif {self.condition()}:", *self.inner()]
        if self.random.random() < 0.4:
            lines += [self.space() + "else:", *self.inner()]
        return lines

    def each(self) -> list[str]:
        lists = [name for name in LISTS if name in self.known]
        source = (
            self.random.choice(lists) if lists and self.random.random() < 0.5 else f"tx.all({LIST!r}, x={self.key()})"
        )
        known = set(self.known)
        names = ("r1",) if self.random.random() < 0.7 else ("v1", "v2", "s1")
        self.known |= set(names)
        lines = [f"for {', '.join(names)} in {source}:", *self.inner(1)]
        self.known = known
        return lines

    def element(self) -> list[str]:
        """A loop over a list that the caller gave."""
        given, names = self.random.choice(list(GIVEN.items()))
        known = set(self.known)
        self.known |= set(names)
        lines = [f"for {', '.join(names)} in {given}:", *self.inner(1)]
        self.known = known
        return lines

    def span(self) -> list[str]:
        bounds = self.random.choice(("3", "1, 4", "a", "0, b", "4, 2", "a, b"))
        known = set(self.known)
        self.known.add("v3")
        lines = [f"for v3 in range({bounds}):", *self.inner(1)]
        self.known = known
        return lines

    def repeat(self) -> list[str]:
        self.rounds += 1
        counter, space = f"w{self.rounds}", self.space()
        head = [f"{counter} = 0"]
        more = [f"{space}    {counter} += 1"]
        if self.random.random() < 0.5:
            head.append(f"{space}while {counter} < {self.random.randint(0, 4)}:")
        else:
            head.append(f"{space}while True:")
            more += [f"{space}    if {counter} > 3:", f"{space}        break"]
        return [*head, *more, *self.inner(1)]

    def jump(self) -> list[str]:
        return [f"if {self.condition()}:", self.space(1) + self.random.choice(("break", "continue"))]

    # Expressions

    def integer(self, depth: int = 0) -> str:
        names = [name for name in (*INTEGERS, "a", "b") if name in self.known]
        rows = [name for name in ROWS if name in self.known]
        lists = [name for name in LISTS if name in self.known]
        roll = self.random.random()
        if depth > 2 or roll < 0.35:
            return (
                self.random.choice(names) if names and self.random.random() < 0.7 else str(self.random.randint(-3, 5))
            )
        if roll < 0.5 and rows and depth == 0:
            row, column = self.random.choice(rows), self.random.choice(COLUMNS)
            return self.random.choice((f"{row}.{column}", f"{row}[{column!r}]"))
        if roll < 0.55 and depth == 0:
            return f"len({self.random.choice([*lists, *GIVEN])})"
        left, right = self.integer(depth + 1), self.integer(depth + 1)
        if roll < 0.8:
            return f"({left} {self.random.choice('+-*')} {right})"
        if roll < 0.85:
            return f"-({left})"
        if roll < 0.93:
            return self.random.choice((f"abs({left})", f"max({left}, {right})", f"min({left}, {right}, 2)"))
        return f"({left} if {self.condition(depth + 1)} else {right})"

    def nothing(self) -> str:
        return "None"

    def key(self) -> str:
        """Often one that is there."""
        return self.integer() if self.random.random() < 0.3 else str(self.random.randint(1, 5))

    def asked(self) -> str:
        return f"tx.value({self.random.choice((VALUE, COUNT))!r}, x={self.key()})"

    def text(self) -> str:
        known = [name for name in TEXTS if name in self.known]
        return self.random.choice([*known, "'p'", "'P'", "'it''s'", "'3'", "''"])

    def asked_text(self) -> str:
        return f"tx.value({TEXT!r}, x={self.key()})"

    def condition(self, depth: int = 0) -> str:
        roll = self.random.random()
        if depth < 2 and roll < 0.15:
            return f"({self.condition(depth + 1)} {self.random.choice(('and', 'or'))} {self.condition(depth + 1)})"
        if roll < 0.2:
            return f"not {self.condition(depth + 1)}"
        rows = [name for name in ROWS if name in self.known]
        if roll < 0.35 and rows:
            row = self.random.choice(rows)
            there = f"{row} is not None and {row}.n is not None and {row}.n > {self.random.randint(0, 5)}"
            gone = f"{row} is None or {row}.id == {self.integer(2)}"
            return self.random.choice((row, f"{row} is None", f"({there})", f"({gone})", f"{row} is not None"))
        if roll > 0.97 and depth == 0:
            return self.random.choice(tuple(GIVEN))
        names = [name for name in INTEGERS if name in self.known]
        if roll < 0.45 and names:
            return f"{self.random.choice(names)} {self.random.choice(('is', 'is not', '==', '!='))} None"
        if roll < 0.55:
            return f"{self.text()} {self.random.choice(('==', '!='))} {self.text()}"
        if roll < 0.65:
            word = self.random.choice(("in", "not in"))
            return f"{self.integer(1)} {word} ({self.integer(2)}, {self.random.choice(('None', '1', '2'))})"
        comparison = self.random.choice(("==", "!=", "<", "<=", ">", ">="))
        last = f" < {self.integer(2)}" if self.random.random() < 0.15 else ""
        return f"{self.integer(1)} {comparison} {self.integer(1)}{last}"
