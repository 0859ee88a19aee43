"""Antigravity's transcripts, of its command line and its editor: one step in each line.

A step has a `source`, a `type` and a time. `PLANNER_RESPONSE` is an answer of the model: its text, its thoughts and its
tool calls. The arguments of a tool call are JSON texts. A later step of the model with another type is the result of a
tool. Steps name no tool call, so the results answer the calls in order. There are no tokens, and no model.

    antigravity-cli/brain/<conversation>/.system_generated/logs/transcript_full.jsonl
    antigravity-cli/brain/<conversation>/.system_generated/logs/transcript.jsonl          the same, with shorter texts

If both files exist, only the full one is a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, json_value
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_time, text_in_tag
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, ToolCall
from trace_recorder.values.token_counts import WHOLE

_FULL, _SHORT = "transcript_full.jsonl", "transcript.jsonl"
_BRAIN = "brain"
"""The directory with the directories of all conversations."""
_PROMPT, _ANSWER = "USER_INPUT", "PLANNER_RESPONSE"
_TYPED = "USER_REQUEST"
"""The tag around the words that the user typed."""
_STEP = Signs(members=("step_index", "source", "status", "created_at"))


def recognizes(source: Source) -> bool:
    """Return whether the first line is a step, and the file has no fuller file beside it."""
    if source.path.name == _SHORT and source.path.with_name(_FULL).is_file():
        return False
    return _STEP.in_first_line(source)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the conversation of a file."""
    reader = _AntigravityReader(ForeignRun(identity=_identity(source), provider="google"))
    for line in reader.lines(source):
        reader.read_step(line, as_text(line.get("type")) or "step", stated_time(line.get("created_at")))
    yield reader.finish()


def _identity(source: Source) -> str:
    """Return the name of the conversation's directory, which is the id. By default, return the name of the file."""
    path = source.path.absolute()
    for directory in path.parents:
        if directory.parent.name == _BRAIN:
            return directory.name
    return path.stem


class _AntigravityReader(SessionReader):
    """Reads one conversation."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._open_calls = 0
        """How many tool calls of the last answer have no result yet."""

    def read_step(self, step: Members, kind: str, time: str) -> None:
        """Read a step of this kind, which began at this time."""
        if kind == _PROMPT:
            content = as_text(step.get("content"))
            self.note_task(text_in_tag(content or "", _TYPED) or content)
            self.history.add(Message("user", content), time)
        elif kind == _ANSWER:
            calls = tuple(map(_tool_call, map(as_dict, as_list(step.get("tool_calls")))))
            self._open_calls = len(calls)
            content, thought = as_text(step.get("content")), as_text(step.get("thinking"))
            self.history.call(time, LLMResponse(content, reasoning=thought, tool_calls=calls))
        elif self._open_calls and step.get("source") == "MODEL":
            self._open_calls -= 1
            self._read_result(step, time)
        else:
            self.keep(kind, step, time)

    def _read_result(self, step: Members, time: str) -> None:
        extra: Members = {"type": step.get("type")}
        if step.get("status") == "ERROR":
            extra["is_error"] = True
        content = as_text(step.get("content")) or as_text(step.get("error"))
        self.history.add(Message("tool", content, extra=extra), time)


def _tool_call(call: Members) -> ToolCall:
    """Return a tool call. Its arguments are JSON texts. If one of them is not, all are taken as they are."""
    arguments = as_dict(call.get("args"))
    values: Members = {}
    for name, value in arguments.items():
        values[name] = json_value(value) if isinstance(value, str) else value
        if values[name] is None:
            values = arguments
            break
    return stated_call(None, call.get("name"), values)


FORMAT = Format(
    name="antigravity",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Antigravity CLI",
            directory=".gemini/antigravity-cli",
            files=("brain/*/.system_generated/logs/transcript*.jsonl",),
        ),
        HomePlace(
            program="Antigravity",
            directory=".gemini/antigravity",
            files=("brain/*/.system_generated/logs/transcript*.jsonl",),
        ),
    ),
)
