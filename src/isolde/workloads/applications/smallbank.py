"""SmallBank: customers with a savings and a checking account each.

Alomari, Cahill, Fekete and Röhm (ICDE 2008) made it to break snapshot isolation: WriteCheck reads both balances and
changes one, TransactSavings changes the other, and Balance makes the outcome visible. SendPayment was added in H-Store;
the mix and the amounts are those of H-Store and OLTP-Bench, the 18,000 customers with a hot spot of 1,000 those of the
paper.

A ledger is added, so that it can be said what must hold: every transaction that moves money says so there. The total of
a customer is the sum of his entries, whatever the order was. That WriteCheck charged its penalty rightly cannot be seen
in a state. Amounts are whole cents.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import fresh, hotspot

DDL = """
CREATE TABLE accounts (
    custid INTEGER PRIMARY KEY,
    name VARCHAR(64) NOT NULL UNIQUE
);
CREATE TABLE savings (
    custid INTEGER PRIMARY KEY,
    bal BIGINT NOT NULL
);
CREATE TABLE checking (
    custid INTEGER PRIMARY KEY,
    bal BIGINT NOT NULL
);
CREATE TABLE ledger (
    id BIGINT NOT NULL,
    custid INTEGER NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (id, custid)
);
"""


@transaction
def balance(tx: Handle, name: str) -> Any:
    """The total of both accounts."""
    custid = tx.value("SELECT custid FROM accounts WHERE name = :name", name=name)
    if custid is None:
        tx.abort("no such customer")
    savings = tx.value("SELECT bal FROM savings WHERE custid = :custid", custid=custid)
    checking = tx.value("SELECT bal FROM checking WHERE custid = :custid", custid=custid)
    return savings + checking


@transaction
def deposit_checking(tx: Handle, entry: int, name: str, amount: int) -> None:
    """Puts money into the checking account."""
    if amount < 0:
        tx.abort("a deposit is not negative")
    custid = tx.value("SELECT custid FROM accounts WHERE name = :name", name=name)
    if custid is None:
        tx.abort("no such customer")
    tx.execute("UPDATE checking SET bal = bal + :amount WHERE custid = :custid", amount=amount, custid=custid)
    tx.execute(
        "INSERT INTO ledger (id, custid, amount) VALUES (:entry, :custid, :amount)",
        entry=entry,
        custid=custid,
        amount=amount,
    )


@transaction
def transact_savings(tx: Handle, entry: int, name: str, amount: int) -> None:
    """Adds ``amount``, which may be negative, to the savings; rolls back if they would be below zero."""
    custid = tx.value("SELECT custid FROM accounts WHERE name = :name", name=name)
    if custid is None:
        tx.abort("no such customer")
    savings = tx.value("SELECT bal FROM savings WHERE custid = :custid", custid=custid)
    if savings + amount < 0:
        tx.abort("the savings do not suffice")
    tx.execute("UPDATE savings SET bal = bal + :amount WHERE custid = :custid", amount=amount, custid=custid)
    tx.execute(
        "INSERT INTO ledger (id, custid, amount) VALUES (:entry, :custid, :amount)",
        entry=entry,
        custid=custid,
        amount=amount,
    )


@transaction
def amalgamate(tx: Handle, entry: int, source: int, target: int) -> None:
    """Moves all that a customer has to the checking account of another."""
    savings = tx.value("SELECT bal FROM savings WHERE custid = :source", source=source)
    checking = tx.value("SELECT bal FROM checking WHERE custid = :source", source=source)
    other = tx.value("SELECT bal FROM checking WHERE custid = :target", target=target)
    if savings is None or checking is None or other is None or source == target:
        tx.abort("no such customer")
    total = savings + checking
    tx.execute("UPDATE savings SET bal = 0 WHERE custid = :source", source=source)
    tx.execute("UPDATE checking SET bal = 0 WHERE custid = :source", source=source)
    tx.execute("UPDATE checking SET bal = bal + :total WHERE custid = :target", total=total, target=target)
    tx.execute(
        "INSERT INTO ledger (id, custid, amount) VALUES (:entry, :source, -:total), (:entry, :target, :total)",
        entry=entry,
        source=source,
        target=target,
        total=total,
    )


@transaction
def write_check(tx: Handle, entry: int, name: str, amount: int) -> None:
    """Pays a check; one dollar more if both accounts together do not suffice."""
    custid = tx.value("SELECT custid FROM accounts WHERE name = :name", name=name)
    if custid is None:
        tx.abort("no such customer")
    savings = tx.value("SELECT bal FROM savings WHERE custid = :custid", custid=custid)
    checking = tx.value("SELECT bal FROM checking WHERE custid = :custid", custid=custid)
    paid = amount
    if savings + checking < amount:
        paid = amount + 100
    tx.execute("UPDATE checking SET bal = bal - :paid WHERE custid = :custid", paid=paid, custid=custid)
    tx.execute(
        "INSERT INTO ledger (id, custid, amount) VALUES (:entry, :custid, :amount)",
        entry=entry,
        custid=custid,
        amount=-paid,
    )


@transaction
def send_payment(tx: Handle, entry: int, source: int, target: int, amount: int) -> None:
    """From one checking account to another; rolls back if there is not enough."""
    checking = tx.value("SELECT bal FROM checking WHERE custid = :source", source=source)
    other = tx.value("SELECT bal FROM checking WHERE custid = :target", target=target)
    if checking is None or other is None or source == target:
        tx.abort("no such customer")
    if checking < amount:
        tx.abort("the checking account does not suffice")
    tx.execute("UPDATE checking SET bal = bal - :amount WHERE custid = :source", amount=amount, source=source)
    tx.execute("UPDATE checking SET bal = bal + :amount WHERE custid = :target", amount=amount, target=target)
    tx.execute(
        "INSERT INTO ledger (id, custid, amount) VALUES (:entry, :source, -:amount), (:entry, :target, :amount)",
        entry=entry,
        source=source,
        target=target,
        amount=amount,
    )


def _name(customer: int) -> str:
    return f"{customer:064d}"


def _customer(random: Random, scale: Scale) -> int:
    """Nine of ten transactions go to the hot spot."""
    return hotspot(random, scale["customers"], scale["hot"], 0.9)


def _pair(random: Random, scale: Scale) -> dict[str, Any]:
    source, target = _customer(random, scale), _customer(random, scale)
    while source == target and scale["customers"] > 1:
        target = random.randint(1, scale["customers"])
    return {"entry": fresh(random), "source": source, "target": target}


def _balance(random: Random, scale: Scale) -> dict[str, Any]:
    return {"name": _name(_customer(random, scale))}


def _deposit(random: Random, scale: Scale) -> dict[str, Any]:
    return {"entry": fresh(random), "name": _name(_customer(random, scale)), "amount": 1_30}


def _savings(random: Random, scale: Scale) -> dict[str, Any]:
    """OLTP-Bench always takes money out; half of the time it is put in here, so that the savings do not run dry."""
    sign = random.choice((1, -1))
    return {"entry": fresh(random), "name": _name(_customer(random, scale)), "amount": sign * 20_20}


def _check(random: Random, scale: Scale) -> dict[str, Any]:
    return {"entry": fresh(random), "name": _name(_customer(random, scale)), "amount": 5_00}


def _payment(random: Random, scale: Scale) -> dict[str, Any]:
    return {**_pair(random, scale), "amount": 5_00}


def _populate(random: Random, scale: Scale) -> Rows:
    """Balances are a thousandth of OLTP-Bench's, so that it matters whether they suffice."""
    for customer in range(1, scale["customers"] + 1):
        savings, checking = random.randint(10_00, 50_00), random.randint(10_00, 50_00)
        yield "accounts", (customer, _name(customer))
        yield "savings", (customer, savings)
        yield "checking", (customer, checking)
        yield "ledger", (customer, customer, savings + checking)


