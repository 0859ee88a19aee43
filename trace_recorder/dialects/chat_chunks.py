"""Joins the chunks of a stream in the OpenAI chat and completions dialects into the body of the unstreamed answer.

A chunk has choices and other members. Each choice grows by deltas. Some servers identify a tool call in a delta by an
index, some by an id, and some not at all. `_Calls` has one rule for all of them. Chunks are modified in place, because
no other module uses them.

`deltas.py` merges the delta of a choice into its message, including unknown members. The other members of a choice are
whole: only the texts with a known name come in pieces there.

Neighbouring chunks that add a piece to the same text, and change nothing else, are joined as one chunk
(`event_forms.py`). `stream_framing.py` splits the stream into events. `openai_chat.py` and `openai_completions.py` read
the body.
"""

from __future__ import annotations

from collections.abc import Callable

from trace_recorder.dialects.deltas import (
    GrowingText,
    comes_in_pieces,
    finish_texts,
    is_text_of_model,
    keeps_first,
    merge,
)
from trace_recorder.dialects.event_forms import PIECE, MergedRuns
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, is_nonempty, json_value
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import JoinedStream, Payload

# Chunks are searched for pieces of text down to this depth. No dialect's JSON is that deep.
_DEPTH = 8
_FUNCTION_KEYS = ("function", "custom")
# Members with random text, with which OpenAI and Mistral hide the lengths of tokens on the wire.
_PADDING = ("obfuscation", "p")


def join_chat_stream(text: str, adapt: Callable[[dict[str, Payload]], Payload] | None = None) -> JoinedStream:
    """Join the chunks of a stream.

    `adapt` converts the JSON of an event that has a different form to the form of a chunk.

    If `adapt` has converted every event, it is unknown whether the stream is complete.
    """
    joined = _JoinedChunks()
    runs = MergedRuns(_can_join)
    if adapt is not None:
        runs = MergedRuns(lambda _: False)
    for name, data in events(text, runs):
        joined.events += 1
        if data.strip() == "[DONE]":
            joined.done = True
            continue
        value = json_value(data)
        event = chunk = value if isinstance(value, dict) else {}
        if adapt is not None:
            chunk = as_dict(adapt(event))
            joined.adapted += chunk is not event
        error = None
        if name or "error" in chunk or chunk.get("object") == "error":
            error = error_of(name, chunk, data)
        joined.add(chunk, error)
    joined.events += runs.merged
    if joined.events == 0:
        return unstreamed(text)
    return joined.stream()


def _can_join(chunk: Payload) -> bool:
    """Whether chunks like `chunk`, each with its own piece of text, can be joined to one chunk."""
    choices = as_list(as_dict(chunk).get("choices"))
    return len(choices) == 1 and _repeats(choices[0], "", _DEPTH)


def _repeats(value: Payload, name: str, depth: int) -> bool:
    """Whether a second merge of this value only lengthens the text that comes in pieces.

    A value with a function's name must not be merged twice, because the name may begin a new call.
    """
    if isinstance(value, dict):
        return depth > 0 and all(_repeats(member, key, depth - 1) for key, member in value.items())
    if isinstance(value, list):
        return not value or (name == "tool_calls" and len(value) == 1 and _repeats(value[0], "", depth - 1))
    if not isinstance(value, str) or not value:
        return True
    if value == PIECE:
        return is_text_of_model(name)
    return not comes_in_pieces(name) and name != "name"


def error_of(name: str | None, chunk: dict[str, Payload], data: str) -> Payload:
    """Return the error in an event, or None."""
    if name == "error" or chunk.get("object") == "error":
        return chunk.get("error") or chunk or data
    return chunk.get("error")


def joined_events(body: dict[str, Payload], *, ended: bool, events: int, error: Payload) -> JoinedStream:
    """Return a joined stream, whose body has the error of the stream."""
    if error is not None and body.get("error") is None:
        body = {**body, "error": error}
    return JoinedStream(body, ended, events, error)


class _JoinedChunks:
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
            if chunk.get("error") is None:
                chunk = {"error": error}
        choices = chunk.pop("choices", None)
        if isinstance(choices, list):
            for value in choices:
                choice = value if isinstance(value, dict) else {}
                index = choice.get("index")
                if type(index) is not int:
                    index = as_int(index) or 0
                if index not in self._choices:
                    self._choices[index] = _Choice()
                self._choices[index].add(choice)
        if chunk.items() <= self._members.items():  # most chunks only repeat known members
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
        ended = None
        if self.adapted != self.events:
            ended = self.done or finished
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
            if "tool_calls" in delta:
                for call in as_list(delta.pop("tool_calls")):
                    self._calls.add(as_dict(call))
            merge(self._message, delta)
        merge(self._members, choice, is_text_of_model)

    def body(self, index: int) -> dict[str, Payload]:
        message = self._message
        if self._calls.calls:
            message = {**message, "tool_calls": self._calls.calls}
        if not message and ("text" in self._members or "message" in self._members):
            return {**self._members, "index": index}
        return {**self._members, "index": index, "message": message}


class _Calls:
    """Tool calls that grow by deltas.

    A delta belongs to the call with its id, or else to the latest call with its index. A delta without an index, or
    with only arguments, belongs to the latest call. If there is no such call, the delta begins a new call. A delta that
    names a function also begins a new call if the existing call has a different id or complete arguments.
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
        function = _function_in(delta)
        if name := as_text(function.get("name")):
            known = as_text(_function_in(call).get("name")) or ""
            if name != known:
                function["name"] = known + name
        merge(call, delta)
        if identity := as_text(call.get("id")):
            self._by_id.setdefault(identity, call)

    def _call(self, index: int | None, delta: dict[str, Payload]) -> dict[str, Payload]:
        call_id = delta.get("id")
        if call := self._by_id.get(as_text(call_id) or ""):
            return call
        candidate = None
        if index is not None:
            candidate = self._by_index.get(index)
        if candidate is None and self.calls and (index is None or not (call_id or _function_in(delta).get("name"))):
            candidate = self.calls[-1]
        if candidate is None or _begins_another_call(delta, candidate):
            candidate = {}
            self.calls.append(candidate)
        return candidate


def _begins_another_call(delta: dict[str, Payload], candidate: dict[str, Payload]) -> bool:
    """Whether a delta begins a new call, although its index or position suggests this existing call."""
    function = _function_in(delta)
    if not function.get("name"):
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
    if isinstance(arguments, str):
        arguments = json_value(arguments)
    is_complete = isinstance(arguments, dict)
    return is_complete and bool(function.get("arguments") or function["name"] != known["name"])


def function_key(call: dict[str, Payload]) -> str:
    """Return which member of a call or a declared tool has the function: "function" or "custom".

    The value of `type` decides. If `type` has another value, the member that is not empty is taken.
    """
    names = [name for name in _FUNCTION_KEYS if isinstance(call.get(name), dict)]
    if call.get("type") in names:
        return str(call["type"])
    return next((name for name in names if is_nonempty(call[name])), [*names, "function"][0])


def _function_in(call: dict[str, Payload]) -> dict[str, Payload]:
    return as_dict(call.get(function_key(call)))
