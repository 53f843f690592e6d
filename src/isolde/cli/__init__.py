"""Arguments, exit codes, printing. Verbs are imported when they are called, so that the program starts quickly."""

import os
import sys

__all__ = ["program"]


def program() -> None:
    """The program as a process of its own. An interrupt ends it quietly even while it is still being loaded."""
    try:
        from isolde.cli.main import program as loaded
    except KeyboardInterrupt:
        print("isolde: interrupted", file=sys.stderr)
        os._exit(130)
    loaded()
