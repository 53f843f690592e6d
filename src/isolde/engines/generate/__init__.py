"""Synthetic histories of any size, correct at a level or with a chosen anomaly."""

from isolde._core import generate, generator_names

__all__ = ["generate", "generator_names"]
