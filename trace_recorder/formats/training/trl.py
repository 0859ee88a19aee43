"""Rows for TRL and the Hugging Face trainers (https://huggingface.co/docs/trl/dataset_formats), one for each branch.

There are three forms. "messages" is the conversation up to the first answer that must not be trained on, because the
form has no weights. "prompt_completion" takes the messages before the new answers as the prompt, so no answer of an
earlier row is trained on again. "tokens" has the sampled ids of a rollout, if the server sent them. Text is never
tokenised again, because that may give ids that were not sampled.

Make a dataset from the rows with `Dataset.from_list(rows, on_mixed_types="use_json")` (datasets 4.7 or newer). Without
that argument, objects that differ, such as arguments, are padded with nulls. A dataset takes its columns from the first
row, so all rows have all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Literal, get_args

from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.content.chat_form import arguments_object, chat_call, text_lines
from trace_recorder.figures.content.kinds import IMAGES, IMAGES_BY_ADDRESS, THOUGHTS
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.figures.rollouts import Rollout, SampledAnswer, TokenBranch, sampled_rollout
from trace_recorder.figures.sampled_tokens import tokens_of
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    ANNOTATIONS,
    ARGUMENTS,
    GAPS,
    SAMPLED,
    STEP_NOTES,
    ContentSupport,
    FormatSupport,
    count,
    count_unsupported_contents,
)
from trace_recorder.formats.training.branches import Branch, BranchMessage, branches, count_unlearned, tools_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.content_parts import Image, Text, parts_of
from trace_recorder.values.messages import Message, Payload, ToolCall, without_none
from trace_recorder.values.trajectory import Trajectory

Form = Literal["messages", "prompt_completion", "tokens"]
FORMS: tuple[Form, ...] = get_args(Form)
Row = dict[str, Payload]

AFTER_FAULT = "answers that follow an answer that must not be trained on; this form cannot mask them"
_SHOWN = ContentSupport.of(IMAGES, IMAGES_BY_ADDRESS)
SUPPORTED: FormatSupport = {"instructions": _SHOWN, "questions": _SHOWN, "answers": ContentSupport.of(THOUGHTS)}
"""The supported contents of messages.

The form "tokens" has the exact prompt, so no content counts as left out there.
"""


@view
def to_trl(
    left_out: LeftOut,
    trajectory: Trajectory,
    form: Form = "messages",
    *,
    include_incomplete: bool = False,
) -> list[Row]:
    """Return the rows of a run in one of the forms.

    There are no rows if no answer may be trained on. The form "tokens" has no rows if no token ids were recorded.
    Answers that were cut off, or are incomplete or empty, are not trained on, unless `include_incomplete` is True.

    Besides TRL's own columns there are `trajectory_id`, `rewards`, and the run's metadata `group` and `attempt`. For
    messages there is `turns`: for each answer, its interaction, its finish reason, whether it is new, and its token ids
    and log-probabilities if they were recorded. For tokens there are `interactions`, and `weight_versions`: for each
    interaction, which version of the weights sampled which tokens of its answer.
    """
    turns = turns_of(trajectory)
    targets = branches(trajectory, turns, include_incomplete=include_incomplete)
    count_unlearned(trajectory, turns, targets, left_out)
    if form not in FORMS:
        raise ValueError(f"form is {form!r}, and must be one of {', '.join(FORMS)}")
    if form != "tokens":
        count_unsupported_contents(turns, left_out, SUPPORTED)
    count(trajectory, left_out, STEP_NOTES, ANNOTATIONS, GAPS)
    if form == "prompt_completion":
        count(trajectory, left_out, SAMPLED)
    rewards = [{"name": name, "value": value} for name, value in rewards_of(trajectory).items()]
    run_columns: Row = {"trajectory_id": trajectory.trajectory_id, "rewards": rewards}
    run_columns |= {name: trajectory.metadata.get(name) for name in ("group", "attempt")}
    if form == "tokens":
        rows = _tokens(trajectory, targets, left_out)
    else:
        rows = [row for branch in targets for row in _TEXT_FORMS[form](branch, left_out)]
    return [row | run_columns for row in rows]


def messages_of(lines: Sequence[BranchMessage], left_out: LeftOut) -> list[Row]:
    """Write messages in the form for chat templates. Arguments are objects, and a tool message has the tool's name."""
    names: dict[str, str] = {}
    written = []
    for line in lines:
        names |= {call.call_id: call.name for call in line.message.tool_calls}
        written.append(_message(line.message, names, left_out))
    return written


# ── the forms ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _messages(branch: Branch, left_out: LeftOut) -> list[Row]:
    whole = branch.lines()
    end = next((place for place, line in enumerate(whole) if _is_faulty(line)), len(whole))
    left_out.add(AFTER_FAULT, sum(line.new for line in whole[end:]))
    answers = (place for place, line in enumerate(whole[:end], start=1) if line.message.role == "assistant")
    lines = whole[: max(answers, default=0)]  # messages after the last answer have no answer in this row
    if not any(line.new for line in lines):
        return []
    return [
        {
            "messages": messages_of(lines, left_out),
            "tools": tools_of(branch, left_out),
            "turns": [_turn(place, line) for place, line in enumerate(lines) if line.turn],
        }
    ]


