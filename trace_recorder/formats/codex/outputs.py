"""Reads the results of tools and the token counts in a rollout.

No member of a result says whether the tool failed. The result of a command states its exit code in a JSON text, or in
the lines before its output. `token_count` events state the cumulative totals of the session. An event with the same
totals as an earlier event is a repetition. From 0.169 on, a `token_usage_record` follows each answer, and the events
only repeat its counts.
"""

from __future__ import annotations

import re

from trace_recorder.dialects.json_access import Members, as_dict, as_int, as_number, as_text, json_value
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.formats.foreign_runs.stated_values import stated_flag, stated_time, usage_at
from trace_recorder.values.messages import Message, Payload, Usage
from trace_recorder.values.structs import replace

_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,9})$", re.MULTILINE)
_HEADER_END = "\nOutput:"


def with_failure(result: Message) -> Message:
    """Return a tool's result with `exit_code` and `is_error` if the result states an exit code or a success.

    Any other message is returned unchanged.
    """
    if result.role != "tool":
        return result
    if isinstance(result.content, str):
        code = _exit_code(result.content)
        if code is None:
            return result
        return replace(result, extra={**result.extra, "exit_code": code, "is_error": code != 0})
    if isinstance(result.content, list) and result.content:
        success = stated_flag(as_dict(result.content[0]).get("success"))
        if success is not None:
            return replace(result, extra={**result.extra, "is_error": not success})
    return result


def _exit_code(text: str) -> int | None:
    if text.startswith("{"):
        return as_int(as_dict(as_dict(json_value(text)).get("metadata")).get("exit_code"))
    header, separator, _ = text.partition(_HEADER_END)
    if separator and (match := _EXIT_CODE.search(header)):
        return int(match[1])
    return None


class TokenCounts:
    """Reads the tokens of calls from `token_usage_record` lines. A file without such lines has `token_count` events."""

    def __init__(self) -> None:
        self._totals = Usage(input_tokens=0, output_tokens=0)
        self._seen: set[tuple[int, ...]] = set()
        self._has_records = False

    def read_record(self, payload: Payload) -> Usage | None:
        """Return the usage of the last call from a `token_usage_record`, or None if the record has no usage."""
        usage = as_dict(as_dict(payload).get("usage"))
        if not usage:
            return None
        self._has_records = True
        return usage_at(Members(usage), _COUNTS)

    def read_event(self, payload: Payload) -> Usage | None:
        """Return the usage of the last call from a `token_count` event, or None if the event says nothing new.

        Totals may repeat, or go back for a while. Lower totals than before are new only if they equal the usage of the
        last call, because then the count began again at 0. If the event has only totals, the usage is their increase.
        """
        info = as_dict(as_dict(payload).get("info"))
        stated_totals, last = as_dict(info.get("total_token_usage")), as_dict(info.get("last_token_usage"))
        if self._has_records:
            return None
        usage = usage_at(Members(last), _COUNTS)
        totals = self._totals
        if stated_totals:
            totals = usage_at(Members(stated_totals), _COUNTS)
            is_increase = _size(totals) > _size(self._totals)
            begins_again = _size(totals) == _size(usage)
            if _counts_of(totals) in self._seen or not (is_increase or begins_again):
                return None
            if not last:
                usage = _difference(totals, self._totals)
        if not _size(usage):  # the event estimates the size of the context
            return None
        if stated_totals:
            self._seen.add(_counts_of(totals))
            self._totals = totals
        return usage


def _size(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _counts_of(usage: Usage) -> tuple[int, ...]:
    return tuple(getattr(usage, name) or 0 for name in _COUNTS)


def _difference(totals: Usage, earlier: Usage) -> Usage:
    counts = {name: getattr(totals, name) for name in _COUNTS}
    known = {name: count for name, count in counts.items() if count is not None}
    return Usage(**{name: max(0, count - (getattr(earlier, name) or 0)) for name, count in known.items()})


class CompletedTools:
    """Collects exit codes, outputs and times of completed tools from events, by the ids of the tool calls.

    From 0.169 on, each tool is the item of an `item_completed` event. Earlier versions have an event for each kind of
    tool, such as `exec_command_end`.
    """

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Payload]] = {}

    def read_event(self, event: dict[str, Payload]) -> None:
        """Remember an event if it completes a tool."""
        call_id: str | None = None
        if event.get("type") == "item_completed":
            item = as_dict(event.get("item"))
            if item.get("type") != "SubAgentActivity":  # its id is that of a tool call whose result it does not have
                call_id = as_text(item.get("id"))
        elif str(event.get("type")).endswith("_end"):
            call_id = as_text(event.get("call_id"))
        if call_id is not None:
            self._events[call_id] = event

    def refine(self, executions: list[ToolRun]) -> list[ToolRun]:
        """Set the result, the times and the duration of each execution from the event that reports the end of its tool.

        Return the executions.
        """
        for execution in executions:
            event = self._events.get(execution.call_id or "", {})
            item = as_dict(event.get("item")) or event
            if not event:
                continue
            execution.result = item
            execution.time = stated_time(event.get("started_at_ms")) or execution.time
            execution.ended = stated_time(event.get("completed_at_ms")) or execution.ended
            duration = as_dict(item.get("duration"))
            seconds, nanos = as_number(duration.get("secs")), as_number(duration.get("nanos"))
            execution.duration_seconds = None
            if seconds is not None and nanos is not None:
                execution.duration_seconds = seconds + nanos / 1e9
        return executions


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_creation_input_tokens": "cache_write_input_tokens",
    "cache_read_input_tokens": "cached_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}
