"""Why a level could not be decided, in a sentence that says what would help."""

from __future__ import annotations

from isolde._core import Columns, Undecided
from isolde.engines.check.naming import txn_name
from isolde.formats import decode
from isolde.history import render_operation
from isolde.levels import Level

_OPERATIONS = {
    "list-operations": "the history appends to lists",
    "scan-operations": "the history has predicate reads (scans)",
    "sql-operations": "the history is made of SQL statements",
}


def why_undecided(columns: Columns, level: Level, decision: Undecided) -> str:
    """The reason behind the core's code."""
    first, second = decision.counts
    place = decision.place
    where, what = "", ""
    if place is not None:
        transaction = decode(columns, [place.txn]).transactions[0]
        where = txn_name(transaction.id)
        if transaction.ops:
            what = render_operation(transaction.ops[place.index])
    match decision.code:
        case "no-times":
            return (
                f'{where} does not say when it started and ended ("start", "end"; in files of Jepsen an invocation and a'
                f" completion), and {level.value} is about real time; record both for every transaction"
            )
        case "several-keys":
            return f"{where} touches more than one key; linearizable is about single-key operations (try strict-serializable)"
        case "ambiguous-read":
            return (
                f"duplicate-write: {what} of {where} has more than one possible writer"
                f" ({_count(first, 'such read')}); values that are unique for each key would decide it"
            )
        case "told":
            return (
                f"an order of each key was found, but not one that follows what was told besides the history about {where};"
                " whether there is another was not tried"
            )
        case "budget":
            return (
                f"the order of {_count(first, 'operation')} on the key of {what} was not settled within {second:,} steps;"
                " a larger --budget may settle it"
            )
        case "choices":
            pairs = [f"the order of {_count(first, 'pair')} of writes"] if first else []
            reads = [f"what {_count(second, 'read or told value')} mean"] if second else []
            return (
                f"the search used up its budget with {' and '.join([*pairs, *reads])} still open; a larger --budget,"
                " session order, times or versions lines would help"
            )
        case "memory":
            return (
                f"more is open than a search may hold in memory ({_count(first, 'pair')} of writes and {_count(second, 'read')}"
                " that were looked at); session order, times, versions lines or fewer transactions would help"
            )
        case code:
            undecided = f"{_OPERATIONS.get(code, code)}, which 'isolde check' does not decide at {level.value}"
            return f"{undecided}; 'isolde audit' judges their answers" if code == "sql-operations" else undecided


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
