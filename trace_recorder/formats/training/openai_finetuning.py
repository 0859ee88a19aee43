"""OpenAI's fine-tuning rows (https://platform.openai.com/docs/guides/supervised-fine-tuning): one row for each branch.

A row has `messages`, and also `tools` and `parallel_tool_calls` if the request had them. Each assistant message has a
`weight`. The weight is 0 for a message that the agent wrote, for an incomplete answer, and for an answer that an
earlier row has. All other answers have the weight 1.
"""

from __future__ import annotations

from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.content.chat_form import arguments_text, chat_call, chat_part, text_lines
from trace_recorder.figures.content.kinds import IMAGES, IMAGES_BY_ADDRESS, NAMES
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    ANNOTATIONS,
    GAPS,
    REWARDS,
    SAMPLED,
    STEP_NOTES,
    ContentSupport,
    FormatSupport,
    count,
    count_unsupported_contents,
)
from trace_recorder.formats.training.branches import Branch, BranchMessage, branches, count_unlearned, tools_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.content_parts import Image, Other, parts_of
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.trajectory import Trajectory

_SUPPORTED: FormatSupport = {
    "instructions": ContentSupport.of(NAMES),
    "questions": ContentSupport.of(IMAGES, IMAGES_BY_ADDRESS, NAMES),
}


@view
def to_openai_finetuning(
    left_out: LeftOut, trajectory: Trajectory, *, include_incomplete: bool = False
) -> list[dict[str, Payload]]:
    """Return the rows of a run for a JSONL file.

    A run without an answer to train on has no rows. Answers that were cut off, or are incomplete or empty, have the
    weight 0, and no row ends with such an answer. If `include_incomplete` is True, such answers are treated like all
    others.
    """
    turns = turns_of(trajectory)
    targets = branches(trajectory, turns, include_incomplete=include_incomplete)
    count_unlearned(trajectory, turns, targets, left_out)
    count_unsupported_contents(turns, left_out, _SUPPORTED)
    count(trajectory, left_out, SAMPLED, STEP_NOTES, REWARDS, ANNOTATIONS, GAPS)
    return [_row(branch, left_out) for branch in targets]


def _row(branch: Branch, left_out: LeftOut) -> dict[str, Payload]:
    row: dict[str, Payload] = {"messages": [_message(line) for line in branch.lines()]}
    functions = tools_of(branch, left_out)
    if functions is None:
        return row
    row["tools"] = functions
    is_parallel = branch.leaf.parameters.get("parallel_tool_calls")
    if isinstance(is_parallel, bool):
        row["parallel_tool_calls"] = is_parallel
    return row


def _message(line: BranchMessage) -> dict[str, Payload]:
    message = line.message
    if message.role == "assistant":
        return _assistant(line)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id or "", "content": text_lines(message)}
    if message.role == "user":
        return {"role": "user", "content": _user_content(message)} | without_none(name=message.name)
    return {"role": "system", "content": text_of(message)} | without_none(name=message.name)


def _assistant(line: BranchMessage) -> dict[str, Payload]:
    message = line.message
    content: str | None = text_of(message)
    calls = [chat_call(call, arguments_text(call)) for call in message.tool_calls]
    if calls and not content:
        content = None
    return {"role": "assistant", "content": content, **without_none(tool_calls=calls or None), "weight": int(line.new)}


def _user_content(message: Message) -> str | list[Payload]:
    """Return a user's content: a text, or parts if there are images. Images are addresses or data URIs."""
    parts = parts_of(message)
    if not any(isinstance(part, Image) for part in parts):
        return text_of(message)
    return [chat_part(part) for part in parts if not isinstance(part, Other)]
