"""TPC-C as people run it at read committed: rows that are read to be changed are locked.

BenchBase asks for ``FOR UPDATE`` where New-Order reads the district's next order number and the stock. Two deliveries may both
find the same oldest new order, so that row is locked, too. All else is as in ``tpcc``.
"""

from __future__ import annotations

from isolde.tx.python import locking
from isolde.workloads.applications import APPLICATIONS, tpcc

_ENTRY = APPLICATIONS["tpcc-locking"]

_TRANSACTIONS = {
    "new_order": locking(tpcc.new_order, "district", "stock"),
    "delivery": locking(tpcc.delivery, "new_order"),
}

APPLICATION = tpcc.APPLICATION.variant(_ENTRY.name, _ENTRY.meaning, _ENTRY.source, _TRANSACTIONS)
