"""A small shop over SQLAlchemy. Buying reads the stock, decides, and writes what is left: two who buy at once are a race."""

from __future__ import annotations

import itertools

from sqlalchemy import Engine, ForeignKey, Integer
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """The tables of the shop."""


class Item(Base):
    """Something that is sold, and how many there are."""

    __tablename__ = "item"
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    stock: Mapped[int] = mapped_column(Integer)


class Sale(Base):
    """So many of an item were sold."""

    __tablename__ = "sale"
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    item_id: Mapped[int] = mapped_column(Integer, ForeignKey("item.id"))
    amount: Mapped[int] = mapped_column(Integer)


_numbers = itertools.count(1)


def buy(engine: Engine, item_id: int, amount: int, *, locked: bool = False) -> bool:
    """Sells so many, if they are there. With ``locked`` the row is locked before it is decided about: the fix."""
    with Session(engine) as session, session.begin():
        item = session.get_one(Item, item_id, with_for_update=True if locked else None)
        if item.stock < amount:
            return False
        item.stock -= amount
        session.add(Sale(id=next(_numbers), item_id=item_id, amount=amount))
    return True
