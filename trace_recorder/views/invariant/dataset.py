"""Invariant: a run as a list of messages, and datasets of runs as JSON lines (`invariant-ai` 0.3.5 reads them).

`messages.py` makes the messages and orders them. This module makes traces with metadata and annotations, and datasets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.content.kinds import IMAGES
from trace_recorder.views.export_format import ExportFormat, OutputPlace, Piece
from trace_recorder.views.invariant.messages import Events
from trace_recorder.views.left_out import (
    ARGUMENTS,
    ATTEMPTS,
    EMBEDDINGS,
    SAMPLED,
    ContentSupport,
    FormatSupport,
    count,
    count_changed_histories,
    count_unsupported_contents,
)
from trace_recorder.views.view import LeftOut, view

_ELSEWHERE = frozenset({"schema_version", "history", "annotations", "rewards"})
"""Members of the document that are not metadata: two say how it is written, two become annotations."""
_SHOWN = ContentSupport.of(IMAGES)
_SUPPORTED: FormatSupport = {"instructions": _SHOWN, "questions": _SHOWN, "tool results": _SHOWN}
"""The format has included images. Thoughts, other parts, and members next to the text are in `metadata`."""
ROOT = "<root>"
"""The address of annotations that are about a whole run."""


def to_invariant(trajectory: Trajectory) -> list[dict[str, Payload]]:
    """Return a run as a list of messages: system, user, assistant, tool.

    What has no place in a message is in its `metadata`: the agent, the interaction, thinking, parts that are neither
    text nor an included image. A run without messages is an empty list.
    """
    return Events.of(trajectory).messages


@view
def to_invariant_dataset(
    left_out: LeftOut, trajectories: Iterable[Trajectory], metadata: Mapping[str, Payload] | None = None
) -> Iterator[str]:
    """Return a dataset, line by line: its `metadata` first, if there is any, then one object a run.

    Each object has the run's messages, its metadata, its number as `index`, and its id as `name`. Its annotations are
    rewards, annotations, and the other members of steps, each at the address that it is about.
    """
    if metadata is not None:
        yield _json({"metadata": dict(metadata)})
    for index, trajectory in enumerate(trajectories):
        events = Events.of(trajectory)
        count(trajectory, left_out, ARGUMENTS, EMBEDDINGS, ATTEMPTS, SAMPLED)
        count_unsupported_contents(events.turns, left_out, _SUPPORTED)
        count_changed_histories(events.turns, left_out, "edits", "rewrites")
        yield _json(
            {
                "messages": events.messages,
                "annotations": _annotations(trajectory, events),
                "metadata": _about(trajectory),
                "index": index,
                "name": trajectory.trajectory_id or f"run_{index}",
            }
        )


def _about(trajectory: Trajectory) -> dict[str, Payload]:
    """Return the facts of a run as a whole, and its failed calls, which no message has."""
    document = {**trajectory.head(), **trajectory.tail("inline")}
    told = {name: value for name, value in document.items() if name not in _ELSEWHERE and value not in (None, {}, [])}
    failed = [
        {"interaction_id": one.interaction_id, "error": one.error.to_document()}
        for one in trajectory.llm_interactions
        if one.error is not None
    ]
    return told | ({"failed_calls": failed} if failed else {})


def _annotations(trajectory: Trajectory, events: Events) -> list[dict[str, Payload]]:
    annotations = [
        _annotation(None, value, kind="annotation", key=key) for key, value in trajectory.annotations.items()
    ]
    for reward in trajectory.rewards:
        members = {"kind": "reward", **reward.to_document()}
        words = f"{reward.name}: {reward.value}" + (f" ({reward.explanation})" if reward.explanation else "")
        annotations.append(_annotation(_at(events, reward.step_number), words, **members))
    for step in trajectory.agent_steps:
        said = step.extra if step.derived else {"reflection": step.reflection, "error": step.error, **step.extra}
        members = {"kind": "step", "step_number": step.step_number}
        where = _at(events, step.step_number)
        annotations += [
            _annotation(where, value, **members, key=key) for key, value in said.items() if value is not None
        ]
    return annotations


def _at(events: Events, step_number: int | None) -> int | None:
    return None if step_number is None else events.answers.get(number_or_text(step_number))


def _annotation(place: int | None, content: Payload, **members: Payload) -> dict[str, Payload]:
    return {
        "content": content if isinstance(content, str) else _json(content),
        "address": ROOT if place is None else f"messages.{place}",
        "extra_metadata": {"source": "trace_recorder", **members},
    }


def _json(value: Payload) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pieces(lines: Iterable[str], _: OutputPlace) -> Iterator[Piece]:
    yield from (("", row) for row in map(json.loads, lines) if row["messages"])


FORMAT = ExportFormat(
    name="invariant",
    kind="rows",
    view=to_invariant_dataset,
    arguments=lambda run, _: ([run],),
    pieces=_pieces,
    begins_with_metadata=True,
    numbers_runs=True,
)
