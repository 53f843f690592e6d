"""Python functions of values: what primitives compute. No decisions: those are the dialects'."""
