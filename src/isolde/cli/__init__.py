"""Arguments, exit codes, printing. Verbs are imported when they are called, so that the program starts quickly."""

from isolde.cli.main import main, program

__all__ = ["main", "program"]
