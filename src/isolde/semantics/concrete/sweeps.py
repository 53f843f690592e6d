"""Code for the conditions of one query that may fail: they are tested last, and then on all rows that some plan may look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isolde.errors import ExecutionError
from isolde.semantics.concrete import doubts
from isolde.semantics.concrete.bindings import Binding
from isolde.semantics.concrete.cells import FAILURES, Failure
from isolde.semantics.concrete.compiler import Writer
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.folding import constant_of
from isolde.semantics.concrete.sources import parts
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Expression, InQuery, Literal, Name, Parameter
from isolde.tx.queries import Select

if TYPE_CHECKING:
    from isolde.semantics.concrete.sources import Loops

_ROW = re.compile(r"\br\d+\b")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A condition that may fail, and those that are tested together with it and cannot."""

    condition: Expression
    beside: list[Expression]


class Sweeps:
    """``held``: a failure that is certain does not end the query yet, because a plan may stop before it; see ``doubts.weigh``."""

    def __init__(self, frame: Frame, writer: Writer, held: bool = False) -> None:
        self.frame = frame
        self.writer = writer
        self.held = held
        self.all: list[Sweep] = []
        self.gated = ""
        self.never = False

    def may_fail(self, condition: Expression | Select) -> bool:
        compiler = self.frame.compiler
        if doubts.may_fail(condition, compiler.dialect):
            return True
        if compiler.rules.changing and compiler.dialect is Dialect.MYSQL and not isinstance(condition, Select):
            # A text is a number there, or an error.
            return "strict_text" in self.frame.condition(condition)
        late = {(binding.name, column) for binding in self.frame.bindings for column in binding.late}
        return bool(late) and any(
            isinstance(part, Name) and any(part.name == column and part.table in (None, name) for name, column in late)
            for part in parts(condition)
        )

    def parted(self, condition: Expression | None) -> list[Expression]:
        return doubts.split(condition, self.frame.compiler.dialect)

    # In the loops

    def settle(self, conditions: list[Expression], beside: list[Expression], outer: bool = False) -> None:
        """Opens a block for the rows for which all of them hold. ``outer``: of a LEFT JOIN, which may be left out altogether."""
        self.all.extend(Sweep(condition, beside) for condition in conditions)
        # A condition that no row of nulls can pass makes an inner join of a LEFT JOIN, and is not asked of such a row.
        outer = outer or any(binding.optional for condition in conditions for binding in self._bindings(condition))
        if len(conditions) == 1 and not self.held and not outer:
            self.writer.open(f"if {self.frame.condition(conditions[0])}:")
            return
        held = "doubts" if self.held else "None"
        self.writer.open(f"if {self._answered(doubts.settled_outside if outer else doubts.settled, conditions, held)}:")

    def gate(self, pool: list[Expression], others: Sequence[Expression] = (), failing: bool = False) -> None:
        """PostgreSQL tests conditions without columns once, before any row; they are taken out of the pool.

        If one of them, or of the ``others``, is never true when it is planned, nothing is computed at all. ``failing``: so
        may what is shown.
        """
        if self.frame.compiler.dialect is not Dialect.POSTGRESQL:
            return
        if not failing and not any(map(self.may_fail, (*pool, *others))):
            return
        constants = [constant_of(condition, self.frame) for condition in (*pool, *others)]
        self.never = any(constant is not None and constant.value is not True for constant in constants)
        if self.never:
            self.writer.open("if False:")
            return
        variables = {binding.variable for binding in self.frame.bindings}
        ahead = [condition for condition in pool if variables.isdisjoint(_ROW.findall(self.frame.condition(condition)))]
        if any(map(self.may_fail, ahead)):
            self.gated = self.frame.compiler.namespace.fresh("t")
            pool[:] = [condition for condition in pool if condition not in ahead]
            held = "doubts" if self.held else "None"
            self.writer.line(f"{self.gated} = {self._answered(doubts.settled_at_once, ahead, held)}")
            self.writer.open(f"if {self.gated}:")

    def settle_groups(self, conditions: list[Expression]) -> None:
        """Conditions of HAVING: each may be asked of each group."""
        self.writer.open(f"if {self._answered(doubts.settled_at_once, conditions, 'None')}:")

    def _answered(self, helper: object, conditions: list[Expression], held: str) -> str:
        namespace = self.frame.compiler.namespace
        answers = []
        for condition in conditions:
            answer = namespace.fresh("t")
            text = self.frame.condition(condition)
            self.writer.open("try:")
            self.writer.line(f"{answer} = {text}")
            self.writer.indent -= 1
            self.writer.open(f"except {namespace.ref(FAILURES)} as error:")
            self.writer.line(f"{answer} = {namespace.ref(Failure)}(error)")
            self.writer.indent -= 1
            answers.append(answer)
        return f"{namespace.ref(helper)}(({', '.join(answers)},), {held})"

    # After the loops

    def write(self, loops: Loops) -> None:
        """What was not met by now is met by some plans only."""
        outside = self.writer.indent
        if self.gated and self.all:
            self.writer.open(f"if {self.gated}:")
        start = self.writer.indent
        for sweep in self.all if not self.never else ():
            self._write(sweep, loops)
            self.writer.indent = start
        self.writer.indent = outside

    def _write(self, sweep: Sweep, loops: Loops) -> None:
        namespace = self.frame.compiler.namespace
        ahead = doubts.asks_ahead(sweep.condition)
        bindings = self._bindings(sweep.condition)
        before = [] if ahead else self._before(sweep, bindings)
        hidden = [binding.optional for binding in bindings]
        for binding in bindings:
            binding.optional = binding.optional or ahead
        loops.bound = {binding.variable for binding in self.frame.bindings if binding not in bindings}
        for binding, optional in zip(bindings, hidden, strict=True):
            self.writer.open(f"for {binding.variable} in {self._rows(binding, before, loops, ahead, optional)}:")
            loops.bound.add(binding.variable)
            loops.test([condition for condition in before if loops.ready(condition)])
        asked = [self.frame.condition(sweep.condition)]
        if isinstance(sweep.condition, InQuery) and not sweep.condition.negated:
            # A join may compute it even if there is nothing to compare it with.
            asked.append(self.frame.compile(sweep.condition.operand).text)
        self.writer.open("try:")
        for text in asked:
            self.writer.line(text)
        self.writer.indent -= 1
        self.writer.open(f"except {namespace.ref(ExecutionError)} as error:")
        self.writer.line(f"raise {namespace.ref(doubts.plan_decides)}(error) from None")
        for binding, optional in zip(bindings, hidden, strict=True):
            binding.optional = optional

    def _bindings(self, expression: Expression) -> list[Binding]:
        used = set(_ROW.findall(self.frame.compile(expression).text))
        return [binding for binding in self.frame.bindings if binding.variable in used]

    def _rows(self, binding: Binding, before: list[Expression], loops: Loops, ahead: bool, optional: bool) -> str:
        if binding.table is None:
            rows = loops.without_conditions(binding.variable)
        else:
            rows = loops.candidates(binding, [] if optional else before)
        nulls = f"(None,) * {len(binding.columns)}"
        if optional:
            return f"[*{rows}, {nulls}]"
        return f"list({rows}) or [{nulls}]" if ahead else rows

    def _before(self, sweep: Sweep, bindings: list[Binding]) -> list[Expression]:
        """The conditions of the same rows that every plan tests before this one."""
        match self.frame.compiler.dialect:
            case Dialect.POSTGRESQL if not doubts.cheap(sweep.condition):
                own = {binding.variable for binding in bindings} - self._indexed(sweep.condition)
                return [
                    condition
                    for condition in sweep.beside
                    if doubts.comes_first(condition, self.frame)
                    and own.issuperset(_ROW.findall(self.frame.condition(condition)))
                ]
            case Dialect.MYSQL:
                return [condition for binding in bindings for condition in self._key(binding, sweep.beside)]
            case _:
                return []

    def _indexed(self, condition: Expression) -> set[str]:
        """Rows that may be looked up by the condition: the key is computed before anything is tested of them."""
        if not isinstance(condition, BinaryOperation):
            return set()
        found: set[str] = set()
        for column, key in ((condition.left, condition.right), (condition.right, condition.left)):
            rows = {binding.variable for binding in self._bindings(column)} if isinstance(column, Name) else set()
            found |= rows - {binding.variable for binding in self._bindings(key)}
        return found

    def _key(self, binding: Binding, beside: list[Expression]) -> list[Expression]:
        """Conditions that give one row by a key: MariaDB reads such a row before it plans the rest."""
        found: dict[int, Expression] = {}
        for condition in beside:
            match condition:
                case BinaryOperation(Binary.EQUAL, Name() as column, Literal() | Parameter()):
                    if self._bindings(column) == [binding]:
                        found[binding.columns[column.name][0]] = condition
                case _:
                    pass
        uniques = binding.table.uniques if binding.table is not None else ()
        key = next((unique for unique in uniques if set(unique) <= set(found)), ())
        return [found[place] for place in key]
