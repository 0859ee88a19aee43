"""Makes the rows of each table from a run.

A row is a dict with a value for each column name. `columns.py` explains the columns.

The table of messages has each distinct message of a run once, with the calls whose prompts have the message. The calls
of one conversation have consecutive numbers, so that the calls of a message are a few ranges of numbers. If a
conversation only grows, each message has one range, which ends with the last call. The prompts of such a conversation
share one array of message numbers, and differ only in where they end. Other prompts of a conversation have few changes
between them. So the time does not grow with the number of calls times the length of the history.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.comparison.trajectory_diff import figures_of
from trace_recorder.figures.content.chat_form import result_text
from trace_recorder.figures.conversations.inferred_agents import inferred_agents_of
from trace_recorder.figures.conversations.side_calls import side_calls_of
from trace_recorder.figures.cost import cost_of
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.formats.foreign_runs.journal_writer import IMPORTED_FROM
from trace_recorder.formats.inspect_ai.writing import last_conversation
from trace_recorder.tables.columns import TABLES, TableName, column_cells, json_text
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages, NumberedMessages
from trace_recorder.values.messages import MCPCall, Message, Payload, ToolResult
from trace_recorder.values.prompt_comparison import SharedNumbers
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.tool_uses import tool_uses_of
from trace_recorder.values.trajectory import Trajectory


class _CallPrompt(NamedTuple):
    """A call with its prompt.

    `array` is the `id()` of the array of message numbers. In it, the prompt begins at `start` and ends before `stop`.
    """

    call: LLMInteraction
    messages: Sequence[Message]
    array: int
    start: int
    stop: int


class NumberedCalls:
    """Gives numbers to the calls of a run: the calls of one conversation have consecutive numbers.

    `numbers` has the number of each call, in the order of `calls`.
    """

    def __init__(self, calls: Sequence[LLMInteraction]) -> None:
        prompts = [_prompt(call) for call in calls]
        arrays: dict[int, int] = {}
        for prompt in prompts:
            arrays.setdefault(prompt.array, len(arrays))
        order = sorted(range(len(prompts)), key=lambda index: arrays[prompts[index].array])
        self._prompts = [prompts[index] for index in order]
        self.numbers = [0] * len(order)  # not by id: a file that was written by hand may repeat an id
        for number, index in enumerate(order, 1):
            self.numbers[index] = number

    def rows(self) -> Iterator[dict[str, Payload]]:
        """Yield a row of the table of messages for each distinct message."""
        equal = EqualMessages(json_key)
        holders = _Holders()
        call = 0
        for segment in _segments(self._prompts):
            numbers = equal.shared_numbers_of(segment[-1].messages)
            for prompt in segment:
                call += 1
                holders.add(call, numbers.first(len(prompt.messages)))
        holders.add(call + 1, SharedNumbers(array("q")))
        for number, message in enumerate(equal.messages, 1):
            calls = holders.ranges[number - 1]
            yield {
                "message_number": number,
                **_message_cells(message),
                "first_call": self._prompts[calls[0][0] - 1].call.interaction_id,
                "held_by": sum(end - begin + 1 for begin, end in calls),
                "call_ranges": [{"first": begin, "last": end} for begin, end in calls],
            }


def _prompt(call: LLMInteraction) -> _CallPrompt:
    messages = call.input_messages
    if not isinstance(messages, NumberedMessages):
        return _CallPrompt(call, messages, id(messages), 0, len(messages))
    place = messages.place()
    return _CallPrompt(call, messages, id(place.array), place.start, place.stop)


def _segments(prompts: Sequence[_CallPrompt]) -> Iterator[list[_CallPrompt]]:
    """Divide prompts into groups.

    In a group, all prompts begin at the same place of one array, and none is shorter than the previous prompt.
    """
    for _, shared in groupby(prompts, key=lambda prompt: (prompt.array, prompt.start)):
        segment: list[_CallPrompt] = []
        for prompt in shared:
            if segment and prompt.stop < segment[-1].stop:
                yield segment
                segment = []
            segment.append(prompt)
        yield segment


class _Holders:
    """Finds the calls whose prompts have each message. `ranges` has them as ranges with both ends, by message number.

    Calls are added in the order of their numbers. The range of a message is added with the first call that lacks it.
    Only the changes of each prompt are read.
    """

    def __init__(self) -> None:
        self.ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._before = SharedNumbers(array("q"))
        self._counts: dict[int, int] = defaultdict(int)
        """How often the newest prompt has each message."""
        self._since: dict[int, int] = {}
        """The call with which the newest range of each message begins, if the newest prompt has the message."""

    def add(self, call: int, numbers: SharedNumbers) -> None:
        """Add a call with the numbers of the messages in its prompt."""
        changes, before = numbers.changes_from(self._before), self._before
        removed = [before.copy(change.position, change.position + change.removed) for change in changes]
        for number in chain.from_iterable(removed):
            self._counts[number] -= 1
        for number in chain.from_iterable(change.inserted for change in changes):
            self._counts[number] += 1
            self._since.setdefault(number, call)
        for number in chain.from_iterable(removed):
            if not self._counts[number] and number in self._since:
                self.ranges[number].append((self._since.pop(number), call - 1))
        self._before = numbers


def _message_cells(message: Message) -> dict[str, Payload]:
    requested_calls = [
        {"call_id": json_text(call.call_id), "name": json_text(call.name), "arguments": json_text(call.arguments)}
        for call in message.tool_calls
    ]
    content, parts = message.content, None
    if not isinstance(content, str):
        content = text_of(message) or None
    if isinstance(message.content, list):
        parts = message.content
    return {
        "role": message.role,
        "content": content,
        "parts": parts,
        "reasoning": message.reasoning,
        "requested_calls": requested_calls or None,
        "call_id": message.call_id,
        "name": message.name,
        "extra": message.extra or None,
    }


TableRow = dict[str, Payload]
RunOrRuns = Trajectory | Iterable[Trajectory]
Cells = dict[str, list[Payload]]
"""The values of each column of a table, by the column's name."""


