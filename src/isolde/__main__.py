"""``python -m isolde``, where the program is not on the path."""

from isolde.cli import program

program()
