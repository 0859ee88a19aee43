"""Streams of the OpenAI chat and completions dialects: their chunks, joined to the body of the unstreamed answer.

A chunk has members of its own and choices, each of which grows by deltas. Servers disagree on what identifies a tool
call in a delta: its index, its id, or neither. `_Calls` holds the one rule for this. Chunks are fresh from the parser
and are modified in place.

How two values are merged is defined in `chat_deltas.py`, the framing of events in `sse.py`, and what the body means in
`openai_chat.py` and `openai_completions.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from trace_recorder.dialects.chat_deltas import GrowingText, finish_texts, keeps_first, merge
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, is_nonempty, json_value
from trace_recorder.dialects.sse import events, unstreamed
from trace_recorder.values.messages import JoinedStream, Payload

_FUNCTION_KEYS = ("function", "custom")
# Random filler of OpenAI and Mistral, there to hide the lengths of tokens on the wire.
_PADDING = ("obfuscation", "p")


def join_chunks(text: str, adapt: Callable[[dict[str, Payload]], Payload] | None = None) -> JoinedStream:
    """Join the chunks of a stream. `adapt` converts an event's JSON to the form of a chunk, if it has another form.

    If every event was converted, it is unknown whether the stream is complete.
    """
    joined = _Joined()
    for name, data in events(text):
        joined.events += 1
        if data.strip() == "[DONE]":
            joined.done = True
            continue
        value = json_value(data)
        event = chunk = value if isinstance(value, dict) else {}
        if adapt is not None:
            chunk = as_dict(adapt(event))
            joined.adapted += chunk is not event
        error = error_of(name, chunk, data) if name or "error" in chunk or chunk.get("object") == "error" else None
        joined.add(chunk, error)
    return joined.stream() if joined.events else unstreamed(text)


def error_of(name: str | None, chunk: dict[str, Payload], data: str) -> Payload:
    """Return the error in an event, or None."""
    if name == "error" or chunk.get("object") == "error":
        return chunk.get("error") or chunk or data
    return chunk.get("error")


class _Joined:
    """A body that grows by chunks."""

    __slots__ = ("_choices", "_members", "adapted", "done", "error", "events")

    def __init__(self) -> None:
        self._members: dict[str, Payload] = {}
        self._choices: dict[int, _Choice] = {}
        self.events = 0
        self.adapted = 0
        self.done = False
        self.error: Payload = None

    def add(self, chunk: dict[str, Payload], error: Payload) -> None:
        if error:
            self.error = error
            chunk = chunk if "error" in chunk else {"error": error}
        choices = chunk.pop("choices", None)
        for value in choices if isinstance(choices, list) else ():
            choice = value if isinstance(value, dict) else {}
            index = choice.get("index")
            if type(index) is not int:
                index = as_int(index) or 0
            if index not in self._choices:
                self._choices[index] = _Choice()
            self._choices[index].add(choice)
        if chunk.items() <= self._members.items():  # most chunks only repeat these members members
            return
        for key, value in chunk.items():
            seen = self._members.get(key)
            if seen != value and not keeps_first(key, seen, value):
                self._members[key] = value

    def stream(self) -> JoinedStream:
        body = {key: value for key, value in self._members.items() if key not in _PADDING}
        if isinstance(kind := body.get("object"), str):
            body["object"] = kind.removesuffix(".chunk")
        choices = [finish_texts(choice.body(index)) for index, choice in sorted(self._choices.items())]
        if choices:
            body["choices"] = choices
        finished = bool(choices) and all(choice.get("finish_reason") for choice in choices)
        ended = None if self.adapted == self.events else self.done or finished
        return JoinedStream(body, ended, self.events, self.error)


class _Choice:
    """One answer that grows by deltas."""

    __slots__ = ("_calls", "_members", "_message")

    def __init__(self) -> None:
        self._members: dict[str, Payload] = {}
        self._message: dict[str, Payload] = {}
        self._calls = _Calls()

    def add(self, choice: dict[str, Payload]) -> None:
        delta = choice.pop("delta", None)
        if isinstance(delta, dict):
            for call in as_list(delta.pop("tool_calls", None)) if "tool_calls" in delta else ():
                self._calls.add(as_dict(call))
            merge(self._message, delta)
        merge(self._members, choice)

    def body(self, index: int) -> dict[str, Payload]:
        message = self._message
        if self._calls.calls:
            message = {**message, "tool_calls": self._calls.calls}
        if not message and ("text" in self._members or "message" in self._members):
            return {**self._members, "index": index}
        return {**self._members, "index": index, "message": message}


class _Calls:
    """Tool calls that grow by deltas.

    A delta belongs to the call with its id, else to the latest call with its index. A delta without an index, or with
    only arguments, belongs to the latest call. A delta begins a new call if there is no such call, or if it names a
    function and that call has another id or complete arguments.
    """

    __slots__ = ("_by_id", "_by_index", "calls")

    def __init__(self) -> None:
        self.calls: list[dict[str, Payload]] = []
        self._by_index: dict[int, dict[str, Payload]] = {}
        self._by_id: dict[str, dict[str, Payload]] = {}

    def add(self, delta: dict[str, Payload]) -> None:
        index = as_int(delta.pop("index", None))
        if not delta:
            return
        call = self._call(index, delta)
        if index is not None:
            self._by_index[index] = call
        called = _function_in(delta)
        if name := as_text(called.get("name")):
            known = as_text(_function_in(call).get("name")) or ""
            called["name"] = name if name == known else known + name
        merge(call, delta)
        if identity := as_text(call.get("id")):
            self._by_id.setdefault(identity, call)

    def _call(self, index: int | None, delta: dict[str, Payload]) -> dict[str, Payload]:
        call_id = delta.get("id")
        if call := self._by_id.get(as_text(call_id) or ""):
            return call
        candidate = None if index is None else self._by_index.get(index)
        if candidate is None and self.calls and (index is None or not (call_id or _function_in(delta).get("name"))):
            candidate = self.calls[-1]
        if candidate is None or _begins_another_call(delta, candidate):
            candidate = {}
            self.calls.append(candidate)
        return candidate


def _begins_another_call(delta: dict[str, Payload], candidate: dict[str, Payload]) -> bool:
    """Whether a delta that was matched with this call begins another one."""
    called = _function_in(delta)
    if not called.get("name"):
        return False
    known = _function_in(candidate)
    if not known.get("name"):
        return False
    if delta.get("id") and candidate.get("id"):
        return True
    arguments = known.get("arguments")
    if isinstance(arguments, GrowingText):
        if not arguments.may_be_json():
            return False
        arguments = str(arguments)
    complete = isinstance(json_value(arguments) if isinstance(arguments, str) else arguments, dict)
    return complete and bool(called.get("arguments") or called["name"] != known["name"])


def function_key(call: dict[str, Payload]) -> str:
    """Return the member of a call or a declared tool that holds its function: "function" or "custom".

    The type decides; if there is none, the member that is not empty.
    """
    there = [name for name in _FUNCTION_KEYS if isinstance(call.get(name), dict)]
    if call.get("type") in there:
        return str(call["type"])
    return next((name for name in there if is_nonempty(call[name])), [*there, "function"][0])


def _function_in(call: dict[str, Payload]) -> dict[str, Payload]:
    return as_dict(call.get(function_key(call)))
