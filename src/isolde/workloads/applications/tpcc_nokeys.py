"""TPC-C without the keys of orders, new orders and order lines, which protect it: two orders may get the same number.

ACIDifier (POPL 2018) reads TPC-C so: its tables are sets of records, and nothing keeps two of them from having the same id. The
rows of warehouses, districts, customers, items and stock are never inserted, so their keys keep nobody from anything, and stay.
All else is as in ``tpcc``.
"""

from __future__ import annotations

from dataclasses import replace

from isolde.workloads.applications import APPLICATIONS, tpcc
from isolde.workloads.applications.tpcc_tables import DDL

_ENTRY = APPLICATIONS["tpcc-nokeys"]
_DROPPED = (
    ",\n    PRIMARY KEY (o_w_id, o_d_id, o_id)",
    ",\n    PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    ",\n    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
)


def _without_keys() -> str:
    text = DDL
    for key in _DROPPED:
        assert key in text
        text = text.replace(key, "")
    return text


APPLICATION = replace(
    tpcc.APPLICATION, name=_ENTRY.name, meaning=_ENTRY.meaning, source=_ENTRY.source, ddl=_without_keys()
)
