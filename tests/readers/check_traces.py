"""Have datasets, with teich, read agent traces.

needs: Python >= 3.10; datasets>=5.2 teich>=0.3
usage: PYTHONPATH=. python -m tests.readers.check_traces DIRECTORY

`datasets` must recognise each file as a trace: one row with the column `harness`, the messages with their roles and in
order, every word of them, every tool call, and the offered tools.
"""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import Any

from datasets import disable_progress_bars, load_dataset

from tests.contents.shown import chat_rows
from tests.readers.contents import Contents
from tests.readers.reading import Reader, files, finish

ROLES = {"toolResult": "tool"}
logging.disable(logging.WARNING)
disable_progress_bars()


def texts(content: list[dict[str, Any]]) -> str:
    """Return the text of a message, joined as teich joins it."""
    return "\n".join(part["text"] for part in content if part.get("text")).strip()


def expected(lines: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Return the role, text and number of calls of each message that has contents."""
    turns = []
    for line in lines:
        if line["type"] == "message":
            message = line["message"]
            calls = [part for part in message["content"] if part["type"] == "toolCall"]
            thoughts = [part for part in message["content"] if part["type"] == "thinking"]
            text = texts(message["content"])
            if text or calls or thoughts or message["role"] in {"user", "toolResult"}:
                turns.append((ROLES.get(message["role"], message["role"]), text, len(calls)))
    return turns


def check(path: Path, cache: str) -> None:
    """Load a file as a dataset."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    dataset = load_dataset("json", data_files=str(path), split="train", cache_dir=cache)
    assert "harness" in dataset.column_names, f"no trace, but columns {dataset.column_names}"
    [row] = dataset
    contents = [
        (message["role"], message.get("content") or "", len(message.get("tool_calls") or ()))
        for message in row["messages"]
    ]
    assert contents == expected(lines), f"other messages: {contents[:3]} and not {expected(lines)[:3]}"
    assert row["num_tool_calls"] == sum(calls for _, _, calls in contents), "another number of tool calls"
    assert row["session_id"] == lines[0]["id"], "another session"
    offered = {tool["function"]["name"] for line in lines for tool in line.get("data", {}).get("tools", ())}
    assert offered <= {tool["function"]["name"] for tool in row["tools"]}, "tools are missing"


def rows_of(sessions: list[list[dict[str, Any]]], cache: str) -> list[dict[str, Any]]:
    """Return the rows of a dataset made from sessions."""
    rows = []
    for number, session in enumerate(sessions):
        path = Path(cache, f"session{number}.jsonl")
        path.write_text("\n".join(map(json.dumps, session)), encoding="utf-8")
        # The cache takes files of the same name and size for the same file.
        with tempfile.TemporaryDirectory() as fresh:
            rows += load_dataset("json", data_files=str(path), split="train", cache_dir=fresh)
    return rows


NOT_KEPT = dict.fromkeys(("images", "tokens", "failures"), "teich's rows do not have it")
reader = Reader("datasets with teich: agent traces", "sessions", "datasets", "teich")
with tempfile.TemporaryDirectory() as directory:
    for file in files("traces"):
        reader.take(file.name, lambda file=file: check(file, directory))
    contents = Contents("datasets with teich: contents", "traces", "datasets", "teich", shows=chat_rows)
    contents.hold(lambda sessions, _: rows_of(sessions, directory), without=NOT_KEPT)
finish(reader, contents)
