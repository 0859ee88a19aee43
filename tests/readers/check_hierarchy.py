"""Compare our Hierarchy with trajectory-sdk: its dataclasses accept it, and its hash and its builder's tree are equal.

needs: Python 3.12, pip install trajectory-sdk==0.5.3
usage: PYTHONPATH=. python -m tests.readers.check_hierarchy DIRECTORY   of `export --format hierarchy`, in both cuts
"""

from __future__ import annotations

import json
import types
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, Union, get_args, get_origin, get_type_hints

import trajectory_sdk as tj
from trajectory_sdk.primitives import primitives
from trajectory_sdk.utils.hashing import content_hash

from tests.readers.contents import Contents
from tests.readers.reading import Reader, documents, finish

LINEAR = frozenset({"tools", "document_only", "thinking", "gemini", "local", "responses", "code_agent", "react"})
"""Runs of one conversation, for which the SDK's builder must make the same steps."""
CUTS = {"tools": ([6, 10], [2, 4, 5, 6, 9, 10]), "sub_agents": ([4, 5], [2, 1, 3, 4, 4, 5]), "empty": ([], [])}
"""How many messages the steps of a run have, by turn and by message."""


def build(kind: Any, value: Any) -> Any:
    """Make a dataclass of its dict, recursively. An unknown member is an error."""
    if value is None:
        return None
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return build(next(one for one in inner if one is not type(None)), value)
    if origin is list:
        assert isinstance(value, list)
        return [build(inner[0], one) for one in value]
    if not is_dataclass(kind):
        return value
    hints = get_type_hints(kind)
    assert value.keys() == {field.name for field in fields(kind)}, (kind, value.keys())
    return kind(**{name: build(hints[name], one) for name, one in value.items()})


def read(name: str, trees: tuple[Any, Any]) -> None:
    """Compare a run with the SDK, in both cuts."""
    for tree in trees:
        made = build(primitives.Trajectory, tree)
        assert asdict(made) == tree
        bare = replace(made, telemetry=None, error=None)
        assert content_hash(bare) == tree["telemetry"]["data"]["content_hash"]
        assert all(one.role in {"system", "user", "assistant", "tool"} for step in made.steps for one in step.messages)
    lengths = tuple([len(step["messages"]) for step in tree["steps"]] for tree in trees)
    assert lengths == CUTS.get(name, lengths)
    if name in LINEAR:
        _same_as_built(build(primitives.Trajectory, trees[1]))


def _same_as_built(ours: Any) -> None:
    """Check that the SDK's builder makes the same tree from the same messages, apart from the members that only we
    know.
    """
    messages = tj.messages_from_openai_chat([_openai(message) for message in ours.steps[-1].messages])
    theirs = tj.build_trajectory_from_messages(
        messages,
        conversation_id=ours.task.conversation_id,
        data_source=ours.task.data_source,
        reward=ours.reward,
        task_metadata={**asdict(ours.task), "completion_tokens": ours.metrics.tokens_generated},
        model_id=ours.model_id,
    )
    known = {"tool_response": None, "tool_definitions": None}
    stripped = [
        [replace(message, **known, metadata=message.metadata or None) for message in step.messages]
        for step in theirs.steps
    ]
    assert [[replace(message, **known) for message in step.messages] for step in ours.steps] == stripped
    for mine, built in zip(ours.steps[-1].messages, messages, strict=True):
        if mine.tool_response is not None:
            assert replace(mine.tool_response, arguments={}, error=None) == built.tool_response
    assert ours.task == theirs.task
    failures = {"num_tool_failures": 0, "tool_error_rate": 0.0, "num_tool_response_none": None}
    assert replace(ours.metrics, **failures, aggregated_reward=None) == theirs.metrics
    assert ours.execution_metrics.termination_reason == theirs.execution_metrics.termination_reason


def _openai(message: Any) -> dict[str, Any]:
    entry = {"role": message.role, "content": message.content, "metadata": message.metadata}
    entry |= {"usage": message.usage, "finish_reason": message.finish_reason, "reasoning": message.reasoning}
    if message.tool_calls:
        function = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in message.tool_calls]
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": one}
            for call, one in zip(message.tool_calls, function, strict=True)
        ]
    if message.tool_response is not None:
        entry |= {"tool_call_id": message.tool_response.id, "name": message.tool_response.name}
    return entry


reader = Reader("trajectory-sdk: dataclasses, hash, builder", "trees by turn and by message", "trajectory-sdk")
by_message = dict(documents("hierarchy-message"))
for run, tree in documents("hierarchy"):
    reader.take(run, lambda run=run, tree=tree: read(run, (tree, by_message[run])))
by_turn = Contents("trajectory-sdk: contents of its dataclasses, by turn", "hierarchy", "trajectory-sdk")
every_message = Contents("trajectory-sdk: likewise, by message", "hierarchy-message", "trajectory-sdk")
for contents in (by_turn, every_message):
    contents.hold(lambda trees, _: [asdict(build(primitives.Trajectory, tree)) for tree in trees])
finish(reader, by_turn, every_message)
