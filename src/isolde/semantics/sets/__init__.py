"""Transactions as transformers of tables, in terms of a solver: states that are not known, and what was written over them."""
