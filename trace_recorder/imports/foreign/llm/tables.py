"""The tables of llm before 0.36 (`responses` and what refers to it), as the entries that `llm logs --json` states."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.sqlite_file import Database
from trace_recorder.values.messages import Payload


def conversations(database: Database) -> Iterator[tuple[str, list[Members]]]:
    """Yield the conversations by their ids, each with its entries."""
    names = {row.get("id"): row.get("name") for row in database.rows("conversations")}
    known = {row.get("id") for row in database.rows("turns")}
    grouped: dict[str, list[Members]] = {}
    for row in database.rows("responses"):
        if row.get("id") not in known:
            identity = as_text(row.get("conversation_id")) or as_text(row.get("id")) or ""
            grouped.setdefault(identity, []).append(row)
    schemas = {row.get("id"): row.get("content") for row in database.rows("schemas")}
    related = _Related(database)
    while grouped:
        identity = next(iter(grouped))
        rows = grouped.pop(identity)
        yield (
            identity,
            [
                row
                | related.of(row.get("id"))
                | {"conversation_name": names.get(identity), "schema_json": schemas.get(row.get("schema_id"))}
                for row in rows
            ],
        )


class _Related:
    """What refers to a response: its fragments, tools, calls, results and attachments."""

    def __init__(self, database: Database) -> None:
        self._database = database
        fragments = {row.get("id"): row for row in database.rows("fragments")}
        tools = {row.get("id"): row for row in database.rows("tools")}
        self._lists = {
            "prompt_fragments": self._through("prompt_fragments", "fragment_id", fragments),
            "system_fragments": self._through("system_fragments", "fragment_id", fragments),
            "tools": self._through("tool_responses", "tool_id", tools),
            "tool_calls": self._grouped("tool_calls"),
            "tool_results": self._grouped("tool_results"),
        }
        self._attachments = self._grouped("prompt_attachments")
        self._of_results = self._grouped("tool_results_attachments", "tool_result_id")

    def of(self, response_id: Payload) -> Members:
        """Return the lists of a response."""
        found: Members = {name: grouped.get(response_id, []) for name, grouped in self._lists.items()}
        found["attachments"] = self._contents(self._attachments.get(response_id, []))
        for result in found["tool_results"]:
            result["attachments"] = self._contents(self._of_results.get(result.get("id"), []))
        return found

    def _grouped(self, table: str, column: str = "response_id") -> dict[Payload, list[Members]]:
        grouped: dict[Payload, list[Members]] = {}
        order = 'order by "order"' if self._database.has(table, "order") else ""
        for row in self._database.rows(table, order):
            grouped.setdefault(row.get(column), []).append(row)
        return grouped

    def _through(self, table: str, column: str, targets: dict[Payload, Members]) -> dict[Payload, list[Members]]:
        grouped = self._grouped(table)
        return {
            response: [targets[row[column]] for row in rows if row.get(column) in targets]
            for response, rows in grouped.items()
        }

    def _contents(self, rows: list[Members]) -> list[Members]:
        return [found for row in rows if (found := attachment(self._database, row.get("attachment_id"))) is not None]


def attachment(database: Database, identity: Payload) -> Members | None:
    """Return an attachment, with its content as the address of data."""
    row = (
        next(database.rows("attachments", "where id = ?", identity, blobs=True), None)
        if isinstance(identity, str)
        else None
    )
    if row is None:
        return None
    content = row.pop("content", None)
    if isinstance(content, bytes):
        kind = as_text(row.get("type")) or "application/octet-stream"
        row["data_url"] = f"data:{kind};base64,{b64encode(content).decode('ascii')}"
    return {name: value for name, value in row.items() if isinstance(value, str)}
