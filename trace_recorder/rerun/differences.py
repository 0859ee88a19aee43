"""The differences between a request and the most similar recorded request, by message and by word."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence

from trace_recorder.rerun.matching import LiveRequest, fits
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload
from trace_recorder.values.value_changes import ValueChange, changes, marked_words, shortened

MAX_LINES = 40
"""A message lists at most this many differences, and counts the others."""
MAX_COMPARED = 200
"""At most this many recorded requests are compared to find the most similar request."""
_REMOVED = (
    "Texts were removed from this recording (trace-recorder redact). The mask [REDACTED:removed] equals any text, but "
    "a changed name of a member, and a text that a function has changed, do not."
)


def nearest(live: LiveRequest, recording: Recording, unused: Sequence[RecordedExchange]) -> RecordedExchange | None:
    """Return the recorded call of the same dialect whose request has most in common with this request, or None.

    Only unused calls are compared. If all calls have been used, all calls are compared. An item that several requests
    share is read once, so a long conversation is not read again for each request.
    """
    exchanges = unused or recording.exchanges
    candidates = [exchange for exchange in exchanges if exchange.endpoint.api == live.endpoint.api][:MAX_COMPARED]
    live_texts = _texts(live.body)
    recorded = _RecordedTexts(recording)

    def similarity(exchange: RecordedExchange) -> float:
        texts = recorded.of(exchange)
        return len(live_texts & texts) / (len(live_texts | texts) or 1)

    return max(candidates, key=similarity, default=None)


def _texts(body: Payload) -> set[str]:
    """Return a text for each member of a request, or for each element if the member is a list."""
    if not isinstance(body, dict):
        body = {"": body}
    return {text for name, value in body.items() for text in _texts_of_member(name, value)}


def _texts_of_member(name: str, value: Payload) -> list[str]:
    if not isinstance(value, list):
        return [_text(name, value)]
    return [_text(name, element) for element in value]


def _text(name: str, value: Payload) -> str:
    return f"{name} {json.dumps(value, sort_keys=True)}"


class _RecordedTexts:
    """The texts of recorded requests. The text of an item is made once for all requests that have the item."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._of_items: dict[tuple[str, int], list[str]] = {}

    def of(self, exchange: RecordedExchange) -> set[str]:
        """Return the texts that `_texts` returns for the request, or an empty set if a needed line is damaged."""
        if exchange.call.sent is None or exchange.call.sent.items is None:
            return _texts(self._recording.request(exchange))
        try:
            body, numbers = exchange.call.request_in_items()
            if not numbers.keys() <= body.keys():  # members of an object in the request
                return _texts(self._recording.request(exchange))
            return {text for name, value in body.items() for text in self._of_member(name, value, numbers.get(name))}
        except ours(KeyError, TypeError, ValueError, IndexError, AttributeError):
            return set()

    def _of_member(self, name: str, value: Payload, items: int | array[int] | None) -> Iterator[str]:
        if items is None:
            yield from _texts_of_member(name, value)
        elif isinstance(items, int):
            yield from self._of_item(name, items, whole=True)
        else:
            for number in items:
                yield from self._of_item(name, number, whole=False)

    def _of_item(self, name: str, number: int, *, whole: bool) -> list[str]:
        """Return the texts of an item.

        If `whole` is True, the item is the value of the member, and otherwise an element of the member's list.
        """
        if (name, number) not in self._of_items:
            value = self._recording.item(number)
            texts = [_text(name, value)]
            if whole:
                texts = _texts_of_member(name, value)
            self._of_items[name, number] = texts
        return self._of_items[name, number]


def differences(recorded: Payload, live: Payload) -> Iterator[str]:
    """Yield a line for each difference between two values."""
    return map(_line, changes(recorded, live, equal=fits))


def _line(change: ValueChange) -> str:
    if change.kind == "removed" and change.path.endswith("]"):
        return f"- {change.path} (recorded): {_short(change.before)}"
    if change.kind == "removed":
        return f"- {change.path}: {_short(change.before)}"
    if change.kind == "added":
        return f"+ {change.path}: {_short(change.after)}"
    if isinstance(change.before, str) and isinstance(change.after, str):
        return f"~ {change.path}: {marked_words(change.before, change.after)}"
    return f"~ {change.path}: {_short(change.before)} was recorded, now it is {_short(change.after)}"


def _short(value: Payload) -> str:
    return shortened(json.dumps(value, ensure_ascii=False))


def explain_mismatch(live: LiveRequest, recording: Recording, unused: Sequence[RecordedExchange]) -> str:
    """Return a message that a request has no recorded answer.

    The message lists the differences from the nearest recorded request.
    """
    kind = ", ".join(filter(None, (live.endpoint.api, live.endpoint.model)))
    head = f"{recording.path.name} has no answer to this request ({kind})"
    if not unused:
        head += ": all recorded calls have been used"
    closest = nearest(live, recording, unused)
    if closest is None:
        return f"{head}: no recorded call is of this dialect."
    lines = list(differences(recording.request(closest), live.body))
    if not lines:
        return f"{head}. It equals {closest.interaction_id}, which has been used already, or was sent to another model."
    shown = [f"{head}. The nearest is {closest.interaction_id}:", *lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(f"… and {len(lines) - MAX_LINES} more differences")
    if recording.removals:
        shown.append(_REMOVED)
    return "\n  ".join(shown)
