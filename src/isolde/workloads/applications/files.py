"""Applications of one's own: a Python file that defines ``APPLICATION``."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from isolde.errors import IsoldeError, UsageError
from isolde.workloads.application import Application
from isolde.workloads.applications.mistakes import refuse_mistakes
from isolde.workloads.blame import in_one_line

_NAME = "APPLICATION"


def application_in(path: str) -> Application:
    """What the file defines; whatever is wrong with it is told with its line."""
    found = names_in(path).get(_NAME)
    if not isinstance(found, Application):
        raise UsageError(f"{path}: it defines no {_NAME}, an isolde.workloads.application.Application")
    try:
        refuse_mistakes(found)
    except IsoldeError as error:
        raise UsageError(f"{path}: {error}") from None
    return found


def names_in(path: str) -> dict[str, Any]:
    """What a Python file defines; whatever goes wrong in it is told with its line."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{path}: there is no such file")
    # What lies beside the file can be imported from it, as if Python ran it.
    sys.path.insert(0, str(file.parent))
    try:
        return runpy.run_path(path)
    except IsoldeError as error:
        raise UsageError(f"{path}: {error}") from None
    except SyntaxError as error:
        raise UsageError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"{_where(error, path)}: {in_one_line(error)}") from None
    finally:
        sys.path.remove(str(file.parent))


def _where(error: BaseException, path: str) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"{path}:{frames[-1].lineno}" if frames else path
