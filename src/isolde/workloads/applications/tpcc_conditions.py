"""The twelve consistency conditions of TPC-C, clause 3.3.2, each as a query for what violates it.

They hold of the first rows, and after any number of the five transactions. Two of them need a word:

* Conditions 2 and 3 say nothing about the new orders of a district that has none, as the standard states.
* Condition 11 is printed as "orders - new orders = 2100", which no delivery can leave true, while the conditions are meant to be
  "independent of the length of time" that an application runs. At first there is an order for each of the 3000 customers, 2100 of
  them delivered; every delivery after that is counted for its customer. So: orders - new orders = 7/10 of the customers +
  counted deliveries.
"""

from __future__ import annotations

from isolde.workloads.application import must_hold

_DELIVERED = (
    "(SELECT o.o_w_id, o.o_d_id, o.o_c_id, SUM(l.ol_amount) AS total FROM orders o JOIN order_line l"
    " ON l.ol_w_id = o.o_w_id AND l.ol_d_id = o.o_d_id AND l.ol_o_id = o.o_id"
    " WHERE l.ol_delivery_d IS NOT NULL GROUP BY o.o_w_id, o.o_d_id, o.o_c_id) d"
    " ON d.o_w_id = c.c_w_id AND d.o_d_id = c.c_d_id AND d.o_c_id = c.c_id"
)

