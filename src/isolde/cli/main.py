"""The program: one group of verbs, and one place where everything that can go wrong becomes a line and a status."""

from __future__ import annotations

import importlib
import itertools
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from isolde.errors import IsoldeError, MistakeError, OutsideError, not_written
from isolde.visible import visible

if TYPE_CHECKING:
    from isolde.findings import Report

# How long the threads of others are waited for at the end: longer than a private server takes to shut down.
_LEAVE_S = [30.0]


def leave_at_once() -> None:
    """When the program is over nobody's thread is waited for."""
    _LEAVE_S[:] = [0.0]


class Exit(IntEnum):
    """What the program's status means."""

    HOLDS = 0
    VIOLATED = 1
    USAGE = 2
    UNDECIDED = 3
    OUTSIDE = 4
    MISTAKE = 70
    INTERRUPTED = 130
    CLOSED_PIPE = 141


# Where the context keeps the words of the command line.
_WORDS = "isolde.words"

# What is listed works: a verb is added here together with what it does.
_VERBS = {
    "run": ("isolde.cli.run", "Does a database keep the isolation level that it promises?"),
    "check": ("isolde.cli.check", "Does a recorded history satisfy a level, and if not, why?"),
    "watch": ("isolde.cli.watch", "Check a history while it grows."),
    "audit": ("isolde.cli.audit", "Could a correct database have given these answers to these SQL transactions?"),
    "explore": ("isolde.cli.explore", "Can transactions break an assertion under a level? Explore all they can do."),
    "infer": ("isolde.cli.infer", "Which is the weakest level at which each transaction of an application is safe?"),
    "generate": ("isolde.cli.generate", "Write a synthetic history, correct at a level or with a chosen anomaly."),
    "convert": ("isolde.cli.convert", "Change a history's format."),
    "show": ("isolde.cli.show", "Look again at a report that --report kept."),
    "doctor": ("isolde.cli.doctor", "What is installed, which servers can be started, and how to get what is missing."),
    "databases": ("isolde.cli.catalogue", "The databases that Isolde can talk to, their levels and abilities."),
    "workloads": ("isolde.cli.catalogue", "The workloads that 'isolde run' can send, one line each."),
    "levels": ("isolde.cli.catalogue", "The isolation levels, one line each."),
    "anomalies": ("isolde.cli.catalogue", "The anomalies, one line each."),
}


class _Verbs(click.Group):
    """Imports a verb's module when the verb is used; the overview needs none of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

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
    failed, 70 a mistake of Isolde's own.
    """


def program() -> None:
    """The program as a process of its own: when it is over it ends, whatever a driver still waits for."""
    _end_as_by_ctrl_c()
    try:
        main()
    except SystemExit as ended:
        (seconds,) = _LEAVE_S
        if not seconds:
            os._exit(ended.code if isinstance(ended.code, int) else Exit.MISTAKE)
        last = threading.Timer(seconds, os._exit, (ended.code,))
        last.daemon = True
        last.start()
        raise


def _end_as_by_ctrl_c() -> None:
    """A polite request to end leaves no server, table or directory behind either, whichever verb runs."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        # What whoever started us had ignored (nohup) stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def main() -> None:
    """Runs the program and leaves with its status."""
    try:
        _repair_streams()
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        status = _complain(error)
    except (click.Abort, KeyboardInterrupt):
        status = _ended("interrupted", Exit.INTERRUPTED)
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away (as `head` does), and nobody is left to tell. click ends the program
        # itself when it notices first, and only then, since it is not run standalone.
        status = Exit.CLOSED_PIPE
    except MistakeError as error:
        status = _ended(f"a mistake of Isolde itself: {error}", Exit.MISTAKE)
    except OutsideError as error:
        status = _ended(str(error), Exit.OUTSIDE)
    except IsoldeError as error:
        status = _ended(str(error), Exit.USAGE)
    except OSError as error:
        written = not_written(f"{error.filename or 'output'}: {error.strerror or error}", error)
        status = _ended(str(written), Exit.OUTSIDE if isinstance(written, OutsideError) else Exit.USAGE)
    except RecursionError:
        status = _ended("the input is nested too deeply", Exit.USAGE)
    except MemoryError:
        status = _ended("out of memory", Exit.UNDECIDED)
    except BaseException as error:
        # Whatever it is, it is no violation: that has a status of its own, and nothing else may have it.
        status = _ended(_mistake(error), Exit.MISTAKE)
    _leave_streams()
    # Ctrl-C while a module runs code that it made from text (dataclasses do) is remembered by CPython, which then ends
    # by the signal whatever our status is; running any other text makes it forget.
    exec("")
    sys.exit(status if isinstance(status, int) else Exit.HOLDS)


def _complain(error: click.ClickException) -> Exit:
    context = getattr(error, "ctx", None)
    with suppress(OSError, ValueError):
        if isinstance(context, click.Context):
            click.echo(context.get_usage(), err=True)
            click.echo(f"Try '{context.command_path} --help' for help.\n", err=True)
        click.echo(f"Error: {visible(_hidden(error.format_message()))}", err=True)
    return Exit.USAGE


def _mistake(error: BaseException) -> str:
    """What is said of an error that nobody foresaw: enough to find its place, in one line."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"a mistake of Isolde itself, please report it: {type(error).__name__}{place}: {error}"


def _repair_streams() -> None:
    """Gives the program the three streams that it expects.

    One that was closed would give its number to the next file that is opened, a recording say, and what is printed would go
    there. What a stream's encoding has no sign for is written as an escape.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave_streams() -> None:
    """What could not be printed is not tried again while Python ends, which would change the status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_STATUS = {"satisfied": Exit.HOLDS, "violated": Exit.VIOLATED, "unknown": Exit.UNDECIDED}


def status_of(report: Report) -> Exit:
    """The status that the most serious verdict of a report gives."""
    return _STATUS[report.verdict.value]


def say(text: str) -> None:
    """One line on standard error, which may be gone: then there is nobody to tell."""
    with suppress(OSError, ValueError):
        click.echo(f"isolde: {visible(_hidden(text))}", err=True)


def tell(path: str, notes: Iterable[str]) -> None:
    """Says on standard error what an output does not carry."""
    for note in notes:
        say(f"{path}: {note}")


def paint(text: str, colour: str) -> str:
    """The text in a colour, on a terminal whose user did not ask for none (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return click.style(text, fg=colour, bold=True)


def command_line(but: Iterable[str] = ()) -> str:
    """The command that is being carried out, as it may be shown and typed again; without passwords and the options ``but``.

    Empty where there is none.
    """
    context = click.get_current_context(silent=True)
    words = iter(context.meta.get(_WORDS, ()) if context is not None else ())
    left_out = set(but)
    kept: list[str] = []
    for word in words:
        if word in left_out:
            next(words, None)
        elif word.partition("=")[0] not in left_out:
            kept.append(word)
    return _without_secrets(shlex.join(["isolde", *kept]), kept) if kept else ""


def _hidden(text: str) -> str:
    """Without the passwords that stand on the command line, whoever was so careless as to repeat one."""
    return _without_secrets(text, sys.argv[1:])


def _without_secrets(text: str, words: Sequence[str]) -> str:
    from isolde.masking import hide, secrets_of

    addresses = [word for word in words if "://" in word]
    addresses += [word for before, word in itertools.pairwise(words) if before == "--connect"]
    addresses += [word.partition("=")[2] for word in words if word.startswith("--connect=")]
    return hide(text, (secret for address in addresses for secret in secrets_of(address)))


def _ended(text: str, status: Exit) -> Exit:
    say(text)
    return status