INVARIANTS = (
    must_hold(
        "total-is-sum-of-ledger",
        "SELECT s.custid, s.bal + c.bal AS total, l.entries FROM savings s JOIN checking c ON c.custid = s.custid"
        " LEFT JOIN (SELECT custid, SUM(amount) AS entries FROM ledger GROUP BY custid) l ON l.custid = s.custid"
        " WHERE s.bal + c.bal <> COALESCE(l.entries, 0)",
        "a customer has what the ledger says: no update was lost",
    ),
    must_hold(
        "money-is-preserved",
        "SELECT s.bal AS savings, c.bal AS checking, l.entries FROM"
        " (SELECT COALESCE(SUM(bal), 0) AS bal FROM savings) s"
        " CROSS JOIN (SELECT COALESCE(SUM(bal), 0) AS bal FROM checking) c"
        " CROSS JOIN (SELECT COALESCE(SUM(amount), 0) AS entries FROM ledger) l WHERE s.bal + c.bal <> l.entries",
        "there is as much money as came in and did not go out",
    ),
    must_hold(
        "savings-not-negative",
        "SELECT custid, bal FROM savings WHERE bal < 0",
        "TransactSavings rolls back before the savings are below zero",
    ),
    must_hold(
        "every-customer-has-both-accounts",
        "SELECT a.custid FROM accounts a LEFT JOIN savings s ON s.custid = a.custid"
        " LEFT JOIN checking c ON c.custid = a.custid WHERE s.custid IS NULL OR c.custid IS NULL",
        "every customer has a savings and a checking account",
    ),
)

_ENTRY = APPLICATIONS["smallbank"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(amalgamate, 15, _pair),
        Part(balance, 15, _balance),
        Part(deposit_checking, 15, _deposit),
        Part(send_payment, 25, _payment),
        Part(transact_savings, 15, _savings),
        Part(write_check, 15, _check),
    ),
    _populate,
    {"customers": 18_000, "hot": 1_000},
    INVARIANTS,
)
