"""Transactions as Python functions with SQL inside.

    @transaction
    def enroll(tx, student, course):
        seat = tx.one("SELECT capacity FROM course WHERE id = :course", course=course)
        if seat.capacity > 0:
            tx.execute("INSERT INTO enrollment (student, course) VALUES (:student, :course)", student=student, course=course)
            tx.execute("UPDATE course SET capacity = capacity - 1 WHERE id = :course", course=course)

The same function runs as plain Python, with a ``Handle`` of a store or of a real database, and is compiled from its source to the
language when an engine must reason about it (``docs/language.md`` has the subset).
"""

from isolde.tx.python.handle import AbortedByProgram, Handle, Row, SeveralRows
from isolde.tx.python.locking import locking
from isolde.tx.python.transaction import Transaction, program, transaction

__all__ = ["AbortedByProgram", "Handle", "Row", "SeveralRows", "Transaction", "locking", "program", "transaction"]
