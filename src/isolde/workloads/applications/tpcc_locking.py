"""TPC-C as people run it at read committed: rows that are read to be changed are locked.

BenchBase asks for ``FOR UPDATE`` where New-Order reads the district's next order number and the stock. Two deliveries may both
find the same oldest new order, so that row is locked, too. All else is as in ``tpcc``.
"""

from __future__ import annotations

from dataclasses import replace

from isolde.tx.python import locking
from isolde.workloads.application import Part
from isolde.workloads.applications import APPLICATIONS, tpcc, tpcc_data

_ENTRY = APPLICATIONS["tpcc-locking"]

APPLICATION = replace(
    tpcc.APPLICATION,
    name=_ENTRY.name,
    meaning=_ENTRY.meaning,
    source=_ENTRY.source,
    parts=(
        Part(locking(tpcc.new_order, "district", "stock"), 45, tpcc_data.new_order),
        Part(tpcc.payment, 43, tpcc_data.payment),
        Part(tpcc.order_status, 4, tpcc_data.order_status),
        Part(locking(tpcc.delivery, "new_order"), 4, tpcc_data.delivery),
        Part(tpcc.stock_level, 4, tpcc_data.stock_level),
    ),
)
