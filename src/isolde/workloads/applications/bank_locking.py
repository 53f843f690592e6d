"""The bank as people run it at read committed: accounts are locked before it is decided about them.

A sum cannot be locked, so ``withdraw_overdraft`` locks both accounts of the pair before it adds them up, the one with the lower
number first: two that lock each other's accounts would wait for each other.
"""

from __future__ import annotations

from isolde.tx.python import Handle, locking, transaction
from isolde.workloads.applications import APPLICATIONS, bank


@transaction
def withdraw_overdraft(tx: Handle, movement: int, account: int, amount: int) -> bool:
    """Guarded by the sum of two accounts, both of which nobody else changes meanwhile."""
    if amount <= 0:
        tx.abort("an amount is positive")
    found = tx.one(
        "SELECT partner FROM accounts WHERE acc_id = :account AND partner IS NOT NULL",
        account=account,
    )
    if found is None:
        return False
    tx.all(
        "SELECT acc_id FROM accounts WHERE acc_id IN (:account, :partner) ORDER BY acc_id FOR UPDATE",
        account=account,
        partner=found.partner,
    )
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


_ENTRY = APPLICATIONS["bank-locking"]
_TRANSACTIONS = {
    "deposit": locking(bank.deposit, "accounts"),
    "withdraw": locking(bank.withdraw, "accounts"),
    "transfer": locking(bank.transfer, "accounts"),
    "withdraw_overdraft": withdraw_overdraft,
}

APPLICATION = bank.APPLICATION.variant(_ENTRY.name, _ENTRY.meaning, _ENTRY.source, _TRANSACTIONS)
