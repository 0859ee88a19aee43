"""Streams of the OpenAI Responses dialect: their events, joined to the body of the unstreamed answer.

The last event carries the whole response, which is the body. Without it, items are built from the events: by their
members, and by the last word of their names (`…function_call_arguments.delta` adds to `arguments`). So unknown events
are handled too. Only the raw stream has the times of events.

What the body means is defined in `openai_responses.py`, the framing of events in `sse.py`.
"""

from __future__ import annotations

from trace_recorder.dialects.chat_chunks import error_of
from trace_recorder.dialects.chat_deltas import append_text, finish_texts
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, json_value
from trace_recorder.dialects.sse import events, unstreamed
from trace_recorder.values.messages import JoinedStream, Payload

_LAST = frozenset(f"response.{state}" for state in ("completed", "incomplete", "failed", "cancelled"))


def join_events(text: str) -> JoinedStream:
    """Join the events of a stream. It may be cut off anywhere."""
    joined = _Joined()
    for name, data in events(text):
        joined.events += 1
        joined.ended = joined.ended or data.strip() == "[DONE]"
        event = as_dict(json_value(data))
        kind = as_text(event.get("type")) or name or ""
        joined.error = error_of(kind, event, data) or joined.error
        joined.add(kind, event)
    return joined.stream() if joined.events else unstreamed(text)


class _Joined:
    """A response that grows by events."""

    __slots__ = ("_items", "_response", "ended", "error", "events")

    def __init__(self) -> None:
        self._response: dict[str, Payload] = {}
        self._items: dict[int, dict[str, Payload]] = {}
        self.events = 0
        self.ended = False
        self.error: Payload = None

    def add(self, kind: str, event: dict[str, Payload]) -> None:
        if response := as_dict(event.get("response")):
            self._response = response
            self.ended = self.ended or kind in _LAST
            self.error = response.get("error") or self.error
        elif (index := as_int(event.get("output_index"))) is not None:
            item = as_dict(event.get("item")) or self._items.get(index, {})
            self._items[index] = item
            _build(_place(item, kind, event), kind, event)

    def stream(self) -> JoinedStream:
        body = dict(self._response)
        items = [finish_texts(item) for _, item in sorted(self._items.items()) if item]
        if items and not as_list(body.get("output")):
            body["output"] = items
        if self.error and not body.get("error"):
            body["error"] = self.error
        return JoinedStream(body, self.ended, self.events, self.error)


def _place(item: dict[str, Payload], kind: str, event: dict[str, Payload]) -> dict[str, Payload]:
    """Return the target of an event: a part of the item, which is created if needed, or the item itself."""
    for key, index in (("content", "content_index"), ("summary", "summary_index")):
        if (position := as_int(event.get(index))) is None:
            continue
        parts = item[key] = as_list(item.get(key))
        if 0 <= position < len(parts) and isinstance(parts[position], dict):
            return as_dict(parts[position])
        parts.append({"type": kind.removeprefix("response.").removesuffix(".delta")})
        return as_dict(parts[-1])
    return item


def _build(place: dict[str, Payload], kind: str, event: dict[str, Payload]) -> None:
    """Add the content of an event: a whole part, a piece of a text, or the complete text at its end."""
    place.update(as_dict(event.get("part")))
    word = kind.rpartition(".")[0].rpartition(".")[2].rpartition("_")[2]
    delta = event.get("delta")
    if isinstance(delta, str):
        place[word] = append_text(place.get(word), delta)
        _extend(place, "logprobs", as_list(event.get("logprobs")))
    elif isinstance(event.get(word), str):
        place[word] = event[word]
    _extend(place, "annotations", [event["annotation"]] if event.get("annotation") else [])


def _extend(place: dict[str, Payload], key: str, more: list[Payload]) -> None:
    if more:
        place[key] = as_list(place.get(key))
        place[key] += more