CONDITIONS = (
    # 3.3.2.1: W_YTD = sum(D_YTD), for each warehouse.
    must_hold(
        "condition-1",
        "SELECT w.w_id, w.w_ytd, d.total FROM warehouse w"
        " LEFT JOIN (SELECT d_w_id, SUM(d_ytd) AS total FROM district GROUP BY d_w_id) d ON d.d_w_id = w.w_id"
        " WHERE w.w_ytd <> COALESCE(d.total, 0)",
        "a warehouse took in what its districts took in (3.3.2.1)",
    ),
    # 3.3.2.2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID), for each district; without the last part if it has no new orders.
    must_hold(
        "condition-2",
        "SELECT d.d_w_id, d.d_id, d.d_next_o_id, o.highest AS o_id, n.highest AS no_o_id FROM district d"
        " LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS highest FROM orders GROUP BY o_w_id, o_d_id) o"
        " ON o.o_w_id = d.d_w_id AND o.o_d_id = d.d_id"
        " LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS highest FROM new_order GROUP BY no_w_id, no_d_id) n"
        " ON n.no_w_id = d.d_w_id AND n.no_d_id = d.d_id"
        " WHERE d.d_next_o_id - 1 <> COALESCE(o.highest, 0) OR d.d_next_o_id - 1 <> n.highest",
        "the next number of an order follows the highest one, which is that of the newest order (3.3.2.2)",
    ),
    # 3.3.2.3: max(NO_O_ID) - min(NO_O_ID) + 1 = number of rows in NEW-ORDER, for each district.
    must_hold(
        "condition-3",
        "SELECT no_w_id, no_d_id, MIN(no_o_id) AS lowest, MAX(no_o_id) AS highest, COUNT(*) AS n FROM new_order"
        " GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
        "the numbers of new orders have no gaps (3.3.2.3)",
    ),
    # 3.3.2.4: sum(O_OL_CNT) = number of rows in ORDER-LINE, for each district.
    must_hold(
        "condition-4",
        "SELECT d.d_w_id, d.d_id, o.total AS o_ol_cnt, l.n AS lines FROM district d"
        " LEFT JOIN (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS total FROM orders GROUP BY o_w_id, o_d_id) o"
        " ON o.o_w_id = d.d_w_id AND o.o_d_id = d.d_id"
        " LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id) l"
        " ON l.ol_w_id = d.d_w_id AND l.ol_d_id = d.d_id"
        " WHERE COALESCE(o.total, 0) <> COALESCE(l.n, 0)",
        "a district has as many order lines as its orders say (3.3.2.4)",
    ),
    # 3.3.2.5: for any row in ORDER, O_CARRIER_ID is null if and only if there is a corresponding row in NEW-ORDER.
    must_hold(
        "condition-5",
        "SELECT o.o_w_id, o.o_d_id, o.o_id, o.o_carrier_id, n.no_o_id FROM orders o LEFT JOIN new_order n"
        " ON n.no_w_id = o.o_w_id AND n.no_d_id = o.o_d_id AND n.no_o_id = o.o_id"
        " WHERE (o.o_carrier_id IS NULL AND n.no_o_id IS NULL) OR (o.o_carrier_id IS NOT NULL AND n.no_o_id IS NOT NULL)",
        "an order has a carrier if and only if it is not new (3.3.2.5)",
    ),
    # 3.3.2.6: for any row in ORDER, O_OL_CNT = number of rows in ORDER-LINE for this order.
    must_hold(
        "condition-6",
        "SELECT o.o_w_id, o.o_d_id, o.o_id, o.o_ol_cnt, l.n AS lines FROM orders o"
        " LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) l"
        " ON l.ol_w_id = o.o_w_id AND l.ol_d_id = o.o_d_id AND l.ol_o_id = o.o_id"
        " WHERE o.o_ol_cnt <> COALESCE(l.n, 0)",
        "an order has as many lines as it says (3.3.2.6)",
    ),
    # 3.3.2.7: for any row in ORDER-LINE, OL_DELIVERY_D is null if and only if the corresponding row in ORDER has no O_CARRIER_ID.
    must_hold(
        "condition-7",
        "SELECT l.ol_w_id, l.ol_d_id, l.ol_o_id, l.ol_number FROM order_line l JOIN orders o"
        " ON o.o_w_id = l.ol_w_id AND o.o_d_id = l.ol_d_id AND o.o_id = l.ol_o_id"
        " WHERE (l.ol_delivery_d IS NULL AND o.o_carrier_id IS NOT NULL)"
        " OR (l.ol_delivery_d IS NOT NULL AND o.o_carrier_id IS NULL)",
        "a line is delivered if and only if its order has a carrier (3.3.2.7)",
    ),
    # 3.3.2.8: W_YTD = sum(H_AMOUNT), for each warehouse.
    must_hold(
        "condition-8",
        "SELECT w.w_id, w.w_ytd, h.total FROM warehouse w"
        " LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS total FROM history GROUP BY h_w_id) h ON h.h_w_id = w.w_id"
        " WHERE w.w_ytd <> COALESCE(h.total, 0)",
        "a warehouse took in what the history says (3.3.2.8)",
    ),
    # 3.3.2.9: D_YTD = sum(H_AMOUNT), for each district.
    must_hold(
        "condition-9",
        "SELECT d.d_w_id, d.d_id, d.d_ytd, h.total FROM district d"
        " LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS total FROM history GROUP BY h_w_id, h_d_id) h"
        " ON h.h_w_id = d.d_w_id AND h.h_d_id = d.d_id WHERE d.d_ytd <> COALESCE(h.total, 0)",
        "a district took in what the history says (3.3.2.9)",
    ),
    # 3.3.2.10: C_BALANCE = sum(OL_AMOUNT) of delivered lines - sum(H_AMOUNT), for each customer.
    must_hold(
        "condition-10",
        f"SELECT c.c_w_id, c.c_d_id, c.c_id, c.c_balance, d.total AS delivered, h.total AS paid FROM customer c"
        f" LEFT JOIN {_DELIVERED}"
        " LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS total FROM history"
        " GROUP BY h_c_w_id, h_c_d_id, h_c_id) h ON h.h_c_w_id = c.c_w_id AND h.h_c_d_id = c.c_d_id AND h.h_c_id = c.c_id"
        " WHERE c.c_balance <> COALESCE(d.total, 0) - COALESCE(h.total, 0)",
        "a customer owes what was delivered to him and is not paid (3.3.2.10)",
    ),
    # 3.3.2.11: (rows in ORDER) - (rows in NEW-ORDER) = 2100, for each district; see above for what becomes of 2100.
    # Both sides times ten; 7/10 are rounded down if the number of customers is no multiple of ten.
    must_hold(
        "condition-11",
        "SELECT d.d_w_id, d.d_id, o.n AS orders, n.n AS new_orders, c.n AS customers, c.deliveries FROM district d"
        " LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS n FROM orders GROUP BY o_w_id, o_d_id) o"
        " ON o.o_w_id = d.d_w_id AND o.o_d_id = d.d_id"
        " LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS n FROM new_order GROUP BY no_w_id, no_d_id) n"
        " ON n.no_w_id = d.d_w_id AND n.no_d_id = d.d_id"
        " LEFT JOIN (SELECT c_w_id, c_d_id, COUNT(*) AS n, SUM(c_delivery_cnt) AS deliveries FROM customer"
        " GROUP BY c_w_id, c_d_id) c ON c.c_w_id = d.d_w_id AND c.c_d_id = d.d_id"
        " WHERE 7 * COALESCE(c.n, 0)"
        " NOT BETWEEN 10 * (COALESCE(o.n, 0) - COALESCE(n.n, 0) - COALESCE(c.deliveries, 0))"
        " AND 10 * (COALESCE(o.n, 0) - COALESCE(n.n, 0) - COALESCE(c.deliveries, 0)) + 9",
        "orders are new, were delivered at first, or were delivered and counted (3.3.2.11)",
    ),
    # 3.3.2.12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of delivered lines, for each customer.
    must_hold(
        "condition-12",
        "SELECT c.c_w_id, c.c_d_id, c.c_id, c.c_balance, c.c_ytd_payment, d.total AS delivered FROM customer c"
        f" LEFT JOIN {_DELIVERED} WHERE c.c_balance + c.c_ytd_payment <> COALESCE(d.total, 0)",
        "what a customer owes and what he paid is what was delivered to him (3.3.2.12)",
    ),
)