def cells_of(runs: RunOrRuns, table: TableName) -> Cells:
    """Return the values of a table for one run or for several runs.

    A value that does not have the type of its column is None.
    """
    if isinstance(runs, Trajectory):
        runs = [runs]
    cells: Cells = {column.name: [] for column in TABLES[table]}
    for run in runs:
        rows, facts = [*_ROWS[table](run)], _facts_of(run)
        if not rows:
            continue
        for column in TABLES[table]:
            if column.name in rows[0]:
                cells[column.name] += column_cells(column.type, [row[column.name] for row in rows])
            else:
                cells[column.name] += column_cells(column.type, [facts[column.name]]) * len(rows)
    return cells


def joined_cells(cells: Iterable[Cells], table: TableName) -> Cells:
    """Return the cells of several runs in a table together."""
    joined: Cells = {column.name: [] for column in TABLES[table]}
    for of_run in cells:
        for name, values in of_run.items():
            joined[name] += values
    return joined


def _facts_of(run: Trajectory) -> TableRow:
    """Return the columns that have the same value in each row of a run."""
    return {
        "file": run.path and str(run.path),
        "trajectory_id": run.trajectory_id,
        "task": run.task,
        "status": run.status,
        "success": run.success,
        "run_success": run.success,
    }


def _run_rows(run: Trajectory) -> Iterator[TableRow]:
    figures = figures_of(run.llm_interactions)
    is_estimated = None
    if figures.cost is not None:
        is_estimated = bool(figures.estimated_cost)
    yield {
        "started_at": run.started_at,
        "duration_seconds": run.execution_time,
        "parent": run.parent,
        "session": run.session,
        "provider": run.provider,
        "model": run.model,
        "steps": len(run.agent_steps),
        "calls": figures.calls,
        "replayed_calls": figures.replayed_calls or 0,
        "failed_calls": run.metrics.get("failed_llm_calls"),
        "tool_calls": run.metrics.get("tool_calls"),
        "failed_tool_calls": run.metrics.get("failed_tool_calls"),
        "input_tokens": figures.input_tokens,
        "output_tokens": figures.output_tokens,
        "cost": figures.cost,
        "cost_estimated": is_estimated,
        "calls_without_price": figures.calls_without_price or 0,
        "rewards": rewards_of(run),
        "metadata": run.metadata,
        "final_result": run.final_result,
        "error": _error(run.error),
    }


def _call_rows(run: Trajectory) -> Iterator[TableRow]:
    numbers = NumberedCalls(run.llm_interactions).numbers
    side_calls, inferred_agents = side_calls_of(run), inferred_agents_of(run)
    for call, number in zip(run.llm_interactions, numbers, strict=True):
        response, inferred = call.response, inferred_agents.get(call.interaction_id)
        yield {
            "interaction_id": call.interaction_id,
            "call_number": number,
            "started_at": call.started_at,
            "step_number": call.step_number,
            "agent": call.agent,
            "provider": call.provider,
            "model": response.model or call.model,
            "messages": len(call.input_messages),
            "content": response.content,
            "reasoning": response.reasoning,
            "tool_calls": len(response.tool_calls),
            "finish_reason": response.finish_reason,
            **_figure_cells(call),
            "complete": call.complete,
            "error": _error(call.error),
            "is_replayed": call.is_replayed,
            "replayed_from": call.replayed_from and call.replayed_from.to_document(),
            "is_side_call": call.interaction_id in side_calls,
            "run_inferred": call.run_inferred,
            "inferred_agent": inferred and inferred.name,
        }


