"""What goes wrong in the code of an application is told in one line, with its place."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isolde.errors import IsoldeError, UsageError

# Whose lines tell a user nothing: ours, and Python's own.
_NOT_HIS = (str(Path(__file__).parent.parent), sysconfig.get_paths()["stdlib"])


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Errors of Python that come out of the application's code become ``UsageError``, with ``what`` it was asked for."""
    try:
        yield
    except IsoldeError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what} failed{place_of(error)}: {in_one_line(error)}") from None


def in_one_line(error: BaseException) -> str:
    """The error's type and text.

    >>> in_one_line(ValueError("first\\nsecond"))
    'ValueError: first second'
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def place_of(error: BaseException) -> str:
    """The last line of the user's own that led to it, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    his = [frame for frame in frames if not frame.filename.startswith(_NOT_HIS) and Path(frame.filename).is_file()]
    return f" at {his[-1].filename}:{his[-1].lineno}" if his else ""