def _is_faulty(line: BranchMessage) -> bool:
    """Whether a line is a message of the model that must not be trained on.

    The form "messages" trains on every message of the model.
    """
    message = line.message
    if message.role != "assistant":
        return False
    if line.turn is not None:
        return not line.target
    return not (message.tool_calls or text_of(message).strip())


def _prompt_completion(branch: Branch, left_out: LeftOut) -> list[Row]:
    """Return a row for each sequence of new answers. An answer that must not be trained on ends a sequence."""
    lines = branch.lines()
    messages, tools = messages_of(lines, left_out), tools_of(branch, left_out)
    rows: list[Row] = []
    for begin, end in _completions(lines):
        if not begin:
            left_out.add("rows without a prompt, which TRL refuses")
        elif messages[begin - 1]["role"] == "system":
            left_out.add("rows whose prompt ends with instructions, which TRL refuses")
        else:
            rows.append({"prompt": messages[:begin], "completion": messages[begin:end], "tools": tools})
    return rows


def _completions(lines: Sequence[BranchMessage]) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each sequence of answers to train on."""
    begin: int | None = None
    end = 0
    for place, line in enumerate(lines):
        if begin is not None and _is_faulty(line):
            yield begin, end
            begin = None
        if line.new and begin is None:
            begin = place
        if line.new:
            end = place + 1
    if begin is not None:
        yield begin, end


def _tokens(trajectory: Trajectory, targets: Sequence[Branch], left_out: LeftOut) -> list[Row]:
    """Return a row for each branch of the rollout that has an answer to train on."""
    rollout = sampled_rollout(trajectory)
    new = frozenset[Turn]().union(*(branch.new for branch in targets))
    left_out.add("calls whose token ids were not recorded", sum(_name_of(turn) not in rollout.calls for turn in new))
    trained = {answer for branch in targets for answer in _answers(branch)}
    rows = [_token_row(branch, rollout, trained) for branch in rollout.branches]
    return [row for row in rows if any(row["assistant_masks"])]


def _answers(branch: Branch) -> Iterator[SampledAnswer]:
    """Yield the answers of a branch that no earlier branch has, and that a model may be trained on."""
    choices = [after.choice for after in branch.turns[1:]] + [0]
    for turn, choice in zip(branch.turns, choices, strict=True):
        if turn in branch.new:
            yield SampledAnswer(_name_of(turn), choice)


def _name_of(turn: Turn) -> str:
    return turn.interaction.interaction_id


def _token_row(branch: TokenBranch, rollout: Rollout, trained: Collection[SampledAnswer]) -> Row:
    masks = [[int(span.answer in trained)] * len(span.token_ids) for span in branch.spans]
    names = [answer.interaction_id for answer in branch.answers]
    versions = [rollout.calls[name].weight_versions for name in names]
    return {
        "input_ids": branch.token_ids,
        "assistant_masks": [sampled and one for sampled, one in zip(branch.mask, chain(*masks), strict=True)],
        "logprobs": branch.logprobs,
        "interactions": names,
        "weight_versions": [[asdict(version) for version in of_call] for of_call in versions],
    }


_TEXT_FORMS: dict[Form, Callable[[Branch, LeftOut], list[Row]]] = {
    "messages": _messages,
    "prompt_completion": _prompt_completion,
}


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _message(message: Message, names: dict[str, str], left_out: LeftOut) -> Row:
    if message.role == "assistant":
        calls = [_call(call, left_out) for call in message.tool_calls]
        members = without_none(reasoning_content=message.reasoning, tool_calls=calls or None)
        return {"role": "assistant", "content": text_of(message), **members}
    if message.role == "tool":
        name = message.name or names.get(message.call_id or "")
        return {"role": "tool", "content": text_lines(message), **without_none(name=name, tool_call_id=message.call_id)}
    if message.role == "user":
        return {"role": "user", "content": _content(message)}
    return {"role": "system", "content": _content(message)}


def _content(message: Message) -> str | list[Row]:
    parts = parts_of(message)
    if not any(isinstance(part, Image) for part in parts):
        return text_of(message)
    content: list[Row] = []
    for part in parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            content.append({"type": "image", "url": part.address})
    return content


def _call(call: ToolCall, left_out: LeftOut) -> Row:
    left_out.add(ARGUMENTS, not isinstance(call.arguments, dict))
    return chat_call(call, arguments_object(call))


def _turn(place: int, line: BranchMessage) -> Row:
    turn = line.turn
    assert turn is not None  # noqa: S101 - callers pass only lines with a turn
    call, tokens = turn.interaction, tokens_of(turn.interaction)
    return {"message": place, "interaction_id": call.interaction_id, "new": line.new} | without_none(
        model=call.response.model or call.model,
        finish_reason=call.response.finish_reason,
        prompt_token_ids=tokens.prompt_ids,
        completion_token_ids=tokens.completion_ids,
        logprobs=tokens.logprobs,
    )
