"""Databases in memory that are closed with the objects that use them."""

from __future__ import annotations

import sqlite3
from weakref import finalize


def memory_database(owner: object) -> sqlite3.Connection:
    """Return a new database in memory, which any thread may use. It is closed when `owner` is freed.

    Since 3.13, Python warns of databases that are freed open. The database must not have a reference to its owner.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    finalize(owner, connection.close)
    return connection
