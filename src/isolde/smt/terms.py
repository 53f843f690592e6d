"""Terms of integers and truth values. Constants are folded while terms are built, so that what is decided stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal

import z3

Term = Any
"""A term of Z3, which has no types of its own."""
Sort = Literal["integer", "boolean", "real"]

TRUE: Term = z3.BoolVal(True)
FALSE: Term = z3.BoolVal(False)
_SORTS: dict[str, Callable[[], Any]] = {"integer": z3.IntSort, "boolean": z3.BoolSort, "real": z3.RealSort}


def version() -> str:
    """Name and version of the solver."""
    return f"Z3 {z3.get_version_string()}"


def number(value: int) -> Term:
    return z3.IntVal(value)


def rational(text: str) -> Term:
    return z3.RealVal(text)


def truth(value: bool) -> Term:
    return TRUE if value else FALSE


def constant(name: str, sort: Sort = "integer") -> Term:
    return z3.Const(name, _SORTS[sort]())


def function(name: str, arity: int, sort: Sort) -> Callable[..., Term]:
    """A function of so many integers that nothing is known of; without arguments, one constant."""
    if arity == 0:
        alone = constant(name, sort)
        return lambda: alone
    made = z3.Function(name, *[z3.IntSort()] * arity, _SORTS[sort]())
    kind = z3.BoolRef if sort == "boolean" else z3.ArithRef

    def applied(*arguments: Term) -> Term:
        return kind(z3.Z3_mk_app(_CONTEXT.ref(), made.ast, arity, _array(arguments)), _CONTEXT)

    return applied


# Z3's own operators look at the sorts of all operands anew, which takes most of the time that it takes to build a formula.

_CONTEXT = z3.main_ctx()
# When the interpreter ends, things are taken down in any order: terms must not outlive what they are in.
_CONTEXT.owner = False
_TRUE, _FALSE = TRUE.ast.value, FALSE.ast.value


def _array(terms: Sequence[Term]) -> Any:
    return (z3.Ast * len(terms))(*[term.ast for term in terms])


def is_true(term: Term) -> bool:
    return bool(term.ast.value == _TRUE)


def is_false(term: Term) -> bool:
    return bool(term.ast.value == _FALSE)


def every(terms: Iterable[Term]) -> Term:
    kept = []
    for term in terms:
        if term.ast.value == _FALSE:
            return FALSE
        if term.ast.value != _TRUE:
            kept.append(term)
    if len(kept) < 2:
        return kept[0] if kept else TRUE
    return z3.BoolRef(z3.Z3_mk_and(_CONTEXT.ref(), len(kept), _array(kept)), _CONTEXT)


def both(*terms: Term) -> Term:
    return every(terms)


def some(terms: Iterable[Term]) -> Term:
    kept = []
    for term in terms:
        if term.ast.value == _TRUE:
            return TRUE
        if term.ast.value != _FALSE:
            kept.append(term)
    if len(kept) < 2:
        return kept[0] if kept else FALSE
    return z3.BoolRef(z3.Z3_mk_or(_CONTEXT.ref(), len(kept), _array(kept)), _CONTEXT)


def either(*terms: Term) -> Term:
    return some(terms)


def no(term: Term) -> Term:
    if term.ast.value == _TRUE:
        return FALSE
    if term.ast.value == _FALSE:
        return TRUE
    return z3.BoolRef(z3.Z3_mk_not(_CONTEXT.ref(), term.ast), _CONTEXT)


def implies(condition: Term, then: Term) -> Term:
    return some((no(condition), then))


def choose(condition: Term, yes: Term, otherwise: Term) -> Term:
    if is_true(condition) or yes.ast.value == otherwise.ast.value:
        return yes
    if is_false(condition):
        return otherwise
    try:
        made = z3.Z3_mk_ite(_CONTEXT.ref(), condition.ast, yes.ast, otherwise.ast)
    except z3.Z3Exception:
        # An integer and a rational number.
        return z3.If(condition, yes, otherwise)
    return (z3.BoolRef if isinstance(yes, z3.BoolRef) else z3.ArithRef)(made, _CONTEXT)


def equal(left: Term, right: Term) -> Term:
    if left.ast.value == right.ast.value:
        return TRUE
    if isinstance(left, z3.BoolRef):
        for one, other in ((left, right), (right, left)):
            if is_true(one):
                return other
            if is_false(one):
                return no(other)
    elif isinstance(left, z3.IntNumRef) and isinstance(right, z3.IntNumRef):
        return FALSE
    try:
        return z3.BoolRef(z3.Z3_mk_eq(_CONTEXT.ref(), left.ast, right.ast), _CONTEXT)
    except z3.Z3Exception:
        return left == right


def all_equal(left: Sequence[Term], right: Sequence[Term]) -> Term:
    return every(equal(one, other) for one, other in zip(left, right, strict=True))


def is_integer(term: Term | None) -> bool:
    """Whether a term stands for a whole number."""
    return term is not None and bool(z3.is_int(term))


def same_term(left: Term, right: Term) -> bool:
    """Whether two terms are written alike."""
    return bool(left.ast.value == right.ast.value)


def symbols(term: Term) -> set[str]:
    """The names of all constants and functions in a term."""
    found, waiting = set[str](), [term]
    while waiting:
        one = waiting.pop()
        if z3.is_app(one) and one.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found.add(one.decl().name())
        waiting.extend(one.children())
    return found


def identity(terms: Sequence[Term]) -> tuple[int, ...]:
    """The same for the same terms, as long as somebody holds them."""
    return tuple(term.ast.value for term in terms)


class Solver:
    """Asked whether what was told can be true. ``seconds`` bounds each question."""

    def __init__(self, seconds: float) -> None:
        self._solver = z3.Solver()
        self._solver.set("timeout", int(1000 * seconds))
        self._model: Any = None

    def add(self, *terms: Term) -> None:
        self._solver.add(*[term for term in terms if not is_true(term)])

    def push(self) -> None:
        self._solver.push()

    def pop(self) -> None:
        self._solver.pop()

    def check(self, assumed: Sequence[Term] = ()) -> Literal["unsat", "sat", "unknown"]:
        answer = self._solver.check(*assumed)
        self._model = self._solver.model() if answer == z3.sat else None
        if answer == z3.unsat:
            return "unsat"
        return "sat" if answer == z3.sat else "unknown"

    def core(self) -> list[str]:
        """The names of the assumptions that were used; after ``unsat``."""
        return [str(term) for term in self._solver.unsat_core()]

    def value(self, term: Term) -> int | bool | Fraction | None:
        """What the model gives a term; after ``sat``. A number is a ``Fraction`` only if it is not whole."""
        found = self._model.eval(term, model_completion=True)
        if z3.is_int_value(found):
            return int(found.as_long())
        if z3.is_true(found) or z3.is_false(found):
            return bool(z3.is_true(found))
        if z3.is_rational_value(found):
            exact = Fraction(found.numerator_as_long(), found.denominator_as_long())
            return int(exact) if exact.denominator == 1 else exact
        return None

    def text(self, assumed: Sequence[Term] = ()) -> str:
        """What was told, as a script of SMT-LIB."""
        copy = z3.Solver()
        copy.add(*self._solver.assertions())
        copy.add(*assumed)
        return str(copy.to_smt2())


# Arrays of integers, by integers


def array(name: str) -> Term:
    return z3.Array(name, z3.IntSort(), z3.IntSort())


def selected(held: Term, place: Term) -> Term:
    return z3.Select(held, place)


def stored(held: Term, place: Term, value: Term) -> Term:
    return z3.Store(held, place, value)


# Records of which nothing is known but their fields, and facts about all of them


def record_sort(name: str) -> Any:
    return z3.DeclareSort(name)


def record(name: str, kind: Any) -> Term:
    return z3.Const(name, kind)


def of_records(name: str, kinds: Sequence[Any], sort: Sort = "boolean") -> Callable[..., Term]:
    """A function of records that nothing is known of."""
    made = z3.Function(name, *kinds, _SORTS[sort]())
    return lambda *records: made(*records)


def for_all(variables: Sequence[Term], body: Term) -> Term:
    return body if not variables or is_true(body) else z3.ForAll(list(variables), body)


def there_is(variables: Sequence[Term], body: Term) -> Term:
    return body if not variables or is_false(body) else z3.Exists(list(variables), body)
