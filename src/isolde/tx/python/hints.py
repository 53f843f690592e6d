"""What is outside of the subset of Python: its name, and what to write instead."""

from __future__ import annotations

import ast

_STATEMENTS: dict[type[ast.stmt], tuple[str, str]] = {
    ast.FunctionDef: ("a function inside of a transaction", "write it out, or make it a transaction of its own"),
    ast.AsyncFunctionDef: ("a function inside of a transaction", "write it out, or make it a transaction of its own"),
    ast.ClassDef: ("a class inside of a transaction", "define it outside"),
    ast.Try: ("try", "an error ends the transaction; test with if what could go wrong"),
    ast.TryStar: ("try", "an error ends the transaction; test with if what could go wrong"),
    ast.With: ("with", "the handle is all that a transaction opens"),
    ast.AsyncWith: ("with", "the handle is all that a transaction opens"),
    ast.AsyncFor: ("async", "write for"),
    ast.Match: ("match", "use if and elif"),
    ast.Global: ("global", "give the value as a parameter, and return what is new"),
    ast.Nonlocal: ("nonlocal", "give the value as a parameter, and return what is new"),
    ast.Delete: ("del", "leave it out"),
    ast.Import: ("an import inside of a transaction", "leave it out: only the handle can be called"),
    ast.ImportFrom: ("an import inside of a transaction", "leave it out: only the handle can be called"),
}

_EXPRESSIONS: dict[type[ast.expr], tuple[str, str]] = {
    ast.JoinedStr: ("an f-string", "put texts together in a statement, with CONCAT"),
    ast.NamedExpr: ("':='", "assign it in a line of its own"),
    ast.Lambda: ("a lambda", "write it out"),
    ast.ListComp: ("a comprehension", "loop over tx.all(…), or let the statement choose and count"),
    ast.SetComp: ("a comprehension", "loop over tx.all(…), or let the statement choose and count"),
    ast.DictComp: ("a comprehension", "loop over tx.all(…), or let the statement choose and count"),
    ast.GeneratorExp: ("a comprehension", "loop over tx.all(…), or let the statement choose and count"),
    ast.Yield: ("yield", "a transaction returns once: use return"),
    ast.YieldFrom: ("yield", "a transaction returns once: use return"),
    ast.Await: ("await", "call without it"),
}


def outside_statement(node: ast.stmt) -> tuple[str, str]:
    match node:
        case ast.For() | ast.AsyncFor() | ast.While() if node.orelse:
            return "else of a loop", "set a variable in the loop, and test it after"
        case ast.AugAssign(target) | ast.Assign([target]) if isinstance(target, ast.Attribute | ast.Subscript):
            return f"an assignment to '{ast.unparse(target)}'", "rows cannot be changed: use a variable, or UPDATE"
        case ast.Assign():
            return "an assignment to several targets", "write one line for each"
        case ast.Expr(value) if type(value) in _EXPRESSIONS:
            return _EXPRESSIONS[type(value)]
        case ast.Expr():
            return f"'{_shown(node)}', which does nothing,", "leave it out"
    if type(node) in _STATEMENTS:
        return _STATEMENTS[type(node)]
    return f"'{_shown(node)}'", "the subset has =, if, for, while, return, assert, raise"


def outside_expression(node: ast.expr) -> tuple[str, str]:
    match node:
        case ast.Call(ast.Name(name)) if name in {"sum", "any", "all", "sorted", "filter", "map", "zip", "enumerate"}:
            return f"the call '{name}'", "let the statement do it: SUM, EXISTS, ORDER BY, WHERE"
        case ast.Call(ast.Name("round")):
            return "round", "Python rounds a half to the even side and SQL away from zero; compute it in a statement"
        case ast.Call(ast.Name("min" | "max" as name)):
            return f"{name} of one value", "give two or more plain values, or use an aggregate"
        case ast.Call(ast.Name(name)):
            return (
                f"the call '{name}'",
                "assign what another transaction returns to a variable; nothing else can be called",
            )
        case ast.BinOp(_, ast.Div() | ast.FloorDiv() | ast.Mod(), _):
            return (
                f"'{_shown(node)}'",
                "Python and SQL disagree about division and remainders; compute it in a statement",
            )
        case ast.BinOp():
            return f"'{_shown(node)}'", "use + - *, or compute it in a statement"
        case ast.Attribute(ast.Call(ast.Attribute())) | ast.Subscript(ast.Call(ast.Attribute())):
            return f"'{_shown(node)}'", "assign the row to a variable, and take its columns from there"
        case ast.Subscript(ast.Name(name)):
            return f"'{_shown(node)}'", f"name the column: {name}.column"
    if type(node) in _EXPRESSIONS:
        return _EXPRESSIONS[type(node)]
    return f"'{_shown(node)}'", "use names, columns of rows, numbers, texts, + - * and comparisons"


def _shown(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]
