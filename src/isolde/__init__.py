"""Isolde finds out what a database's isolation level really gives, and what an application really needs.

The names below are the library; ``docs/api.md`` shows each of them at work. They are imported when they are first used, so that
``import isolde`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isolde.api import audit as audit
    from isolde.api import check as check
    from isolde.api import convert as convert
    from isolde.api import explore as explore
    from isolde.api import generate as generate
    from isolde.api import infer as infer
    from isolde.api import load as load
    from isolde.api import matrix as matrix
    from isolde.api import read as read
    from isolde.api import run as run
    from isolde.api import save as save
    from isolde.api import show as show
    from isolde.api import write as write
    from isolde.campaigns.options import Listener as Listener
    from isolde.engines.explore.program import Program as Program
    from isolde.errors import IsoldeError as IsoldeError
    from isolde.findings import Finding as Finding
    from isolde.findings import InvariantKept as InvariantKept
    from isolde.findings import Report as Report
    from isolde.findings import RunFacts as RunFacts
    from isolde.findings import SqlRunFacts as SqlRunFacts
    from isolde.findings import Verdict as Verdict
    from isolde.history import Append as Append
    from isolde.history import CompareAndSet as CompareAndSet
    from isolde.history import History as History
    from isolde.history import Read as Read
    from isolde.history import Sql as Sql
    from isolde.history import Status as Status
    from isolde.history import Transaction as Transaction
    from isolde.history import Write as Write
    from isolde.history import parse as parse
    from isolde.history.certificate import Certificate as Certificate
    from isolde.history.certificate import Installed as Installed
    from isolde.history.certificate import RowId as RowId
    from isolde.history.certificate import Sees as Sees
    from isolde.history.certificate import VersionSet as VersionSet
    from isolde.levels import Level as Level
    from isolde.recorder import record as record
    from isolde.tx.python import transaction as transaction

# Where each name of the library lives. A new engine is a line here, and one above for type checkers.
_PLACES = {
    "audit": "isolde.api",
    "check": "isolde.api",
    "convert": "isolde.api",
    "explore": "isolde.api",
    "generate": "isolde.api",
    "infer": "isolde.api",
    "load": "isolde.api",
    "matrix": "isolde.api",
    "read": "isolde.api",
    "run": "isolde.api",
    "save": "isolde.api",
    "show": "isolde.api",
    "write": "isolde.api",
    "Listener": "isolde.campaigns.options",
    "Program": "isolde.engines.explore.program",
    "IsoldeError": "isolde.errors",
    "Finding": "isolde.findings",
    "InvariantKept": "isolde.findings",
    "Report": "isolde.findings",
    "RunFacts": "isolde.findings",
    "SqlRunFacts": "isolde.findings",
    "Verdict": "isolde.findings",
    "Append": "isolde.history",
    "CompareAndSet": "isolde.history",
    "History": "isolde.history",
    "Read": "isolde.history",
    "Sql": "isolde.history",
    "Status": "isolde.history",
    "Transaction": "isolde.history",
    "Write": "isolde.history",
    "parse": "isolde.history",
    "Certificate": "isolde.history.certificate",
    "Installed": "isolde.history.certificate",
    "RowId": "isolde.history.certificate",
    "Sees": "isolde.history.certificate",
    "VersionSet": "isolde.history.certificate",
    "Level": "isolde.levels",
    "record": "isolde.recorder",
    "transaction": "isolde.tx.python",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'isolde' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
