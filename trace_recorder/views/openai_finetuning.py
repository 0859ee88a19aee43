"""OpenAI's fine-tuning rows (https://platform.openai.com/docs/guides/supervised-fine-tuning): one row a branch.

A row has `messages`, and `tools` and `parallel_tool_calls` where there were any, and nothing else. Each assistant
message has a `weight`: 1 for what the model said in this run, 0 for what it was made to have said, what did not come
whole, and what an earlier row has.
"""

from __future__ import annotations

from collections import Counter

from trace_recorder.conversation import Message, Payload, ToolCall, known
from trace_recorder.trajectory import Trajectory
from trace_recorder.views.branches import Branch, Line, branches_of, count_left_out
from trace_recorder.views.functions import arguments_text, function_of, is_function
from trace_recorder.views.left_out import ANNOTATIONS, GAPS, REMARKS, REWARDS, SAMPLED, count
from trace_recorder.views.parts import Image, Other, Text, lines_of, others_of, parts_of, text_of


def to_openai_finetuning(trajectory: Trajectory, *, dropped: Counter[str] | None = None) -> list[dict[str, Payload]]:
    """Give the rows of a run, ready to be written as JSONL; none where nothing came whole.

    What the format has no place for is counted in `dropped`.
    """
    counter: Counter[str] = Counter() if dropped is None else dropped
    branches = branches_of(trajectory)
    count_left_out(trajectory, branches, counter)
    count(trajectory, counter, SAMPLED, REMARKS, REWARDS, ANNOTATIONS, GAPS)
    return [_row(branch, counter) for branch in branches]


def _row(branch: Branch, dropped: Counter[str]) -> dict[str, Payload]:
    tools = branch.tools()
    dropped["tools without a schema"] += sum(not is_function(tool) for tool in tools)
    functions = [function_of(tool) for tool in tools if is_function(tool)]
    at_once = branch.leaf.parameters.get("parallel_tool_calls")
    return {"messages": [_message(line, dropped) for line in branch.lines()]} | known(
        tools=functions or None,
        parallel_tool_calls=at_once if functions and isinstance(at_once, bool) else None,
    )


def _message(line: Line, dropped: Counter[str]) -> dict[str, Payload]:
    message = line.message
    if message.role == "assistant":
        return _assistant(line, dropped)
    if message.role == "tool":
        dropped["parts of tool results that are no text"] += sum(1 for _ in others_of(message))
        return {"role": "tool", "tool_call_id": message.call_id or "", "content": lines_of(message)}
    if message.role == "user":
        return {"role": "user", "content": _user_content(message, dropped)} | known(name=message.name)
    dropped["parts of instructions that are no text"] += sum(1 for _ in others_of(message))
    return {"role": "system", "content": text_of(message)} | known(name=message.name)


def _assistant(line: Line, dropped: Counter[str]) -> dict[str, Payload]:
    message = line.message
    dropped["thoughts"] += message.reasoning is not None
    dropped["parts of answers that are no text"] += sum(1 for _ in others_of(message))
    text = text_of(message)
    calls = [_call(call) for call in message.tool_calls]
    content = None if calls and not text else text
    return {"role": "assistant", "content": content, **known(tool_calls=calls or None), "weight": int(line.new)}


def _call(call: ToolCall) -> dict[str, Payload]:
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": call.call_id, "type": "function", "function": function}


def _user_content(message: Message, dropped: Counter[str]) -> str | list[Payload]:
    """A user's content: a text, or parts where there are images, which have to be addresses or data URIs."""
    parts = parts_of(message)
    dropped["parts of questions that are neither text nor image"] += sum(isinstance(part, Other) for part in parts)
    if not any(isinstance(part, Image) for part in parts):
        return text_of(message)
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.address}}
        for part in parts
        if not isinstance(part, Other)
    ]
