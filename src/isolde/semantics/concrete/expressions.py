"""Expressions to Python text: names are resolved, types found, each operation written by the dialect's rules."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, assert_never

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.bindings import Binding
from isolde.semantics.concrete.called import any_true, checked, first, first_ordered, in_python, python_result, single
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.static import BIGINT, BOOLEAN, NULL, Code, Constness, Sort, Static
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Aggregate,
    Between,
    Binary,
    BinaryOperation,
    Call,
    Case,
    Cast,
    Exists,
    Expression,
    Function,
    InList,
    InQuery,
    Is,
    Literal,
    Name,
    Parameter,
    ScalarQuery,
    Truth,
    Unary,
    UnaryOperation,
)

if TYPE_CHECKING:
    from isolde.semantics.concrete.compiler import Compiler

LOGIC = frozenset({Binary.AND, Binary.OR, Binary.XOR})
COMPARING = frozenset(
    {
        Binary.EQUAL,
        Binary.NOT_EQUAL,
        Binary.LESS,
        Binary.LESS_EQUAL,
        Binary.GREATER,
        Binary.GREATER_EQUAL,
        Binary.SAME,
    }
)
OPERATIONS = (BinaryOperation, UnaryOperation, Between, Call, Case, Cast, InList)

PYTHON: dict[Binary | Function, Callable[..., object]] = {
    Binary.SAME: operator.eq,
    Binary.LESS: operator.lt,
    Binary.LESS_EQUAL: operator.le,
    Binary.GREATER: operator.gt,
    Binary.GREATER_EQUAL: operator.ge,
    Function.ABS: abs,
    Function.GREATEST: max,
    Function.LEAST: min,
}
"""What a strict procedure compares by; it has no other comparisons and functions."""


@dataclass(slots=True)
class Frame:
    """One generated function: what is bound in it, and what it needs from those around it.

    ``repeated``: its body may run several times while tables change, so that a query in it is not remembered. ``strict``: null
    operands are errors, and integers stay integers.
    """

    compiler: Compiler
    parent: Frame | None = None
    bindings: list[Binding] = field(default_factory=list)
    variables: dict[str, Static] = field(default_factory=dict)
    free: dict[str, bool] = field(default_factory=dict)
    memos: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Memos of queries that were run ahead, and may have failed."""
    repeated: bool = False
    strict: bool = False
    aggregated: Callable[[Aggregate], Code] | None = None

    def resolve(self, name: Name) -> Code:
        crossed: list[Frame] = []
        frame: Frame | None = self
        while frame is not None:
            found = [
                binding
                for binding in frame.bindings
                if (name.table is None or binding.name == name.table) and name.name in binding.columns
            ]
            if len(found) > 1:
                raise ExecutionError("name", f"column {name.name} is ambiguous", str(name.place or ""))
            if found:
                for inner in crossed:
                    inner.free[found[0].variable] = True
                return found[0].code(name.name)
            # In PostgreSQL an inner table hides an outer one of its name; in the others only columns hide columns.
            hides = self.compiler.dialect is Dialect.POSTGRESQL and name.table is not None
            if hides and any(binding.name == name.table for binding in frame.bindings):
                break
            if frame.variables and (code := self._variable(frame, name, crossed)) is not None:
                return code
            crossed.append(frame)
            frame = frame.parent
        shown = f"{name.table}.{name.name}" if name.table else name.name
        raise ExecutionError("name", f"there is no column or variable {shown}", str(name.place or ""))

    def _variable(self, frame: Frame, name: Name, crossed: list[Frame]) -> Code | None:
        row = name.table or name.name
        type_ = frame.variables.get(row)
        if type_ is None:
            return None
        held = self.compiler.namespace.variable(row)
        for inner in crossed:
            inner.free.setdefault(held, False)
        if name.table is None:
            return Code(held, type_)
        if type_.sort is Sort.NULL:
            # A row that no step has given columns to yet.
            return Code("None", type_)
        if type_.sort is not Sort.ROW:
            return None
        names = [column for column, _ in type_.columns]
        if name.name not in names:
            raise ExecutionError("name", f"row {row} has no column {name.name}", str(name.place or ""))
        place = names.index(name.name)
        # A variable that no row was found for is null, and so are its columns.
        return Code(f"(None if {held} is None else {held}[{place}])", type_.columns[place][1])

    def parameter(self, name: str) -> Code:
        crossed: list[Frame] = []
        frame: Frame | None = self
        while frame is not None:
            if name in frame.variables:
                held = self.compiler.namespace.variable(name)
                for inner in crossed:
                    inner.free.setdefault(held, False)
                return Code(held, frame.variables[name])
            crossed.append(frame)
            frame = frame.parent
        raise ExecutionError("name", f"there is no value for parameter :{name}")

    # Expressions

    def compile(self, expression: Expression) -> Code:
        code = self._compile(expression)
        if isinstance(expression, OPERATIONS) and (known := self._planned(expression)) is not None:
            return Code(repr(known.value), code.type, known, solid=known.value is not None)
        return code

    def _planned(self, expression: Expression) -> Constness | None:
        """The null or truth value that PostgreSQL puts in the place of an operation when it plans, and never computes it."""
        if self.compiler.dialect is not Dialect.POSTGRESQL or self.strict:
            return None
        from isolde.semantics.concrete.doubts import may_fail
        from isolde.semantics.concrete.folding import constant_of

        return constant_of(expression, self) if may_fail(expression, self.compiler.dialect) else None

    def _compile(self, expression: Expression) -> Code:
        rules = self.compiler.rules
        match expression:
            case Literal():
                return rules.literal(expression.value)
            case Name():
                return self.resolve(expression)
            case Parameter():
                return self.parameter(expression.name)
            case UnaryOperation():
                return self._unary(expression)
            case BinaryOperation():
                return self._binary(expression)
            case Is():
                return self._is(expression)
            case Between():
                return self._between(expression)
            case InList():
                return self._in_list(expression)
            case InQuery():
                return self._in_query(expression)
            case Exists():
                query = self.compiler.query(expression.query, self, exists=True)
                text = self._remembered(query.call, query.correlated)
                if expression.negated:
                    return Code(f"(not {text})", BOOLEAN, solid=True)
                return Code(text, rules.existing, solid=True)
            case ScalarQuery():
                return self._scalar(expression)
            case Case():
                return self._case(expression)
            case Call():
                arguments = [self.compile(argument) for argument in expression.arguments]
                if self.strict and expression.function in PYTHON:
                    return self._in_python(PYTHON[expression.function], arguments)
                return rules.call(expression.function, arguments)
            case Cast():
                return rules.cast(self.compile(expression.operand), expression.type)
            case Aggregate():
                if self.aggregated is None:
                    raise ExecutionError("type", f"{expression.aggregation.value} is not allowed here")
                return self.aggregated(expression)
            case _:
                assert_never(expression)

    def condition(self, expression: Expression, what: str = "WHERE") -> str:
        """Python text that is true exactly where the condition is."""
        if isinstance(expression, BinaryOperation) and expression.operator in (Binary.AND, Binary.OR):
            left = self.condition(expression.left, expression.operator.value.upper())
            right = self.condition(expression.right, expression.operator.value.upper())
            if (known := self._planned(expression)) is not None:
                return str(known.value is True)
            return f"({left} {expression.operator.value} {right})"
        return self.compiler.rules.truth(self.compile(expression), what).text

    def _unary(self, node: UnaryOperation) -> Code:
        operand = self.compile(node.operand)
        if node.operator is Unary.NEGATE:
            return self._checked([operand], lambda codes: self._negated(node, codes[0]))
        return self.compiler.rules.unary(node.operator, operand)

    def _negated(self, node: UnaryOperation, operand: Code) -> Code:
        folding = self.compiler.dialect is Dialect.MYSQL and not self.strict
        if folding and operand.type.sort is Sort.INTEGER and not _written(node.operand):
            return self._mysql_negated(node, operand)
        return self.compiler.rules.unary(node.operator, operand)

    def _in_python(self, function: Callable[..., object], operands: list[Code], type_: Static | None = None) -> Code:
        """What Python makes of the operands: of this type, or of theirs."""
        if type_ is None:
            operands, type_ = self.compiler.rules.common(self._typed(operands), "a function")
        name, texts = self.compiler.namespace.ref(function), [operand.text for operand in operands]
        return Code(self.compiler.namespace.call(in_python, name, *texts), type_, solid=True)

    def _typed(self, operands: list[Code]) -> list[Code]:
        """A null has no type, and a dialect may not know which operator it is for; to Python it is an error anyway."""
        return [operand.typed(BIGINT) if operand.type.sort is Sort.NULL else operand for operand in operands]

    def _checked(self, operands: list[Code], operation: Callable[[list[Code]], Code]) -> Code:
        """The result of an operation; in a strict procedure, an error where Python has one."""
        if not self.strict:
            return operation(operands)
        typed = self._typed(operands)
        named = [self._named(operand) for operand in typed]
        result = operation([again for _, again in named])
        text = self.compiler.namespace.call(python_result, *(bound for bound, _ in named), result.text)
        integers = all(operand.type.sort is Sort.INTEGER for operand in typed)
        return Code(text, BIGINT if integers and result.type.sort is Sort.DECIMAL else result.type, solid=True)

    def _mysql_negated(self, node: UnaryOperation, operand: Code) -> Code:
        """MariaDB makes a decimal of the negative of a negative constant, because the least integer has no opposite."""
        from isolde.semantics.concrete.sources import parts

        result = self.compiler.rules.unary(node.operator, operand)
        if any(isinstance(part, ScalarQuery) and part.query.source is None for part in parts(node.operand)):
            raise outside(
                "a minus before a query without FROM in MySQL", "write what it selects: a constant may become one"
            )
        if any(
            isinstance(part, Name | Parameter | Aggregate | Exists | InQuery | ScalarQuery)
            for part in parts(node.operand)
        ):
            return result
        try:
            value = eval(operand.text, dict(self.compiler.namespace.names))
        except (ExecutionError, OutsideFragment):
            return result
        if value is None or value >= 0:
            return result
        return self.compiler.rules.literal(Decimal(-value))

    def _binary(self, node: BinaryOperation) -> Code:
        rules = self.compiler.rules
        left, right = self.compile(node.left), self.compile(node.right)
        if node.operator in LOGIC:
            return rules.logic(node.operator, left, right)
        if node.operator in COMPARING:
            if self.strict:
                return self._in_python(PYTHON[node.operator], [left, right], BOOLEAN)
            return rules.compared(node.operator, left, right)
        return self._checked([left, right], lambda codes: rules.binary(node.operator, *codes))

    def _is(self, node: Is) -> Code:
        operand = self.compile(node.operand)
        if node.truth is Truth.NULL:
            test = "is not None" if node.negated else "is None"
            if operand.constant is not None:
                answer = (operand.constant.value is None) is not node.negated
                return Code(str(answer), BOOLEAN, solid=True)
            if operand.type.sort is Sort.ROW and not self.strict and self.compiler.dialect is Dialect.POSTGRESQL:
                from isolde.semantics.concrete.records import is_not_null, is_null

                helper = self.compiler.namespace.ref(is_not_null if node.negated else is_null)
                return Code(f"{helper}({operand.text})", BOOLEAN, solid=True)
            return Code(f"({operand.text} {test})", BOOLEAN, solid=True)
        wanted = node.truth is Truth.TRUE
        text = f"({self.compiler.rules.truth(operand, 'IS').text} is {wanted})"
        return Code(f"(not {text})" if node.negated else text, BOOLEAN, solid=True)

    def _named(self, code: Code) -> tuple[str, Code]:
        """A name for a value that is used several times, and the text that binds it."""
        if code.constant is not None or code.text.isidentifier():
            return code.text, code
        name = self.compiler.namespace.fresh("t")
        return f"({name} := {code.text})", Code(name, code.type, column=code.column, solid=code.solid)

    def _between(self, node: Between) -> Code:
        rules = self.compiler.rules
        operand, low, high = (self.compile(part) for part in (node.operand, node.low, node.high))
        if self.compiler.dialect is Dialect.MYSQL:
            sorts = {rules.value(code).type.sort for code in (operand, low, high)} - {Sort.NULL}
            if Sort.TEXT in sorts and len(sorts) > 1:
                raise outside("BETWEEN of texts and numbers", "compare with >= and <=")
        bind, again = self._named(operand)
        bounds: list[str] = []
        if self.compiler.dialect is Dialect.MYSQL:
            # It computes both bounds before it compares.
            (first_bound, low), (second_bound, high) = self._named(low), self._named(high)
            bounds = [text for text, code in ((first_bound, low), (second_bound, high)) if text != code.text]
        first = rules.matching(Binary.GREATER_EQUAL, again, low)
        second = rules.matching(Binary.LESS_EQUAL, again, high)
        result = rules.logic(Binary.AND, first, second)
        if node.negated:
            result = rules.negation(result)
        if bounds:
            text = f"None if {again.text} is None else ({', '.join(bounds)}, {result.text})[-1]"
            return Code(f"({bind}, {text})[1]", BOOLEAN, solid=result.solid)
        return result if bind == again.text else Code(f"({bind}, {result.text})[1]", BOOLEAN, solid=result.solid)

    def _in_list(self, node: InList) -> Code:
        rules = self.compiler.rules
        operand = self.compile(node.operand)
        items = [self.compile(item) for item in node.items]
        if self.compiler.dialect is Dialect.POSTGRESQL:
            items = self._in_array(node, operand, items)
        elif self.compiler.dialect is Dialect.SQLITE:
            # The items have no affinity here, even columns: only the left side's counts.
            items = [Code(item.text, Static(item.type.sort), item.constant, solid=item.solid) for item in items]
        bind, again = self._named(operand)
        result = Code("False", BOOLEAN, solid=True)
        for position, item in enumerate(items):
            equal = (rules.matching if len(items) > 1 else rules.compared)(Binary.EQUAL, again, item)
            result = equal if position == 0 else rules.logic(Binary.OR, result, equal)
        if node.negated:
            result = rules.negation(result)
        return result if bind == again.text else Code(f"({bind}, {result.text})[1]", BOOLEAN, solid=result.solid)

    def _in_array(self, node: InList, operand: Code, items: list[Code]) -> list[Code]:
        """PostgreSQL makes an array of items without columns if they have a type in common; others are compared one by one."""
        from isolde.semantics.concrete.sources import parts

        plain = [
            place
            for place, item in enumerate(node.items)
            if not any(isinstance(part, Name | ScalarQuery) for part in parts(item))
        ]
        if len(plain) > 1:
            try:
                _, type_ = self.compiler.rules.common([operand, *[items[place] for place in plain]], "IN")
                typed = [Code("None", type_)]
            except ExecutionError as error:
                if error.kind != "type":
                    raise
                return items
            for place in plain:
                converted, _ = self.compiler.rules.common([items[place], *typed], "IN")
                items[place] = converted[0]
        return items

    def _in_query(self, node: InQuery) -> Code:
        from isolde.semantics.concrete.asked import member_query
        from isolde.semantics.concrete.cells import Failure
        from isolde.semantics.concrete.doubts import any_sure

        rules = self.compiler.rules
        operand = self.compile(node.operand)
        if self.compiler.dialect is Dialect.MYSQL and (node.query.limit or node.query.offset):
            raise outside(
                "IN with a query that has a LIMIT in MySQL", "the server does not take it; join with the query"
            )
        query = self.compiler.query(node.query, self, filtered=True, member=True)
        if (asked := member_query(node.query, self.compiler.dialect)) != node.query:
            query = self.compiler.query(asked, self, filtered=True, member=True)
        if len(query.columns) != 1:
            raise ExecutionError("type", f"the query of IN has {len(query.columns)} columns; expected one")
        item = self.compiler.namespace.fresh("t")
        bind, again = self._named(operand)
        equal = rules.compared(Binary.EQUAL, again, Code(f"{item}[0]", query.columns[0][1]))
        helper, answer = self.compiler.namespace.ref(any_true), equal.text
        if query.late:
            helper = self.compiler.namespace.ref(any_sure)
            answer = f"({item}[0] if type({item}[0]) is {self.compiler.namespace.ref(Failure)} else {answer})"
        rows = self.compiler.namespace.fresh("t")
        call = self._remembered(query.call, query.correlated)
        # The rows are named first: Python allows no := where a comprehension takes its items from.
        text = f"{helper}([{answer} for {item} in {rows}])"
        if self.compiler.dialect is Dialect.POSTGRESQL and bind != again.text:
            # The operand is not computed where there are no rows to compare it with.
            text = f"(({rows} := {call}), ({bind}, {text})[1] if {rows} else False)[1]"
        else:
            text = f"({bind}, ({rows} := {call}), {text})[2]"
        return rules.negation(Code(text, BOOLEAN)) if node.negated else Code(text, BOOLEAN)

    def _scalar(self, node: ScalarQuery) -> Code:
        from isolde.semantics.concrete.cells import read_cell
        from isolde.semantics.concrete.doubts import ahead

        query = self.compiler.query(node.query, self, kept=True)
        if len(query.columns) != 1:
            raise ExecutionError("type", f"a scalar query has {len(query.columns)} columns; expected one")
        helper = first if self.compiler.dialect is Dialect.SQLITE and not node.query.order_by else single
        if self.compiler.dialect is Dialect.SQLITE and node.query.order_by:
            helper = first_ordered
        if self.compiler.dialect is Dialect.MYSQL and not query.correlated and not self.repeated:
            # MariaDB runs it before it looks at rows, unless it sees that there are none.
            name = self.compiler.namespace.fresh("m")
            call = f"{self.compiler.namespace.ref(checked)}({query.call})"
            self.memos.append(f"{name} = {self.compiler.namespace.ref(ahead)}(lambda: {call})")
            self.unread.append(name)
            text = self.compiler.namespace.call(helper, self.compiler.namespace.call(read_cell, name))
        else:
            text = f"{self.compiler.namespace.ref(helper)}({self._remembered(query.call, query.correlated)})"
        type_ = query.columns[0][1]
        if type_.sort is Sort.UNKNOWN:
            type_ = Static(Sort.TEXT)
        return Code(text, type_)

    def _remembered(self, call: str, correlated: bool) -> str:
        """A query that depends on no row is run once a statement, and only if it is needed."""
        if correlated or self.repeated:
            return call
        name = self.compiler.namespace.fresh("m")
        self.memos.append(f"{name} = None")
        return f"({name} if {name} is not None else ({name} := {call}))"

    def _case(self, node: Case) -> Code:
        rules = self.compiler.rules
        bind = ""
        again: Code | None = None
        if node.operand is not None:
            operand = self.compile(node.operand)
            if operand.type.sort in (Sort.UNKNOWN, Sort.NULL) and self.compiler.dialect is Dialect.POSTGRESQL:
                operand = operand.typed(Static(Sort.TEXT))
            bind, again = self._named(operand)
        tests: list[str] = []
        results: list[Code] = []
        for when in node.whens:
            if again is None:
                tests.append(self.condition(when.condition, "CASE"))
            else:
                tests.append(rules.matching(Binary.EQUAL, again, self.compile(when.condition)).text)
            results.append(self.compile(when.result))
        if node.otherwise is not None:
            results.append(self.compile(node.otherwise))
        texts = {
            result.type.sort in (Sort.TEXT, Sort.UNKNOWN) for result in results if result.type.sort is not Sort.NULL
        }
        if self.strict and len(texts) > 1:
            raise outside("a choice between texts and other values", "use an if for each")
        if self.strict and rules.all_null(results):
            type_ = NULL
        else:
            results, type_ = rules.common(results, "CASE")
        if node.otherwise is None:
            results.append(rules.null())
        text = results[-1].text
        for test, result in zip(reversed(tests), reversed(results[:-1]), strict=True):
            text = f"({result.text} if {test} else {text})"
        if again is not None and bind != again.text:
            text = f"({bind}, {text})[1]"
        return Code(text, type_, solid=all(result.solid for result in results))


def _written(node: Expression) -> bool:
    """A number with its signs, which is one constant to a parser."""
    while isinstance(node, UnaryOperation) and node.operator in (Unary.NEGATE, Unary.PLUS):
        node = node.operand
    return isinstance(node, Literal)
