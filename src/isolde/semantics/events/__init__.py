"""The events reading: which rows a statement read, by which predicates it looked for them, and which rows it wrote."""

from isolde.semantics.events.events import Events, Predicate, RowRead, RowWritten, statement_events

__all__ = ["Events", "Predicate", "RowRead", "RowWritten", "statement_events"]
