"""The program: one group of verbs, and one place where everything that can go wrong becomes a line and a status."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterable
from enum import IntEnum

import click

from isolde.errors import IsoldeError, OutsideError


class Exit(IntEnum):
    """What the program's status means."""

    HOLDS = 0
    VIOLATED = 1
    USAGE = 2
    UNDECIDED = 3
    OUTSIDE = 4
    INTERRUPTED = 130
    CLOSED_PIPE = 141


# What is listed works: a verb is added here together with what it does.
_VERBS = {
    "run": ("isolde.cli.run", "Does a database keep the isolation level that it promises?"),
    "check": ("isolde.cli.check", "Does a recorded history satisfy a level, and if not, why?"),
    "generate": ("isolde.cli.generate", "Write a synthetic history, correct at a level or with a chosen anomaly."),
    "convert": ("isolde.cli.convert", "Change a history's format."),
    "databases": ("isolde.cli.catalogue", "The databases that Isolde can talk to, their levels and abilities."),
    "workloads": ("isolde.cli.catalogue", "The workloads that 'isolde run' can send, one line each."),
    "levels": ("isolde.cli.catalogue", "The isolation levels, one line each."),
    "anomalies": ("isolde.cli.catalogue", "The anomalies, one line each."),
}


class _Verbs(click.Group):
    """Imports a verb's module when the verb is used; the overview needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(_VERBS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in _VERBS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"isolde {version('isolde')}")
        ctx.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
def cli() -> None:
    """Find out what a database's isolation level really gives, and what an application really needs.

    Exit status: 0 it holds, 1 a violation was found, 2 wrong usage or unreadable input, 3 undecided, 4 an outside part
    failed.
    """


def main() -> None:
    """Runs the program and leaves with its status."""
    for stream in (sys.stdout, sys.stderr):
        # The name of a file need not be text.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = Exit.USAGE
    except click.Abort:
        status = _say("interrupted", Exit.INTERRUPTED)
    except KeyboardInterrupt:
        status = _say("interrupted", Exit.INTERRUPTED)
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away (as `head` does), and nobody is left to tell. click ends the program
        # itself when it notices first, and only then, since it is not run standalone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = Exit.CLOSED_PIPE
    except OutsideError as error:
        status = _say(str(error), Exit.OUTSIDE)
    except IsoldeError as error:
        status = _say(str(error), Exit.USAGE)
    except OSError as error:
        status = _say(f"{error.filename or 'output'}: {error.strerror or error}", Exit.USAGE)
    except RecursionError:
        status = _say("the input is nested too deeply", Exit.USAGE)
    except MemoryError:
        status = _say("out of memory", Exit.UNDECIDED)
    sys.exit(status if isinstance(status, int) else Exit.HOLDS)


def tell(path: str, notes: Iterable[str]) -> None:
    """Says on standard error what an output does not carry."""
    for note in notes:
        click.echo(f"isolde: {path}: {note}", err=True)


def paint(text: str, colour: str) -> str:
    """The text in a colour, on a terminal."""
    return click.style(text, fg=colour, bold=True) if sys.stdout.isatty() else text


def _say(text: str, status: Exit) -> Exit:
    click.echo(f"isolde: {text}", err=True)
    return status
