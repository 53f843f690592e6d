"""Records what an existing program does on its database: one line wraps a connection, or an engine of SQLAlchemy.

    connection = isolde.record(sqlite3.connect("shop.db"), "shop.jsonl")
    isolde.record(engine, "shop.jsonl", schema=Base.metadata)

The file is a history of SQL transactions that ``isolde audit`` judges: what each statement returned, what failed, when, and
whether the transaction was committed. ``door.py`` has ``record``, ``recording.py`` the file; ``dbapi.py`` wraps connections of
PEP 249, ``drivers.py`` knows the drivers, ``alchemy.py`` listens to SQLAlchemy.
"""

from isolde.recorder.door import record

__all__ = ["record"]
