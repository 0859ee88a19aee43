"""Declares the columns of all tables: name, type and meaning. Arrow tables, data frames and the documentation use them.

Columns with the same name have the same meaning in most tables. `frames.py` has the Arrow type and the data frame type
for each `CellType`. `cell` converts a value of a run to the type of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from trace_recorder.figures.content.chat_form import utf8_text
from trace_recorder.values.json_text import write_json
from trace_recorder.values.messages import Payload

CellType = Literal["text", "json", "integer", "number", "boolean", "time", "rewards", "tool_calls", "ranges", "origin"]
"""The types of cells. A `json` cell is a text: a text is unchanged, and any other value becomes JSON text."""
Of = Literal["runs", "calls", "steps", "tool_calls", "messages", "rewards"]
TableName = Literal["runs", "calls", "steps", "tool_calls", "messages", "rewards", "transcripts"]


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: CellType
    meaning: str


_FILE = Column("file", "text", "the path of the run's file, as it was given; with `trajectory_id` it joins the tables")
_OF_RUN = (
    _FILE,
    Column("trajectory_id", "text", "the id of the run"),
    Column("task", "text", "the task of the run"),
    Column("status", "text", "the run's status: running, completed, failed, interrupted or unknown"),
)
_SUCCESS = (*_OF_RUN, Column("success", "boolean", "whether the run succeeded, as its caller judged"))
_STARTED = Column(
    "started_at", "time", "when the run, call, step or tool call began, in UTC; a time without a zone is read as UTC"
)
_SECONDS = Column("duration_seconds", "number", "the duration in seconds")
_STEP = Column("step_number", "integer", "the number of the agent's step; null outside steps")
_AGENT = Column("agent", "text", "the agent's name, if the run names its agents")
_CALL = Column("interaction_id", "text", "the id of the call in its run, such as llm_3")
_CONTENT = Column("content", "text", "the text of the answer or of the message; the texts of several parts are joined")
_REASONING = Column("reasoning", "text", "the model's thinking, if it is on file")
_TOOL_CALLS = Column("tool_calls", "integer", "the number of tool calls that the model asked for")
_FAILED_TOOLS = Column("failed_tool_calls", "integer", "the number of tool results that report a failure")
_ERROR = Column("error", "text", "the error, as `type: message` if both are known")
_TOKENS = (
    Column("input_tokens", "integer", "the tokens of the prompts, cached tokens included"),
    Column("output_tokens", "integer", "the tokens of the answers, reasoning included"),
)
_COST = (
    Column("cost", "number", "US dollars, stated by the provider or from a table of prices"),
    Column("cost_estimated", "boolean", "whether the cost, or a part of it, is from a table of prices"),
)
_CALLS_WITHOUT_PRICE = Column(
    "calls_without_price", "integer", "the number of calls with tokens whose cost is unknown, in whole or in part"
)
_WITHOUT_RATE = Column(
    "without_rate", "json", "the names of what the cost leaves out, because the table of prices has no rate for it"
)
_MODEL = (
    Column("provider", "text", "who served the model"),
    Column("model", "text", "the model that the response names, or else the model that the request names"),
)
_REPLAYED = Column(
    "is_replayed", "boolean", "whether a recording gave the answer of the call, or the result of the tool"
)
_CALL_ID = Column("call_id", "text", "the id of the tool call, or of the tool call that a tool's message answers")

TABLES: Mapping[TableName, tuple[Column, ...]] = {
    "runs": (
        *(*_SUCCESS, _STARTED, _SECONDS),
        Column("parent", "text", "the id of the run that this fork continues, or in which its process was started"),
        Column("session", "text", "the caller's name for all runs that belong together"),
        Column(
            "provider",
            "text",
            "the provider that the caller named, or else the provider of the first call that was made",
        ),
        Column(
            "model", "text", "the model that the caller named, or else the model that the first made call asked for"
        ),
        Column("steps", "integer", "the number of steps"),
        Column("calls", "integer", "the number of LLM calls that were made"),
        Column("replayed_calls", "integer", "the number of calls that a recording answered"),
        Column("failed_calls", "integer", "the number of calls that failed with all their attempts"),
        *(_TOOL_CALLS, _FAILED_TOOLS, *_TOKENS, *_COST, _CALLS_WITHOUT_PRICE),
        Column("rewards", "rewards", "for each name, the last reward of the run as a whole"),
        Column("metadata", "json", "the metadata that the caller gave"),
        Column("final_result", "json", "the result that the caller gave"),
        _ERROR,
    ),
    "calls": (
        *(*_SUCCESS, _CALL),
        Column(
            "call_number",
            "integer",
            "the number of the call in the run, from 1; the calls of one conversation have consecutive numbers",
        ),
        *(_STARTED, _STEP, _AGENT, *_MODEL),
        Column("messages", "integer", "the number of messages that the model saw"),
        *(_CONTENT, _REASONING, _TOOL_CALLS),
        Column("finish_reason", "text", "why the model stopped, in the provider's word"),
        *_TOKENS,
        Column("cache_read_input_tokens", "integer", "the input tokens that the provider read from its cache"),
        Column("reasoning_tokens", "integer", "the output tokens of the model's thinking"),
        *(*_COST, _WITHOUT_RATE, _SECONDS),
        Column("time_to_first_token_seconds", "number", "the time from the request to the first part of the answer"),
        Column("attempts", "integer", "the number of HTTP exchanges; 0 for a call that was not made"),
        Column("complete", "boolean", "whether the whole answer is on file"),
        *(_ERROR, _REPLAYED),
        Column("replayed_from", "origin", "the recorded call that gave the answer"),
        Column(
            "is_side_call",
            "boolean",
            "whether the program made the call beside its conversation, for example to get a title",
        ),
        Column("run_inferred", "boolean", "whether the call had no context, and was put into the only open run"),
        Column("inferred_agent", "text", "the tool that started the call's sub-agent, if no record names an agent"),
    ),
    "steps": (
        *(*_SUCCESS, _STEP, _STARTED),
        Column("state", "text", "the state that the agent gave the step"),
        _AGENT,
        Column("derived", "boolean", "whether the step was derived from a call, because the agent recorded no step"),
        *(_CALL, _CONTENT, _TOOL_CALLS, _FAILED_TOOLS, _SECONDS),
        Column("reflection", "text", "what the agent noted about the step"),
        _ERROR,
    ),
    "tool_calls": (
        *_OF_RUN,
        Column("run_success", "boolean", "whether the run succeeded; `success` describes the tool call"),
        *(_STEP, _STARTED, _AGENT, _CALL_ID),
        Column("name", "text", "the name of the tool, or of a message's sender"),
        Column("arguments", "json", "the arguments as JSON, or as text if the model wrote no JSON"),
        Column("success", "boolean", "whether the tool succeeded"),
        Column("result", "text", "the result that the tool returned: a text, or JSON"),
        *(_ERROR, _SECONDS, _REPLAYED),
        Column("server", "text", "the MCP server of the tool; the names of several servers are joined by commas"),
        Column("server_version", "text", "the version that the server states"),
        Column(
            "joined_by",
            "text",
            "how the server's call was joined to the model's: id, name, or execution if the agent's own tool made it",
        ),
    ),
    "messages": (
        *_SUCCESS,
        Column("message_number", "integer", "the number of the message among the distinct messages of the run, from 1"),
        Column("role", "text", "system, user, assistant, tool or developer"),
        _CONTENT,
        Column("parts", "json", "the content as a list of parts, if it is not one text"),
        _REASONING,
        Column("requested_calls", "tool_calls", "the tool calls that an assistant's message asks for"),
        _CALL_ID,
        Column("name", "text", "the name of the tool, or of a message's sender"),
        Column("extra", "json", "other members, under the provider's names"),
        Column("first_call", "text", "the `interaction_id` of the first call that holds the message"),
        Column("held_by", "integer", "the number of calls that hold the message"),
        Column("call_ranges", "ranges", "the calls that hold the message, as ranges of `call_number` with both ends"),
    ),
    "rewards": (
        *_SUCCESS,
        Column("name", "text", "the name of the reward"),
        Column("value", "number", "the value of the reward"),
        Column("weight", "number", "the weight of the reward"),
        _STEP,
        Column("explanation", "text", "why the reward was given"),
        Column("timestamp", "time", "when the reward was given"),
    ),
    "transcripts": (
        Column("transcript_id", "text", "the id of the run, or else its file"),
        Column("source_type", "text", "`trace_recorder`, or the format that the run was imported from"),
        Column("source_id", "text", "the id that the run has in the tool that wrote it"),
        Column("source_uri", "text", "the path of the run's file, as it was given"),
        Column("date", "text", "when the run began, in ISO 8601"),
        Column("task_set", "text", "the `task_name` in the run's metadata"),
        Column("agent", "text", "the `agent` in the run's metadata"),
        Column("model", "text", "the model of the run"),
        Column("score", "json", "the reward of the run as a whole; an object of rewards by name if there are several"),
        Column("success", "boolean", "whether the run succeeded, as its caller judged"),
        Column("message_count", "integer", "the number of messages"),
        Column("total_time", "number", "how many seconds the run took"),
        Column("total_tokens", "integer", "the tokens of the prompts and the answers"),
        _ERROR,
        Column("messages", "json", "the last conversation of the main agent, as Inspect's ChatMessages"),
        Column("task", "text", "the task of the run"),
        Column("status", "text", "the run's status: running, completed, failed, interrupted or unknown"),
    ),
}
"""The columns of each table, in order.

