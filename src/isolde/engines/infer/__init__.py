"""The weakest levels at which an application's transactions keep its invariants, proved."""
