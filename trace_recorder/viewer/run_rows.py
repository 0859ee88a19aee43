"""The rows of the list of runs, in a table of SQLite in memory, which filters, sorts and counts them.

The table has the columns of the index (`SINGLE`) with the same names and meanings. So a filter of the list is a term of
the query language, and `catalog/query.py` makes its SQL. The table has what filters and sorts a row. The row itself is
in the table only if no index has it. Only one thread at a time may use the table.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from trace_recorder.catalog.memory_database import memory_database
from trace_recorder.catalog.query import Parameter, condition_of
from trace_recorder.catalog.run_tree import run_tree
from trace_recorder.catalog.run_values import (
    number_of_value,
    origin_texts,
    seconds_of,
    storable_value,
    sum_of_numbers,
    text_or_none,
)
from trace_recorder.catalog.searched_values import SINGLE, Single, storable
from trace_recorder.figures.cost import may_have_price
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.parameters import ListRequest, SortColumn
from trace_recorder.viewer.parts import Json

_OWN = ("listed", "text", "needs_costs", "row")
"""Columns that the index does not have.

`listed` is the start of a run, or the time of its files. `row` is the row as JSON, or NULL if an index has it.
"""
_NAMES = ("name", *SINGLE, *_OWN)
_SCHEMA = f"""
CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, {", ".join(_NAMES)}, UNIQUE (name));
CREATE INDEX by_trajectory ON runs (trajectory_id);
CREATE INDEX by_fork ON runs (forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX by_replay ON runs (replay_of) WHERE replay_of IS NOT NULL;
CREATE INDEX by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX by_status ON runs (status, success);
CREATE INDEX by_model ON runs (model);
CREATE INDEX without_costs ON runs (listed) WHERE needs_costs;
"""
_BEGAN = SINGLE.index("began")
_SEARCHED = tuple(map(SINGLE.index, ("task", "model", "provider")))
_PLACES = ", ".join("?" for _ in _NAMES)
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in _NAMES)
_PUT = f"INSERT INTO runs ({', '.join(_NAMES)}) VALUES ({_PLACES}) ON CONFLICT (name) DO UPDATE SET {_CHANGES}"  # noqa: S608 - names of ours
_UPPER = "coalesce(r.forked_from, r.replay_of, r.parent)"
_ORIGIN = f"(SELECT o.name FROM runs o WHERE o.trajectory_id = {_UPPER} ORDER BY o.listed, o.name LIMIT 1)"  # noqa: S608 - a name of ours
_SORTED: dict[SortColumn, str] = {
    "status": "r.status",
    "task": "folded(r.task)",
    "model": "folded(r.model)",
    "time": "r.listed",
    "duration": "r.seconds",
    "steps": "r.steps",
    "errors": "ifnull(r.failed_calls, 0) + ifnull(r.failed_tool_calls, 0)",
    "tokens": "r.tokens",
    "cost": "r.cost",
    "rewards": "r.rewards",
}
RowNumbers = Sequence[int]


class Arrangement(NamedTuple):
    """Rows by their numbers in order, and the depth of each in the tree, or no depths if the list is flat."""

    numbers: RowNumbers
    depths: Sequence[int] = ()


class RunRows:
    """The rows of runs, by their names in the list. Each row has a number of its own, which no later row gets.

    `read_known` returns rows that are not in the table, by their names, as far as there are such rows.
    """

    def __init__(self, read_known: Callable[[Sequence[str]], Mapping[str, Json]]) -> None:
        self._read_known = read_known
        self._connection = memory_database(self)
        self._connection.create_function("folded", 1, _folded, deterministic=True)
        self._connection.executescript(_SCHEMA)

    def put(self, row: Json, costs: Json | None = None) -> bool:
        """Add a row, or replace the row with the same `id`. Return whether the table changed.

        `costs` are the costs of all calls of the run, if its calls were read.
        """
        needs_costs = costs is None and may_have_price(row.get("status"), row.get("llm_calls"))
        row = {**row, **(costs or {})}
        name, text = _key(row["id"]), json.dumps(row)
        before = self._connection.execute("SELECT row, needs_costs FROM runs WHERE name = ?", (name,)).fetchone()
        if before == (text, needs_costs):
            return False
        single = _single(row)
        listed = single[_BEGAN]
        if listed is None:
            listed = seconds_of(row.get("modified"))[0]
        searched = _searched_text(row["task"], row["id"], row["model"], row["provider"])
        self._connection.execute(_PUT, (name, *single, listed, searched, needs_costs, text))
        return True

    def put_known(self, runs: Iterable[tuple[str, float, Sequence[Single]]]) -> None:
        """Add runs whose rows are in an index: the name of each, the time of its files, and its values of `SINGLE`."""
        rows = []
        for name, modified, values in runs:
            listed = values[_BEGAN]
            if listed is None:
                listed = modified
            task, model, provider = (values[place] for place in _SEARCHED)
            text = _searched_text(task, name, model, provider)
            rows.append((_key(name), *values, listed, text, False, None))
        self._connection.execute("BEGIN")  # one transaction: one for each run takes half as long again
        try:
            self._connection.executemany(_PUT, rows)
        finally:
            self._connection.execute("COMMIT")

    def put_costs(self, name: str, costs: Json) -> None:
        """Add the costs of the calls of a run to its row."""
        [text] = self._connection.execute("SELECT row FROM runs WHERE name = ?", (_key(name),)).fetchone()
        self.put(json.loads(text), costs)

    def remove(self, name: str) -> None:
        """Remove a row."""
        self._connection.execute("DELETE FROM runs WHERE name = ?", (_key(name),))

    def arranged(self, request: ListRequest, names: Collection[str] | None = None) -> Arrangement:
        """Return the requested rows in order. In the order of time, runs that belong together are a tree.

        If `names` is given, only the rows of the runs with these names are returned.
        """
        condition = condition_of(request.filters)
        parts: list[str] = [condition.sql]
        parameters: list[Parameter] = [*condition.parameters]
        if request.model is not None:
            parts.append("r.model = ?")
            parameters.append(storable(request.model))
        for sign, moment in ((">=", request.began_since), ("<", request.began_until)):
            if moment is not None:
                parts.append(f"r.listed {sign} ?")
                parameters.append(moment)
        for word in request.text.casefold().split():
            parts.append("instr(r.text, ?) > 0")
            parameters.append(storable(word))
        key = _SORTED[request.column]
        direction = "DESC" if request.descending else "ASC"
        order = f"{key} IS NULL, {key} {direction}, r.listed DESC, r.name DESC"
        columns = f"r.number, r.name, r.trajectory_id, {_UPPER}, r.session"
        sql = f"SELECT {columns} FROM runs r WHERE {' AND '.join(parts)} ORDER BY {order}"  # noqa: S608 - parameters are passed separately
        matches = [_ArrangedRow._make(row) for row in self._connection.execute(sql, parameters)]
        if names is not None:
            matches = [row for row in matches if os.fsdecode(row.name) in names]
        if request.column != "time":
            return Arrangement(array("q", (row.number for row in matches)))
        return _tree(matches)

    def names(self, numbers: RowNumbers) -> list[str]:
        """Return the names of the runs of rows. Runs that are gone are left out."""
        known = dict(self._connection.execute("SELECT number, name FROM runs"))
        return [os.fsdecode(known[number]) for number in numbers if number in known]

    def rows(self, numbers: RowNumbers, depths: Sequence[int] = ()) -> list[Json | None]:
        """Return rows by their numbers. The row of a run that is gone is None.

        `depths` are their depths in the tree, or none if the list is flat. The member `origin` of a row is the name of
        the listed run of which this run is a fork or a replay, or else of the run's parent. It is None if no such run
        is listed.
        """
        places = ", ".join("?" for _ in numbers)
        sql = f"SELECT r.number, r.name, r.row, {_ORIGIN} FROM runs r WHERE r.number IN ({places})"  # noqa: S608 - question marks
        found = self._connection.execute(sql, [*numbers]).fetchall()
        rows = self._rows_of((name, text) for _, name, text, _ in found)
        known: dict[int, Json] = {}
        for number, name, _, origin in found:
            if name in rows:
                known[number] = {**rows[name], "origin": _name(origin), "depth": 0}
        for number, depth in zip(numbers, depths, strict=False):
            if number in known:
                known[number]["depth"] = depth
        return [known.get(number) for number in numbers]

    def _rows_of(self, stored: Iterable[tuple[bytes, str | None]]) -> dict[bytes, Json]:
        """Return the rows of runs, in the same order, from their names and what the table has of their rows."""
        texts = dict(stored)
        known: Mapping[str, Json] = {}
        if None in texts.values():
            known = self._read_known([os.fsdecode(name) for name, text in texts.items() if text is None])
        rows = {}
        for name, text in texts.items():
            if text is not None:
                rows[name] = json.loads(text)
            elif os.fsdecode(name) in known:
                rows[name] = known[os.fsdecode(name)]
        return rows

    def counts(self) -> Json:
        """Return the numbers of rows: of all rows, of each status, success and model, and of rows without costs."""
        execute = self._connection.execute
        [(total,)] = execute("SELECT count(*) FROM runs")
        judged = "CASE success WHEN 1 THEN 'success' ELSE 'no success' END"
        statuses = execute(
            f"SELECT status, count(*) FROM runs GROUP BY status UNION ALL "  # noqa: S608 - names of ours
            f"SELECT {judged}, count(*) FROM runs WHERE success IS NOT NULL GROUP BY success ORDER BY 2 DESC, 1"
        ).fetchall()
        models = execute("SELECT model, count(*) FROM runs WHERE model <> '' GROUP BY model ORDER BY 2 DESC, 1")
        counted = {"statuses": [*map(list, statuses)], "models": [*map(list, models)]}
        return {"total": total, "without_costs": self.count_without_costs(), **counted}

    def count_without_costs(self) -> int:
        """Return the number of runs whose calls are still to be read for their costs."""
        [(count,)] = self._connection.execute("SELECT count(*) FROM runs WHERE needs_costs")
        return int(count)

    def newest_without_costs(self, numbers: RowNumbers | None = None) -> str | None:
        """Return the name of the newest run with unknown costs, among the rows with these numbers or among all rows."""
        among = ""
        if numbers is not None:
            among = f"AND number IN ({', '.join('?' for _ in numbers)})"
        sql = f"SELECT name FROM runs WHERE needs_costs {among} ORDER BY listed DESC LIMIT 1"  # noqa: S608 - question marks
        [name] = self._connection.execute(sql, [*(numbers or ())]).fetchone() or [None]
        return _name(name)

    def relations(self, name: str, sources: Collection[str]) -> Json:
        """Return the names of the runs that are related to a run.

        These are the run of which this run is a fork or a replay, its parent, its own forks, replays and children, and
        the runs with the trajectory ids `sources`. A fork is not among the children of its parent.
        """
        columns = "SELECT trajectory_id, forked_from, replay_of, parent FROM runs WHERE name = ?"
        identity, *origins = self._connection.execute(columns, (_key(name),)).fetchone() or (None, None, None, None)
        forks = self._related("forked_from", identity)
        names_of_forks = {row["id"] for row in forks}
        children = [row["id"] for row in self._related("parent", identity) if row["id"] not in names_of_forks]
        return {
            "forked_from": self._name_of(origins[0]),
            "replay_of": self._name_of(origins[1]),
            "parent": self._name_of(origins[2]),
            "forks": [{"id": row["id"], "step_number": row["forked_from"].get("step_number")} for row in forks],
            "replays": [row["id"] for row in self._related("replay_of", identity)],
            "children": children,
            "sources": {source: run for source in sources if (run := self._name_of(_text(source))) is not None},
        }

    def _name_of(self, identity: str | None) -> str | None:
        """Return the name of the oldest run with this trajectory id, or None."""
        sql = "SELECT name FROM runs WHERE trajectory_id = ? ORDER BY listed, name LIMIT 1"
        [name] = self._connection.execute(sql, (identity,)).fetchone() or [None]
        return _name(name)

    def _related(self, column: str, identity: str | None) -> list[Json]:
        sql = f"SELECT name, row FROM runs WHERE {column} = ? ORDER BY listed, name"  # noqa: S608 - a name of ours
        return [*self._rows_of(self._connection.execute(sql, (identity,)).fetchall()).values()]


class _ArrangedRow(NamedTuple):
    """A row of the list, with the trajectory id of the run that it is below."""

    number: int
    name: bytes
    trajectory_id: str | None
    upper: str | None
    session: str | None


def _tree(rows: Sequence[_ArrangedRow]) -> Arrangement:
    places = {row.trajectory_id: place for place, row in enumerate(rows) if row.trajectory_id is not None}
    branches = run_tree([places.get(row.upper or "") for row in rows], [row.session for row in rows])
    numbers = array("q", (rows[branch.row].number for branch in branches))
    return Arrangement(numbers, array("q", (branch.depth for branch in branches)))


def _key(name: str) -> bytes:
    return os.fsencode(name)


def _name(key: bytes | None) -> str | None:
    if key is None:
        return None
    return os.fsdecode(key)


def _single(row: Json) -> tuple[Single, ...]:
    """Return the columns of `SINGLE`, from a row of the list."""
    success = error = rewards = None
    if isinstance(row["success"], bool):
        success = int(row["success"])
    if row["error"] is not None:
        error = plain_text(row["error"])
    if isinstance(row["rewards"], Mapping):
        rewards = sum_of_numbers(row["rewards"].values())
    counts = (row[name] for name in ("steps", "llm_calls", "failed_llm_calls", "tool_calls", "failed_tool_calls"))
    tokens = row["total_input_tokens"], row["output_tokens"]
    values = (
        *(plain_text(row[name]) or None for name in ("trajectory_id", "parent", "session", "task")),
        *(plain_text(row["status"]), success),
        *(seconds_of(row["start_time"])[0], seconds_of(row["end_time"])[0]),
        error,
        *map(number_of_value, counts),
        *(sum_of_numbers(tokens), *map(number_of_value, tokens)),
        *(number_of_value(row["cost"]), number_of_value(row["execution_time_seconds"])),
        *(text_or_none(row["model"]), text_or_none(row["provider"]), rewards),
        *origin_texts(row),
    )
    return tuple(map(storable_value, values))


def _searched_text(*texts: Payload) -> str:
    return storable(" ".join(text for text in texts if isinstance(text, str)).casefold())


def _text(value: Payload) -> str | None:
    if isinstance(value, str):
        return storable(value)
    return None


def _folded(text: str | None) -> str | None:
    if text is None:
        return None
    return text.casefold()
