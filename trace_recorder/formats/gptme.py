"""gptme's conversations: lines with a role, a text and a time.

The text of an answer has the thoughts in `<think>`, and then the words. With `--tool-format tool`, a tool call is a
line `@name(id): {...}`, and the result is a system message with the `call_id`. With the other formats, a call is a part
of the text, and the result is a system message. The system prompt is several system messages. `metadata` has the model,
the tokens and the durations of an answer. Input tokens leave out cached tokens. Times have no offset.

    gptme/logs/<conversation>/conversation.jsonl, branches/<name>.jsonl

Source: gptme 0.35.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import counts_at, stated_call, stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.messages import LLMResponse, Message, ToolCall, Usage, without_none
from trace_recorder.values.token_counts import CACHE_APART

_CONVERSATION = "conversation.jsonl"
_LINE = Signs(values={"role": {"system", "user", "assistant"}}, members=("content", "timestamp"))
_OF_GPTME = {"pinned", "hide", "call_id", "files"}
"""Members of messages that other programs do not have. At least one of the first lines has one."""
_NOT_OF_GPTME = {"type", "uuid", "id"}
_READ = {"role", "content", "timestamp", "call_id", "metadata"}
_THOUGHT = lazy_pattern(r"\s*<think(?:ing)?>(.*?)</think(?:ing)?>\s*", re.DOTALL)
_TOOL_CALL = lazy_pattern(r"^@([\w.-]{1,100})\(([\w.:-]{1,200})\): *(?=\{)", re.MULTILINE)
_DECODER = json.JSONDecoder()


def recognizes(source: Source) -> bool:
    """Return whether the first line is a message, and one of the first lines has a member of gptme."""
    lines = [as_dict(line.value) for line in source.first_lines]
    if not lines or not _LINE.match(lines[0]) or lines[0].keys() & _NOT_OF_GPTME:
        return False
    return any(_LINE.match(line) and line.keys() & _OF_GPTME for line in lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the conversation of a file."""
    path = source.path.absolute()
    identity = path.parent.name if path.name == _CONVERSATION else path.stem
    reader = SessionReader(ForeignRun(identity=identity))
    for line in reader.lines(source):
        time = stated_time(line.get("timestamp"))
        if not _LINE.match(line):
            reader.keep(as_text(line.get("type")) or "line", line, time)
        elif line.get("role") == "assistant":
            _read_answer(reader, line, time)
        else:
            _read_message(reader, line, time)
    yield reader.finish()


def _read_message(reader: SessionReader, line: Members, time: str) -> None:
    role, call_id = as_text(line.get("role")) or "", as_text(line.get("call_id"))
    metadata = as_dict(line.get("metadata"))
    extra = {name: value for name, value in line.items() if name not in _READ}
    if call_id is not None:
        role = "tool"
    content = as_text(line.get("content"))
    message = Message(role, content, call_id=call_id, name=as_text(metadata.get("tool")), extra=extra)
    reader.history.add(message, time)
    if role == "user":
        reader.note_task(content)


def _read_answer(reader: SessionReader, line: Members, time: str) -> None:
    metadata = as_dict(line.get("metadata"))
    timings = as_dict(metadata.get("timings"))
    response = _response(as_text(line.get("content")) or "", metadata)
    call = reader.history.call(time, response)
    first, rest = as_number(timings.get("ttft_ms")), as_number(timings.get("gen_ms"))
    if first is not None and rest is not None:
        call.time_to_first_token_seconds, call.duration_seconds = first / 1000, (first + rest) / 1000
    reader.note_model(call.model)
    reader.keep("metadata", metadata, time)


def _response(text: str, metadata: Members) -> LLMResponse:
    thought: str | None = None
    if match := _THOUGHT.match(text):
        thought, text = match[1].strip(), text[match.end() :]
    text, calls = _without_calls(text)
    return LLMResponse(
        text or None,
        reasoning=thought,
        tool_calls=tuple(calls),
        usage=Usage(**counts_at(as_dict(metadata.get("usage")), _COUNTS)),
        model=as_text(metadata.get("served_model")) or as_text(metadata.get("model")),
        extra=without_none(cost=as_number(metadata.get("cost"))),
    )


def _without_calls(text: str) -> tuple[str, list[ToolCall]]:
    """Return a text without its lines with tool calls, and these tool calls."""
    parts: list[str] = []
    calls: list[ToolCall] = []
    end = 0
    for match in _TOOL_CALL.finditer(text):
        if match.start() < end:  # inside the arguments of an earlier call
            continue
        try:
            arguments, after = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        parts.append(text[end : match.start()])
        calls.append(stated_call(match[2], match[1], arguments))
        end = after
    return "".join([*parts, text[end:]]).strip(), calls


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_creation_tokens",
    "reasoning_tokens": "reasoning_tokens",
}


FORMAT = Format(
    name="gptme",
    reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART),
    home=(
        HomePlace(
            program="gptme",
            directory=".local/share/gptme",
            files=("logs/*/conversation.jsonl", "logs/*/branches/*.jsonl"),
        ),
    ),
)
