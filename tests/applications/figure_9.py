"""Figure 9 of ACIDifier: an account that is never below zero gets its interest; others deposit and withdraw meanwhile."""

from random import Random

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold


@transaction
def add_interest(tx: Handle, account: int, percent: int) -> None:
    """Reads the balance and writes back what it is with interest."""
    found = tx.one("SELECT balance FROM account WHERE id = :account", account=account)
    if found is None or percent < 0:
        return
    tx.execute(
        "UPDATE account SET balance = :balance WHERE id = :account",
        balance=found.balance + percent * found.balance,
        account=account,
    )


@transaction
def deposit(tx: Handle, account: int, amount: int) -> None:
    if amount > 0:
        tx.execute("UPDATE account SET balance = balance + :amount WHERE id = :account", amount=amount, account=account)


@transaction
def withdraw(tx: Handle, account: int, amount: int) -> None:
    """Takes no more than there is when it is taken."""
    if amount > 0:
        tx.execute(
            "UPDATE account SET balance = balance - :amount WHERE id = :account AND balance >= :amount",
            amount=amount,
            account=account,
        )


def _interest(random: Random, _scale: Scale) -> dict[str, int]:
    return {"account": 1, "percent": random.randint(1, 3)}


def _amount(random: Random, _scale: Scale) -> dict[str, int]:
    return {"account": 1, "amount": random.randint(1, 3)}


def _populate(_random: Random, _scale: Scale) -> Rows:
    yield "account", (1, 2)


APPLICATION = Application(
    "figure-9",
    "an account with interest",
    "ACIDifier (POPL 2018), figure 9",
    "CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL);",
    (
        Part(add_interest, 1, _interest),
        Part(deposit, 1, _amount),
        Part(withdraw, 1, _amount),
    ),
    _populate,
    {"accounts": 1},
    (must_hold("not-negative", "SELECT id FROM account WHERE balance < 0", "no balance is below zero"),),
)
