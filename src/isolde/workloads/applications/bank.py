"""Bank: deposits, withdrawals, transfers, overdraft protection and balances.

The transactions are those of TROUBADOUR's bank-server (OOPSLA 2025, section 8): five kinds on 1000 accounts, no blind writes, a
fifth of the transactions read only (section 8.3); that the other four come equally often is ours. Two things are added, so that
it can be said what must hold:

* A journal. Every change of a balance leaves a movement, so a lost update shows: the balance is not the sum of the movements.
* Pairs. An account with a partner is protected against overdrafts: it may go below zero as long as the two together do
  not. ``withdraw`` and ``transfer`` take money from accounts without a partner only; these never go below zero.

Amounts are whole cents: SQLite has no exact decimals, and a sum that is off by a rounding would look like an anomaly.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import fresh, two

DDL = """
CREATE TABLE accounts (
    acc_id INTEGER PRIMARY KEY,
    balance BIGINT NOT NULL,
    partner INTEGER
);
CREATE TABLE movements (
    id BIGINT NOT NULL,
    account INTEGER NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (id, account)
);
"""


@transaction
def balance(tx: Handle, account: int) -> Any:
    """What is in the account."""
    return tx.value("SELECT balance FROM accounts WHERE acc_id = :account", account=account)


@transaction
def deposit(tx: Handle, movement: int, account: int, amount: int) -> None:
    """Reads and writes back, so that two deposits at once can lose one."""
    if amount <= 0:
        tx.abort("an amount is positive")
    found = tx.one("SELECT balance FROM accounts WHERE acc_id = :account", account=account)
    if found is None:
        tx.abort("no such account")
    tx.execute(
        "UPDATE accounts SET balance = :balance WHERE acc_id = :account",
        balance=found.balance + amount,
        account=account,
    )
    tx.execute(
        "INSERT INTO movements (id, account, amount) VALUES (:movement, :account, :amount)",
        movement=movement,
        account=account,
        amount=amount,
    )


@transaction
def withdraw(tx: Handle, movement: int, account: int, amount: int) -> bool:
    """Whether there was enough. The decrement is in place: what can go wrong is the condition, not the sum."""
    if amount <= 0:
        tx.abort("an amount is positive")
    found = tx.one(
        "SELECT balance FROM accounts WHERE acc_id = :account AND partner IS NULL",
        account=account,
    )
    if found is None:
        return False
    if found.balance < amount:
        return False
    tx.execute(
        "UPDATE accounts SET balance = balance - :amount WHERE acc_id = :account", amount=amount, account=account
    )
    tx.execute(
        "INSERT INTO movements (id, account, amount) VALUES (:movement, :account, :amount)",
        movement=movement,
        account=account,
        amount=-amount,
    )
    return True


@transaction
def transfer(tx: Handle, movement: int, source: int, target: int, amount: int) -> bool:
    """Whether there was enough in the source."""
    if amount <= 0 or source == target:
        tx.abort("money goes from one account to another")
    found = tx.one(
        "SELECT balance FROM accounts WHERE acc_id = :source AND partner IS NULL",
        source=source,
    )
    if found is None:
        return False
    if found.balance < amount:
        return False
    other = tx.one("SELECT balance FROM accounts WHERE acc_id = :target", target=target)
    if other is None:
        return False
    tx.execute("UPDATE accounts SET balance = balance + :amount WHERE acc_id = :target", amount=amount, target=target)
    tx.execute("UPDATE accounts SET balance = balance - :amount WHERE acc_id = :source", amount=amount, source=source)
    tx.execute(
        "INSERT INTO movements (id, account, amount) VALUES (:movement, :target, :amount), (:movement, :source, -:amount)",
        movement=movement,
        source=source,
        target=target,
        amount=amount,
    )
    return True


@transaction
def withdraw_overdraft(tx: Handle, movement: int, account: int, amount: int) -> bool:
    """Guarded by the sum of two accounts, changes one of them: the write skew of the textbooks."""
    if amount <= 0:
        tx.abort("an amount is positive")
    found = tx.one(
        "SELECT partner FROM accounts WHERE acc_id = :account AND partner IS NOT NULL",
        account=account,
    )
    if found is None:
        return False
    together = tx.value(
        "SELECT SUM(balance) FROM accounts WHERE acc_id IN (:account, :partner)",
        account=account,
        partner=found.partner,
    )
    if together < amount:
        return False
    tx.execute(
        "UPDATE accounts SET balance = balance - :amount WHERE acc_id = :account", amount=amount, account=account
    )
    tx.execute(
        "INSERT INTO movements (id, account, amount) VALUES (:movement, :account, :amount)",
        movement=movement,
        account=account,
        amount=-amount,
    )
    return True


def _protected(scale: Scale) -> int:
    """How many accounts are in pairs: they come first."""
    return min(2 * scale["pairs"], scale["accounts"] - scale["accounts"] % 2)


def _balance(random: Random, scale: Scale) -> dict[str, Any]:
    return {"account": random.randint(1, scale["accounts"])}


def _one_account(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "movement": fresh(random),
        "account": random.randint(1, scale["accounts"]),
        "amount": random.randint(1, 100_00),
    }


def _transfer(random: Random, scale: Scale) -> dict[str, Any]:
    source, target = two(random, scale["accounts"])
    # Money comes from accounts without a partner; the others may well be paid to.
    if source <= _protected(scale) < target:
        source, target = target, source
    return {"movement": fresh(random), "source": source, "target": target, "amount": random.randint(1, 100_00)}


def _overdraft(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "movement": fresh(random),
        "account": random.randint(1, max(1, _protected(scale))),
        "amount": random.randint(1, 200_00),
    }


def _populate(random: Random, scale: Scale) -> Rows:
    for number in range(1, scale["accounts"] + 1):
        opening = random.randint(100_00, 500_00)
        # 1 and 2 are partners, 3 and 4, and so on.
        partner = (number + 1 if number % 2 else number - 1) if number <= _protected(scale) else None
        yield "accounts", (number, opening, partner)
        yield "movements", (number, number, opening)


INVARIANTS = (
    must_hold(
        "balance-is-sum-of-movements",
        "SELECT a.acc_id, a.balance, m.total FROM accounts a"
        " LEFT JOIN (SELECT account, SUM(amount) AS total FROM movements GROUP BY account) m ON m.account = a.acc_id"
        " WHERE a.balance <> COALESCE(m.total, 0)",
        "every account holds what its movements say: no update was lost",
    ),
    must_hold(
        "money-is-preserved",
        "SELECT t.balances, m.amounts FROM (SELECT COALESCE(SUM(balance), 0) AS balances FROM accounts) t"
        " CROSS JOIN (SELECT COALESCE(SUM(amount), 0) AS amounts FROM movements) m WHERE t.balances <> m.amounts",
        "there is as much money as came in and did not go out",
    ),
    must_hold(
        "transfers-are-even",
        "SELECT id, SUM(amount) AS difference FROM movements GROUP BY id HAVING COUNT(*) > 1 AND SUM(amount) <> 0",
        "what a transfer takes from one account it gives to the other",
    ),
    must_hold(
        "no-account-is-overdrawn",
        "SELECT acc_id, balance FROM accounts WHERE partner IS NULL AND balance < 0",
        "an account without a partner is never below zero",
    ),
    must_hold(
        "no-pair-is-overdrawn",
        "SELECT a.acc_id, a.balance, b.balance AS of_partner FROM accounts a JOIN accounts b ON b.acc_id = a.partner"
        " WHERE a.balance + b.balance < 0",
        "two accounts that protect each other are never below zero together",
    ),
    must_hold(
        "partners-are-mutual",
        "SELECT a.acc_id, a.partner FROM accounts a LEFT JOIN accounts b ON b.acc_id = a.partner"
        " WHERE a.partner IS NOT NULL AND (b.acc_id IS NULL OR b.partner IS NULL OR b.partner <> a.acc_id)",
        "an account is the partner of its partner",
    ),
)

_ENTRY = APPLICATIONS["bank"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(balance, 20, _balance),
        Part(deposit, 20, _one_account),
        Part(withdraw, 20, _one_account),
        Part(transfer, 20, _transfer),
        Part(withdraw_overdraft, 20, _overdraft),
    ),
    _populate,
    {"accounts": 1000, "pairs": 250},
    INVARIANTS,
)
