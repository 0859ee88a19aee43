"""Streams of Google's Interactions dialect: their events, joined to the body of the unstreamed answer.

Each step is started, grows by deltas and is stopped. Any event may carry the token counts.

What the body means is defined in `google_interactions.py`, the framing of events in `sse.py`.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import Members, arguments_of, as_dict, as_int, as_list, as_text, json_value
from trace_recorder.dialects.sse import events, unstreamed
from trace_recorder.values.messages import JoinedStream, Payload

_CONTENTS = ("text", "image", "audio", "video", "document")


def join_events(text: str) -> JoinedStream:
    """Join the events of a stream to the interaction that it is without streaming."""
    joined = _Joined()
    number = 0
    for number, (name, data) in enumerate(events(text), start=1):  # noqa: B007 read after the loop
        joined.add(name, data)
    return joined.stream(number) if number else unstreamed(text)


def kind_of(element: Payload) -> str:
    """Return the type of a step, a content or a delta; empty if there is none."""
    return as_text(as_dict(element).get("type")) or ""


class _Block:
    """A step, or a content of a step, that grows by deltas."""

    def __init__(self, start: Payload) -> None:
        self._members = dict(as_dict(start))
        self._parts: list[_Block] = []
        self._pieces: dict[str, list[str]] = {}

    def grow(self, delta: dict[str, Payload]) -> None:
        """Add a delta: contents become parts or extend the last one, summaries and annotations are collected."""
        kind = kind_of(delta)
        if kind in _CONTENTS and kind != kind_of(self._members):
            if kind != "text" or not self._parts or kind_of(self._parts[-1]._members) != kind:
                self._parts.append(_Block({"type": kind}))
            self._parts[-1].grow(delta)
        elif kind == "thought_summary":
            self._members["summary"] = as_list(self._members.get("summary"))
            self._members["summary"].append(delta.get("content"))
        elif kind == "text_annotation_delta" and self._parts:
            self._parts[-1].grow(delta)
        else:
            self._merge(delta)

    def _merge(self, delta: dict[str, Payload]) -> None:
        """Concatenate texts and arguments, collect annotations; otherwise keep the last value that is not empty."""
        for name, value in delta.items():
            if name in ("text", "arguments") and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            elif name == "annotations" and isinstance(value, list):
                self._members[name] = as_list(self._members.get(name))
                self._members[name] += value
            elif name != "type" and value not in (None, ""):
                self._members[name] = value

    def assembled(self) -> dict[str, Payload]:
        """Return the block in its form without streaming. Arguments that were cut off stay text."""
        if self._parts:
            self._members["content"] = as_list(self._members.get("content")) + [
                part.assembled() for part in self._parts
            ]
        for name, pieces in self._pieces.items():
            said = "".join([as_text(self._members.get(name)) or "", *pieces])
            self._members[name] = arguments_of(said) if name == "arguments" else said
        return self._members


class _Joined:
    """An interaction that grows by events."""

    def __init__(self) -> None:
        self._body: dict[str, Payload] = {}
        self._blocks: list[_Block] = []
        self._growing: dict[int | None, _Block] = {}
        self._list = "steps"
        self._ended = False

    def add(self, name: str | None, data: str) -> None:
        """Add one event. An event that is no JSON object, or of an unknown type, changes nothing."""
        event = Members(json_value(data))
        kind = event.text("event_type") or name or ""
        metadata = event.object("metadata")
        self._frame({"usage": metadata.get("usage") or metadata.get("total_usage")})
        if kind.startswith("interaction."):
            self._frame({"id": event.text("interaction_id"), **event.object("interaction"), **event.rest()})
        elif kind == "error":
            self._body["error"] = event.take("error") or event.rest() or data
        elif kind.startswith(("step.", "content.")):
            self._list = "steps" if kind.startswith("step.") else "outputs"
            started = event.object("step") or event.object("content")
            self._block(as_int(event.take("index")), started, event.object("delta"))
        self._ended |= kind in ("interaction.completed", "interaction.complete", "done")

    def _frame(self, members: dict[str, Payload]) -> None:
        self._body.update({name: value for name, value in members.items() if value is not None})

    def _block(self, index: int | None, started: dict[str, Payload], delta: dict[str, Payload]) -> None:
        if started or (delta and index not in self._growing):
            self._growing[index] = _Block(started or {"type": "model_output"})
            self._blocks.append(self._growing[index])
        if delta:
            self._growing[index].grow(delta)

    def stream(self, number: int) -> JoinedStream:
        """Return the result of `number` events. If the provider sends all steps at the end, those are used."""
        if self._blocks and not self._body.get(self._list):
            self._body[self._list] = [block.assembled() for block in self._blocks]
        return JoinedStream(self._body, self._ended, number, self._body.get("error"))
