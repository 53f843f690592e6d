"""Histories on disk, one format a row of a table, told apart by content."""

from isolde.formats.known import NAMES, WRITTEN
from isolde.formats.open import decode, encode, is_sql, read, write
from isolde.formats.recording import merged

__all__ = ["NAMES", "WRITTEN", "decode", "encode", "is_sql", "merged", "read", "write"]
