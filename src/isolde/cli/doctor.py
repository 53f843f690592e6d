"""``isolde doctor``: what is installed, which servers can be started, and how to get what is missing."""

from __future__ import annotations

import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import click

from isolde.cli.main import paint
from isolde.visible import dumped, fitted, visible


@dataclass(frozen=True, slots=True)
class Looked:
    """One thing that was looked for: ``found`` says what is there, ``get`` how to get what is not."""

    about: str
    name: str
    there: bool
    found: str
    get: str = ""


# What each package is for, and how to get it.
_PACKAGES = (
    ("z3-solver", "z3", "isolde infer, audit --encoding", "pip install z3-solver"),
    ("sqlglot", "sqlglot", "everything that reads SQL", "pip install sqlglot"),
    ("pytest", "pytest", "the pytest plugin", "pip install pytest"),
    ("ray", "ray", "--engine ray", "pip install 'isolde[ray]'"),
    ("sqlalchemy", "sqlalchemy", "recording engines of SQLAlchemy", "pip install sqlalchemy"),
)
_PROGRAMS = (("dot", "drawing --graph FILE.dot", "apt-get install graphviz"),)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def doctor(as_json: bool) -> int:
    """What is installed, which servers can be started for a run, and what is missing, with the command that gets it.

    Nothing is started or changed. The status is 0: what is missing is needed for a part of Isolde only, and said with it.
    """
    found = [*_itself(), *_packages(), *_drivers(), *_servers(), *_programs()]
    if as_json:
        click.echo(dumped({"checks": [asdict(one) for one in found]}))
        return 0
    width = max(len(one.name) for one in found)
    about = ""
    for one in found:
        if one.about != about:
            about = one.about
            click.echo(f"{about}:")
        mark = paint("ok", "green") if one.there else paint("--", "yellow")
        get = f"; get it: {one.get}" if one.get and not one.there else ""
        click.echo(fitted(f"  {mark}  {visible(one.name):{width}}  {visible(one.found)}{visible(get)}"))
    click.echo('completion in the shell (or zsh_source, fish_source):\n  eval "$(_ISOLDE_COMPLETE=bash_source isolde)"')
    return 0


def _itself() -> list[Looked]:
    python = ".".join(map(str, sys.version_info[:3]))
    return [
        Looked("program", "isolde", True, version("isolde")),
        Looked("program", "python", True, f"{python} on {platform.system()} {platform.machine()}"),
        Looked("program", "core", True, str(import_module("isolde._core._native").__file__)),
    ]


def _packages() -> list[Looked]:
    found = []
    for name, module, purpose, get in _PACKAGES:
        try:
            told, there = version(name), True
        except PackageNotFoundError:
            try:
                import_module(module)
                told, there = "there", True
            except ImportError:
                told, there = "not installed", False
        found.append(Looked("packages", name, there, f"{told}, for {purpose}", get))
    return found


def _drivers() -> list[Looked]:
    from isolde.databases.registry import adapters, unusable

    found = []
    for adapter in adapters():
        reason = unusable(adapter)
        schemes = ", ".join(f"{scheme}:" for scheme in adapter.schemes)
        found.append(
            Looked("databases", adapter.name, not reason, reason or f"{schemes} can be talked to", adapter.install)
        )
    return found


def _servers() -> list[Looked]:
    from isolde.databases.servers import available

    # A reason ends with the command that gets the program.
    return [
        Looked("servers to start", one.kind, one.program is not None, one.program or one.reason) for one in available()
    ]


def _programs() -> list[Looked]:
    found = []
    for name, purpose, get in _PROGRAMS:
        place = shutil.which(name)
        found.append(
            Looked("programs of others", name, place is not None, f"{place or 'not found'}, for {purpose}", get)
        )
    return found
