"""Engines composed into the questions that people ask: run and check, run and look at invariants, try every level.

Options are data, progress is told by callbacks, answers are reports. Nothing here prints.
"""