def _figure_cells(call: LLMInteraction) -> TableRow:
    """Return the figures of a call. A call that was not made, but replayed, has no figures."""
    cells = dict.fromkeys(_FIGURES)
    cells["attempts"] = 0
    if call.is_replayed:
        return cells
    counts = counts_of(call)
    if counts is not None:
        cells["input_tokens"] = counts.prompt
        cells["output_tokens"] = counts.completion
        cells["cache_read_input_tokens"] = counts.cache_read
        cells["reasoning_tokens"] = counts.reasoning
    cost = cost_of(call)
    if cost is not None:
        cells["cost"] = cost.amount
        cells["cost_estimated"] = cost.estimated
        cells["without_rate"] = [*cost.without_rate] or None
    cells["duration_seconds"] = call.duration_seconds
    cells["time_to_first_token_seconds"] = call.time_to_first_token_seconds
    cells["attempts"] = len(call.attempts)
    return cells


_FIGURES = (
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "reasoning_tokens"),
    *("cost", "cost_estimated", "without_rate", "duration_seconds", "time_to_first_token_seconds"),
)
"""The columns of `_figure_cells` that are null for a call without figures."""


def _step_rows(run: Trajectory) -> Iterator[TableRow]:
    for step in run.agent_steps:
        response = step.llm_response
        yield {
            "step_number": step.step_number,
            "started_at": step.started_at,
            "state": step.state,
            "agent": step.agent,
            "derived": step.derived,
            "interaction_id": step.interaction and step.interaction.interaction_id,
            "content": response and response.content,
            "tool_calls": len(step.tool_calls),
            "failed_tool_calls": sum(result.success is False for result in step.tool_results),
            "duration_seconds": step.duration_seconds,
            "reflection": step.reflection,
            "error": step.error,
        }


def _tool_call_rows(run: Trajectory) -> Iterator[TableRow]:
    for source, (name, call, result) in tool_uses_of(run):
        use = call or result
        yield {
            "step_number": source.step_number,
            "started_at": source.started_at,
            "agent": source.agent,
            "call_id": use and use.call_id,
            "name": name,
            "arguments": call and json_text(call.arguments),
            **_result_cells(result),
            **_server_cells(result),
        }


def _result_cells(result: ToolResult | None) -> TableRow:
    if result is None:
        return {"success": None, "result": None, "error": None, "duration_seconds": None, "is_replayed": False}
    text = duration = None
    if result.result is not None:
        text = result_text(result)
    if not result.replayed:
        duration = result.duration_seconds
    return {
        "success": result.success,
        "result": text,
        "error": result.error,
        "duration_seconds": duration,
        "is_replayed": result.replayed,
    }


def _server_cells(result: ToolResult | None) -> TableRow:
    calls: Sequence[MCPCall] = ()
    if result is not None:
        calls = result.mcp
    return {
        "server": _joined(call.server for call in calls),
        "server_version": _joined(call.version for call in calls),
        "joined_by": _joined(call.joined_by for call in calls),
    }


def _joined(names: Iterable[str | None]) -> str | None:
    """Return the distinct names, joined by commas, or None if no name is known."""
    return ", ".join(dict.fromkeys(filter(None, names))) or None


def _reward_rows(run: Trajectory) -> Iterator[TableRow]:
    for reward in run.rewards:
        yield {
            "name": reward.name,
            "value": reward.value,
            "weight": reward.weight,
            "step_number": reward.step_number,
            "explanation": reward.explanation,
            "timestamp": parse_time(reward.timestamp),
        }


def _transcript_rows(run: Trajectory) -> Iterator[TableRow]:
    """Yield the one row of a run, with the names and values that Inspect Scout expects."""
    origin = run.metadata.get(IMPORTED_FROM)
    if not isinstance(origin, dict):
        origin = {}
    rewards = rewards_of(run)
    score: Payload = rewards or None
    if len(rewards) == 1:
        [score] = rewards.values()
    figures = figures_of(run.llm_interactions)
    tokens = [count for count in (figures.input_tokens, figures.output_tokens) if count is not None]
    messages, _ = last_conversation(run.llm_interactions)
    yield {
        "transcript_id": run.trajectory_id or str(run.path or ""),
        "source_type": origin.get("format", "trace_recorder"),
        "source_id": origin.get("id", run.trajectory_id),
        "source_uri": run.path and str(run.path),
        "date": run.started_at and run.started_at.isoformat(),
        "task_set": run.metadata.get("task_name"),
        "agent": run.metadata.get("agent"),
        "model": run.model,
        "score": score,
        "message_count": len(messages),
        "total_time": run.execution_time,
        "total_tokens": sum(tokens) if tokens else None,
        "error": _error(run.error),
        "messages": messages,
    }


def _error(error: ErrorInfo | None) -> str | None:
    if error is None:
        return None
    return f"{error.type}: {error.message}"


_ROWS: Mapping[TableName, Callable[[Trajectory], Iterator[TableRow]]] = {
    "runs": _run_rows,
    "calls": _call_rows,
    "steps": _step_rows,
    "tool_calls": _tool_call_rows,
    "messages": lambda run: NumberedCalls(run.llm_interactions).rows(),
    "rewards": _reward_rows,
    "transcripts": _transcript_rows,
}
