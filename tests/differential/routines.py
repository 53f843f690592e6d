"""Random stored procedures as people write them: text in PL/pgSQL, and in MariaDB's language.

The text is all there is: the front end reads it for the store, the server is given the very same. What a construct means is
nowhere said here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .generation_expressions import BOOL, DEC, INT, TEXT
from .routine_steps import POOL, Around, Lines, Routine, Steps, Variable


class Routines(Steps):
    """Whole routines."""

    # Routines

    def pair(self) -> tuple[Routine, Routine]:
        """A routine, and a smaller one that it may call; that one comes first."""
        self.called = None
        called = self.routine("q", 1, 3)
        self.called = called
        return self.routine("p", 3, 4), called

    def routine(self, name: str, depth: int, count: int) -> Routine:
        function = self.chance(0.4)
        kinds = (INT, self.random.choice((INT, DEC, TEXT, BOOL)))
        inputs = [Variable(f"p{place + 1}", kind, settable=True) for place, kind in enumerate(kinds)]
        outputs = [] if function else [Variable(f"o{place + 1}", kind) for place, kind in enumerate((INT, TEXT))]
        both = self.chance(0.3) and not function
        if both:
            outputs[0] = replace(outputs[0], name="io")
        self.scopes = [[*inputs, *outputs]]
        self.counters, self.labels = [], 0
        self.handled = not self.pg and self.chance(0.6 if self.called else 0.85)
        self.found = self.pg and self.chance(0.5)
        label = "body" if self.chance(0.3) else None
        body = self.block_text(Around(function=function), depth, count, label, self.last(function), outermost=True)
        types = tuple(self.type(variable.kind) for variable in inputs)
        shown = [f"{variable.name} {type_}" for variable, type_ in zip(inputs, types, strict=True)]
        for variable, type_ in zip(outputs, ("BIGINT", "VARCHAR(40)"), strict=False):
            mode = "INOUT" if variable.name == "io" else "OUT"
            shown.append(f"{mode} {variable.name} {type_}")
        returned = self.random.choice((INT, DEC, TEXT)) if function else ""
        returns = f" RETURNS {self.type(returned)}" if function else ""
        what = "FUNCTION" if function else "PROCEDURE"
        head = f"CREATE {what} {name}({', '.join(shown)}){returns}"
        text = f"{head} AS $$\n{body}\n$$ LANGUAGE plpgsql" if self.pg else f"{head}\n{body}"
        given = (*kinds, INT) if both else kinds
        return Routine(name, text, function, given, tuple(variable.kind for variable in outputs), types)

    def last(self, function: bool) -> Callable[[], Lines]:
        def lines() -> Lines:
            if not function or (self.pg and self.chance(0.05)):
                return []
            if self.called is not None and self.called.function and self.chance(0.3):
                return [f"RETURN {self.call()};"]
            return [f"RETURN {self.value(self.random.choice((INT, TEXT, DEC if self.pg else INT)))};"]

        return lines

    # Blocks

    def block_text(
        self,
        around: Around,
        depth: int,
        count: int,
        label: str | None,
        last: Callable[[], Lines] = list,
        outermost: bool = False,
    ) -> str:
        around = around.inside(label, False) if label is not None else around
        outer_handled = self.handled
        self.scopes.append([])
        declarations = self.declarations(outermost)
        body = [*self.steps_text(around, depth, count), *last()]
        if outermost:
            declarations[:0] = [f"DECLARE {name} INT DEFAULT 0;" for name in self.counters]
        self.scopes.pop()
        self.handled = outer_handled
        opening = (f"<<{label}>>" if self.pg else f"{label}:") if label else ""
        closing = label if label and self.chance(0.5) else ""
        if self.pg:
            names = "\n".join(line.removeprefix("DECLARE ") for line in declarations)
            section = f"DECLARE\n{names}\n" if declarations else ""
            end = f"END {closing};" if not outermost or self.chance(0.5) else f"END {closing}"
            return f"{opening}\n{section}BEGIN\n" + "\n".join(body or ["NULL;"]) + f"\n{end}"
        return (
            f"{opening} BEGIN\n" + "\n".join([*declarations, *body]) + f"\nEND {closing}" + ("" if outermost else ";")
        )

    def declarations(self, outermost: bool) -> Lines:
        lines: Lines = []
        names = list(POOL) if outermost else self.random.sample(POOL, self.random.choice((0, 1, 1, 2)))
        if self.chance(0.05 if self.pg else 0.1):
            # A name that some tables have a column of.
            names.append((self.random.choice(("k", "a", "n")), INT))
        for name, kind in names:
            lines.append(self.declaration(name, kind))
        if not outermost:
            if not self.pg and self.chance(0.15):
                lines.append("DECLARE done, missed INT DEFAULT 0;")
                self.scopes[-1] += [Variable("done", INT), Variable("missed", INT)]
                lines.append("DECLARE CONTINUE HANDLER FOR NOT FOUND SET missed = missed + 1, done = 1;")
                self.handled = True
            return lines
        # The cursor's query sees what is declared before it.
        lines.append(f"DECLARE c1 CURSOR FOR {self.rows_text(('k', 'r'))};")
        if self.pg:
            lines += ["DECLARE r1 RECORD;", "DECLARE r3 RECORD;"]
            lines.append(f"DECLARE r2 {self.random.choice(('RECORD', 't0%ROWTYPE'))};")
            return lines
        if self.handled:
            action = self.random.choice(("SET done = TRUE", "BEGIN SET done = 1; END", "SET done = done + 1"))
            lines.insert(0, "DECLARE done INT DEFAULT 0;")
            self.scopes[-1].append(Variable("done", INT))
            condition = self.random.choice(("NOT FOUND", "SQLSTATE '02000'"))
            lines.append(f"DECLARE CONTINUE HANDLER FOR {condition} {action};")
        return lines

    def declaration(self, name: str, kind: str) -> str:
        default = ""
        constant = ""
        not_null = ""
        if self.chance(0.7):
            default = f" DEFAULT {self.value(kind, 1)}"
            if self.pg:
                default = default.replace("DEFAULT", self.random.choice(("DEFAULT", ":=", "=")), 1)
                constant = "CONSTANT " if self.chance(0.05) else ""
                if self.chance(0.03):
                    not_null = " NOT NULL"
        type_ = self.type(kind)
        if kind == INT and self.chance(0.1):
            type_ = "t0.a%TYPE" if self.pg else "TYPE OF t0.a"
        self.scopes[-1].append(Variable(name, kind, settable=not constant, type=type_))
        return f"DECLARE {name} {constant}{type_}{not_null}{default};"

    # Steps

    def steps_text(self, around: Around, depth: int, count: int) -> Lines:
        lines: Lines = []
        for _ in range(self.random.randrange(1, count + 1)):
            lines += self.step_text(around, depth)
        return lines

    def step_text(self, around: Around, depth: int) -> Lines:
        roll = self.random.random()
        if depth > 0 and roll < 0.45:
            return self.compound(around, depth)
        if roll < 0.6:
            return self.assignment()
        if roll < 0.75:
            return self.fetch_text()
        if roll < 0.88:
            return self.change_text()
        if roll < 0.94:
            return self.call_text()
        return self.ending(around)

    # Steps that hold others

    def compound(self, around: Around, depth: int) -> Lines:
        roll = self.random.random()
        if roll < 0.25:
            return self.if_text(around, depth)
        if roll < 0.35:
            return self.case_text(around, depth)
        if roll < 0.5:
            label = self.label() if self.chance(0.3) else None
            return [self.block_text(around, depth - 1, 3, label)]
        return self.loop_text(around, depth)

    def if_text(self, around: Around, depth: int) -> Lines:
        lines = [f"IF {self.test()} THEN", *self.inner(around, depth)]
        if self.chance(0.4):
            lines += [f"{self.random.choice(('ELSIF', 'ELSEIF')) if self.pg else 'ELSEIF'} {self.test()} THEN"]
            lines += self.inner(around, depth)
        if self.chance(0.5):
            lines += ["ELSE", *self.inner(around, depth)]
        return [*lines, "END IF;"]

    def inner(self, around: Around, depth: int) -> Lines:
        return self.steps_text(around, depth - 1, 2) or (["NULL;"] if self.pg else ["SET v1 = v1;"])

    def case_text(self, around: Around, depth: int) -> Lines:
        simple = self.chance(0.5)
        lines = [f"CASE {self.value(INT, 1)}" if simple else "CASE"]
        for _ in range(self.random.choice((1, 2, 3))):
            when = self.test()
            if simple:
                count = 2 if self.pg and self.chance(0.3) else 1
                when = ", ".join(self.value(INT, 0) for _ in range(count))
            lines += [f"WHEN {when} THEN", *self.inner(around, depth)]
        if self.chance(0.8):
            lines += ["ELSE", *self.inner(around, depth)]
        return [*lines, "END CASE;"]

    def loop_text(self, around: Around, depth: int) -> Lines:
        label = self.label()
        named = not self.pg or self.chance(0.6)
        inner = around.inside(label if named else "", True)
        opening = (f"<<{label}>>" if self.pg else f"{label}:") if named else ""
        closing = f" {label}" if named and self.chance(0.4) else ""
        self.scopes.append([])
        kinds = [self.while_text, self.plain_loop, self.rows_loop, self.range_loop, self.cursor_loop]
        if not self.pg:
            kinds.append(self.repeat_text)
        make = self.random.choice(kinds)
        before, body, after = make(inner, depth, label)
        self.scopes.pop()
        body[0] = f"{opening} {body[0]}".strip()
        body[-1] = body[-1].removesuffix(";") + f"{closing};"
        return [*before, *body, *after]

    def counting(self, name: str) -> str:
        return f"{name} := {name} + 1;" if self.pg else f"SET {name} = {name} + 1;"

    def while_text(self, around: Around, depth: int, label: str) -> tuple[Lines, Lines, Lines]:
        del label
        name = self.counter()
        test = f"{name} < 3" + (f" AND {self.test()}" if self.chance(0.3) else "")
        body = [self.counting(name), *self.steps_text(around, depth - 1, 3)]
        head, end = ("LOOP", "END LOOP;") if self.pg else ("DO", "END WHILE;")
        return [], [f"WHILE {test} {head}", *body, end], []

    def plain_loop(self, around: Around, depth: int, label: str) -> tuple[Lines, Lines, Lines]:
        name = self.counter()
        leave = f"EXIT WHEN {name} > 3;" if self.pg else f"IF {name} > 3 THEN LEAVE {label}; END IF;"
        body = [self.counting(name), leave, *self.steps_text(around, depth - 1, 3)]
        return [], ["LOOP", *body, "END LOOP;"], []

    def repeat_text(self, around: Around, depth: int, label: str) -> tuple[Lines, Lines, Lines]:
        name = self.counter()
        leave = f"IF {name} > 4 THEN LEAVE {label}; END IF;"
        body = [self.counting(name), leave, *self.steps_text(around, depth - 1, 3)]
        return [], ["REPEAT", *body, f"UNTIL {name} > 2 OR {self.test()} END REPEAT;"], []

    def range_loop(self, around: Around, depth: int, label: str) -> tuple[Lines, Lines, Lines]:
        del label
        # A name of its own, or one that it hides.
        name = self.random.choice(("i", "j", "v1"))
        first, last = self.random.choice((("1", "3"), ("2", "1"), ("1", "v1 - v1 + 2"), ("-1", "1")))
        reverse = self.chance(0.2)
        if reverse and self.pg:
            first, last = last, first
        by = " BY 2" if self.pg and self.chance(0.2) else ""
        self.scopes[-1].append(Variable(name, INT, self.pg))
        body = self.steps_text(around, depth - 1, 3) or ["NULL;"]
        head, end = ("LOOP", "END LOOP;") if self.pg else ("DO", "END FOR;")
        return [], [f"FOR {name} IN {'REVERSE ' if reverse else ''}{first}..{last}{by} {head}", *body, end], []

    def rows_loop(self, around: Around, depth: int, label: str) -> tuple[Lines, Lines, Lines]:
        del label
        columns = self.random.choice((("k", "r"), ("k",)))
        query = self.rows_text(columns)
        over = ""
        if not self.fetching and self.chance(0.2):
            columns, over = ("k", "r"), "c1"
            names = f"r{self.labels}"
            self.scopes[-1].append(Variable(names, "row", False, tuple((column, INT) for column in columns)))
        elif self.pg and self.chance(0.3) and (one := self.target(INT)) is not None:
            names, query = one.name, self.rows_text(("k",))
        else:
            held = {variable.name for variable in self.visible()}
            free = [name for name in ("r1", "r3") if name not in held] or ["r1"]
            names = self.random.choice(free) if self.pg else f"r{self.labels}"
            self.scopes[-1].append(Variable(names, "row", False, tuple((column, INT) for column in columns)))
        outer, self.fetching = self.fetching, self.fetching or bool(over)
        body = self.steps_text(around, depth - 1, 3) or ["NULL;"]
        self.fetching = outer
        if self.pg:
            return [], [f"FOR {names} IN {over or query} LOOP", *body, "END LOOP;"], []
        return [], [f"FOR {names} IN {over or f'({query})'} DO", *body, "END FOR;"], []

    def cursor_loop(self, around: Around, depth: int, label: str) -> tuple[Lines, Lines, Lines]:
        first, second = self.target(INT), self.target(INT)
        unusual = self.fetching or (not self.pg and not self.handled)
        if first is None or second is None or (unusual and self.chance(0.9)):
            return self.plain_loop(around, depth, label)
        fetch = f"FETCH {'FROM ' if self.chance(0.2) else ''}c1 INTO {first.name}, {second.name};"
        outer, self.fetching = self.fetching, True
        inner = self.steps_text(around, depth - 1, 2)
        self.fetching = outer
        name = self.counter()
        if self.pg:
            leave = ["EXIT WHEN NOT FOUND;"]
        elif self.handled:
            leave = [f"IF done THEN LEAVE {label}; END IF;"]
        else:
            leave = []
        bound = f"EXIT WHEN {name} > 6;" if self.pg else f"IF {name} > 6 THEN LEAVE {label}; END IF;"
        body = ["LOOP", self.counting(name), bound, fetch, *leave, *inner, "END LOOP;"]
        before = ["SET done = 0;"] if self.handled else []
        return [*before, "OPEN c1;"], body, ["CLOSE c1;"]
