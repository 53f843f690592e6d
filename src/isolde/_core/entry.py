"""The way into the extension: whatever it raises gets its place in our tree of errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from isolde._core import _native
from isolde.errors import InputError, IsoldeError, MalformedHistory, UnusableEvidence, not_written

THREADS = max(1, min(8, os.cpu_count() or 1))
_T = TypeVar("_T")


def enter(work: Callable[[], _T], file: str) -> _T:
    """Calls into the core, and translates what it raises where it enters."""
    try:
        return work()
    except _native.Malformed as error:
        line, field, found, expected, before = error.args
        raise MalformedHistory(file, line, field, found, expected, before) from None
    except _native.Unusable as error:
        raise UnusableEvidence(file, *error.args) from None
    except _native.Refused as error:
        raise InputError(f"{file}: {error}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        # The core's own text ends in "(os error 2)", which helps nobody.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise not_written(f"{file}: {reason}", error) from error
    except RuntimeError as error:
        raise IsoldeError(f"{file}: {error}; please report this with the file") from error
