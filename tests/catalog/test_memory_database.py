"""Databases in memory are closed when nobody uses them any more. Python 3.13 and later warn of those that are not."""

from __future__ import annotations

import gc
import sqlite3
from pathlib import Path

import pytest

from tests.catalog.many_runs import make_runs
from trace_recorder import load_all
from trace_recorder.catalog import memory_database as databases


class Owner:
    """An object that uses a database."""


def test_a_database_is_closed_with_its_owner() -> None:
    owner = Owner()
    connection = databases.memory_database(owner)
    connection.execute("CREATE TABLE words (word)")
    del owner
    gc.collect()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT * FROM words")


@pytest.mark.parametrize("query", ["alpha", '"code 1"', "tool:bash"])
def test_a_query_leaves_no_database_open(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connected(*arguments: object, **options: object) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connected)
    for _ in load_all(make_runs(tmp_path, 3), where=query, strict=False):
        pass
    gc.collect()

    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
