"""The applications of the literature, one file each, as programs of the transaction language.

The table is all that is loaded at first: an application is imported, and its SQL parsed, when it is asked for by name.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from isolde.errors import UsageError

if TYPE_CHECKING:
    from isolde.workloads.application import Application


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table; the module defines ``APPLICATION``."""

    name: str
    meaning: str
    source: str

    @property
    def module(self) -> str:
        return f"{__name__}.{self.name.replace('-', '_')}"


_ENTRIES = (
    Entry(
        "bank",
        "deposits, withdrawals, transfers and overdrafts of pairs of accounts, every movement in a journal",
        "TROUBADOUR (OOPSLA 2025), section 8",
    ),
    Entry(
        "smallbank",
        "savings and checking accounts; write skew between a check and a withdrawal",
        "Alomari et al., The Cost of Serializability on Platforms That Use Snapshot Isolation (ICDE 2008); SendPayment: H-Store",
    ),
    Entry(
        "twitter",
        "tweets, followers and timelines; who follows whom is kept twice, and counted",
        "Difallah et al., OLTP-Bench (VLDB 2013); mix: Cobra (OSDI 2020)",
    ),
    Entry(
        "rubis",
        "an auction site: users, items, bids, direct sales and comments",
        "Cecchet et al., RUBiS (OOPSLA 2002); mix: Cobra (OSDI 2020)",
    ),
    Entry(
        "tpcc",
        "TPC-C: orders, payments and deliveries of a wholesale supplier, with its twelve consistency conditions",
        "TPC Benchmark C, revision 5.11",
    ),
    Entry(
        "courseware",
        "students enroll in courses of limited capacity; courses and students come and go",
        "Gotsman et al., 'Cause I'm Strong Enough (POPL 2016); ACIDifier, section 7",
    ),
    Entry(
        "wikipedia",
        "pages with their revisions, watched and edited; mostly read",
        "Difallah et al., OLTP-Bench (VLDB 2013)",
    ),
    Entry(
        "shopping-cart",
        "items put into carts, taken out and counted anew; the stock is shared",
        "Sivaramakrishnan et al., Declarative Programming over Eventually Consistent Data Stores (PLDI 2015)",
    ),
    Entry(
        "bank-locking",
        "bank, with accounts locked (FOR UPDATE) before it is decided about them: for read committed",
        "TROUBADOUR (OOPSLA 2025), section 8; the locks are ours",
    ),
    Entry(
        "tpcc-locking",
        "tpcc, with rows locked (FOR UPDATE) that are read to be changed: for read committed",
        "TPC Benchmark C, revision 5.11; locks: BenchBase, and the oldest new order",
    ),
    Entry(
        "tpcc-nokeys",
        "tpcc without the primary keys of orders, new orders and order lines, which protect it",
        "TPC Benchmark C, revision 5.11, as ACIDifier (POPL 2018) reads it",
    ),
    Entry(
        "courseware-locking",
        "courseware, with student and course locked (FOR UPDATE) before it is decided about them: for read committed",
        "ACIDifier, section 7; the locks are ours",
    ),
)

APPLICATIONS = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def is_application(name: str) -> bool:
    """Whether this names an application: one of the table, or a Python file."""
    return name.replace("_", "-") in APPLICATIONS or name.endswith(".py")


def application_named(name: str) -> Application:
    """The application of this name, or of the Python file at this path; imported now."""
    if name.endswith(".py"):
        from isolde.workloads.applications.files import application_in

        return application_in(name)
    entry = APPLICATIONS.get(name.replace("_", "-"))
    if entry is None:
        close = difflib.get_close_matches(name, list(APPLICATIONS), 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"no application '{name}'{hint} ('isolde workloads' lists them)")
    found: Application = import_module(entry.module).APPLICATION
    return found


__all__ = ["APPLICATIONS", "Entry", "application_named", "is_application"]
