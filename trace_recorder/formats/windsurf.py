"""Windsurf's transcripts, which it writes for its hooks: one step of Cascade in each line.

A step has a `type`, a `status`, and its facts in a member that is named like its type. `user_input` is a prompt,
`planner_response` a text of the model. Every other step is a tool that ran: the arguments and the result are in one
object, and only their names tell them apart. The first step after a tool begins the next call. There are no times, no
ids, no model and no tokens.

    .windsurf/transcripts/<trajectory>.jsonl

Source: a transcript of Windsurf of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.agent_history import AnswerParts
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_call
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Message
from trace_recorder.values.token_counts import WHOLE

_PROMPT, _TEXT = "user_input", "planner_response"
_OUTPUTS = ("output", "content")
"""Members of a step with the text that a tool gave. The first one that is there is the result."""
_OUTCOMES = {*_OUTPUTS, "exit_code", "total_results", "user_rejected", "acknowledgement_type"}
"""Members of a step that are no arguments of the tool."""
_FAILED = {"done": False, "error": True}
"""Whether a tool failed, by the status of its step."""


def recognizes(source: Source) -> bool:
    """Return whether the first line is a step, and one of the first steps is a prompt or a text of the model.

    Other programs have lines of the same form.
    """
    steps = [as_dict(line.value) for line in source.first_lines]
    kinds = [as_text(step.get("type")) or "" for step in steps]
    if not {_PROMPT, _TEXT}.intersection(kinds):
        return False
    first, kind = steps[0], kinds[0]
    return first.keys() == {"type", "status", kind} and isinstance(first[kind], dict)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the conversation of a file."""
    reader = SessionReader(ForeignRun(identity=source.path.stem))
    parts = AnswerParts(reader.history)
    for step in reader.lines(source):
        kind = as_text(step.get("type")) or "step"
        facts = as_dict(step.get(kind))
        if parts.has_results or kind == _PROMPT:
            parts.close()
        if kind == _PROMPT:
            prompt = as_text(facts.get("user_response"))
            reader.note_task(prompt)
            reader.history.add(Message("user", prompt), "")
        elif kind == _TEXT:
            parts.add_text(as_text(facts.get("response")))
        elif kind in step:
            _add_tool(parts, kind, facts, step)
        else:
            reader.keep(kind, step)
    parts.close()
    yield reader.finish()


def _add_tool(parts: AnswerParts, name: str, facts: Members, step: Members) -> None:
    """Add a tool call and its result. A step that has not ended has no result."""
    arguments = {name: value for name, value in facts.items() if name not in _OUTCOMES}
    parts.add_call(stated_call(None, name, arguments))
    failed = _FAILED.get(as_text(step.get("status")) or "")
    if failed is not None:
        outputs = (as_text(facts.get(output)) for output in _OUTPUTS)
        content = next((output for output in outputs if output is not None), None)
        extra = {name: value for name, value in facts.items() if name in _OUTCOMES and name not in _OUTPUTS}
        parts.add_result(Message("tool", content, extra=extra | {"is_error": failed}))


FORMAT = Format(
    name="windsurf",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(HomePlace(program="Windsurf", directory=".windsurf", files=("transcripts/*.jsonl",)),),
)
