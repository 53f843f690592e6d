"""Histories on disk, one format a row of a table, told apart by content."""

from isolde.formats.known import NAMES
from isolde.formats.open import decode, encode, read, write

__all__ = ["NAMES", "decode", "encode", "read", "write"]
