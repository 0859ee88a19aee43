"""What differs between a request and the recorded one that is nearest to it, by message and by word."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from trace_recorder.rerun.matching import Live, fits
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.values.messages import Payload
from trace_recorder.views.comparison.value_changes import ValueChange, changes
from trace_recorder.views.comparison.word_changes import marked_words, shortened

MOST_LINES = 40
MOST_COMPARED = 200
"""How many recorded requests are searched for the nearest one."""


def nearest(live: Live, recording: Recording, left: Sequence[RecordedExchange]) -> RecordedExchange | None:
    """Return the recorded request, of the unused ones or else of all, that has most in common with this one."""
    same = [one for one in left or recording.exchanges if one.endpoint.api == live.endpoint.api][:MOST_COMPARED]
    live_texts = _texts(live.body)
    return max(same, key=lambda one: _in_common(live_texts, _texts(recording.request(one))), default=None)


def _texts(body: Payload) -> set[str]:
    """Return the members of a request, and the elements of its lists, each as a text."""
    members = body if isinstance(body, dict) else {"": body}
    texts = set()
    for name, value in members.items():
        values = value if isinstance(value, list) else [value]
        texts |= {f"{name} {json.dumps(one, sort_keys=True)}" for one in values}
    return texts


def _in_common(one: set[str], other: set[str]) -> float:
    return len(one & other) / (len(one | other) or 1)


def differences(recorded: Payload, live: Payload) -> Iterator[str]:
    """Describe, line by line, what is in one value and not in the other; nothing if they are equal."""
    return map(_line, changes(recorded, live, equal=fits))


def _line(change: ValueChange) -> str:
    if change.kind == "removed":
        return f"- {change.path}{' (recorded)' if change.path.endswith(']') else ''}: {_short(change.before)}"
    if change.kind == "added":
        return f"+ {change.path}: {_short(change.after)}"
    if isinstance(change.before, str) and isinstance(change.after, str):
        return f"~ {change.path}: {marked_words(change.before, change.after)}"
    return f"~ {change.path}: {_short(change.before)} was recorded, now it is {_short(change.after)}"


def _short(value: Payload) -> str:
    return shortened(json.dumps(value, ensure_ascii=False))


def explained(live: Live, recording: Recording, left: Sequence[RecordedExchange]) -> str:
    """Explain why a request has no recorded answer: the nearest recorded one, and what differs."""
    named = f"{live.endpoint.api}{f', {live.endpoint.model}' if live.endpoint.model else ''}"
    head = f"{recording.path.name} has no answer to this request ({named})"
    if not left:
        head += ": all of its calls have been given"
    one = nearest(live, recording, left)
    if one is None:
        return f"{head}: no recorded call is of this dialect."
    lines = list(differences(recording.request(one), live.body))
    if not lines:
        return f"{head}. It equals {one.interaction_id}, which has been given already, or was sent to another model."
    more = [f"… and {len(lines) - MOST_LINES} more differences"] if len(lines) > MOST_LINES else []
    return "\n  ".join([f"{head}. The nearest is {one.interaction_id}:", *lines[:MOST_LINES], *more])
