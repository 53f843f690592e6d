"""Histories on disk, one file a format, told apart by content."""

from isolde.formats.open import decode, encode, read, write

__all__ = ["decode", "encode", "read", "write"]