The columns of `transcripts` have the names and types that Inspect Scout expects.
"""


_MIN_YEAR, _MAX_YEAR = 1678, 2261
"""A time that is not between these years becomes null.

Older versions of pandas need times that fit into 64 bits as nanoseconds.
"""


def cell(type_: CellType, value: Payload) -> Payload:
    """Convert a value for a column of type `type_`. Return None if the value does not fit."""
    convert = _CELLS.get(type_)
    if value is None or convert is None:
        return value
    return convert(value)


def column_cells(type_: CellType, values: list[Payload]) -> list[Payload]:
    """Convert the values of a column, as `cell` does."""
    convert = _CELLS.get(type_)
    if convert is None:
        return values
    cells: list[Payload] = []
    for value in values:
        if value is None:
            cells.append(None)
        else:
            cells.append(convert(value))
    return cells


def json_text(value: Payload) -> str:
    """Return a text unchanged, and any other value as JSON. The result can be encoded as UTF-8."""
    if not isinstance(value, str):
        value = write_json(value)
    return utf8_text(value)


def _integer(value: Payload) -> int | None:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    return None


def _number(value: Payload) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 1e308:
        return None
    return float(value)


def _boolean(value: Payload) -> bool | None:
    if isinstance(value, bool):
        return value
    return None


def _time(value: Payload) -> datetime | None:
    if not isinstance(value, datetime) or not _MIN_YEAR < value.year < _MAX_YEAR:
        return None
    if value.tzinfo:
        return value.astimezone(UTC)
    return value.replace(tzinfo=UTC)


_CELLS: dict[str, Callable[[Payload], Payload]] = {
    "text": json_text,
    "json": json_text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "time": _time,
}
