"""Joins the chunks of a stream in the OpenAI chat and completions dialects into the body of the unstreamed answer.

A chunk has choices and other members. Each choice grows by deltas. Some servers identify a tool call in a delta by an
index, some by an id, and some not at all. `_Calls` has one rule for all of them. Chunks are modified in place, because
no other module uses them.

`merge` merges every delta by one rule, including unknown members. Strings are concatenated if the dialect streams them
in pieces. Lists grow, objects are merged, the first id is kept, and null and the empty string change nothing. For any
other member, the last value is kept. A part of a list is merged into the part before it if both have the same type. The
reason is that `reasoning_details` and Mistral's thinking come in such pieces, which have the same index or no index.

Neighbouring chunks that add a piece to the same text, and change nothing else, are joined as one chunk
(`event_forms.py`). `stream_framing.py` splits the stream into events. `openai_chat.py` and `openai_completions.py` read
the body.
"""

from __future__ import annotations

from collections.abc import Callable

from trace_recorder.dialects.event_forms import PIECE, MergedRuns
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, is_nonempty, json_value, text_part
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import JoinedStream, Payload

# The members whose strings come in pieces. Every other string is sent whole.
_PIECEWISE = frozenset({"content", "reasoning_content", "reasoning", "refusal", "text", "thinking", "summary"})
_PIECEWISE |= {"arguments", "input", "data", "transcript"}
# Deltas are merged down to this depth. No dialect's JSON is that deep, and the recursion limit is far away.
_DEPTH = 8


class GrowingText:
    """A text whose pieces are still arriving. `finish_texts` joins the pieces once."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: str) -> None:
        self.pieces = [*pieces]

    def may_be_json(self) -> bool:
        """Whether the text ends like a JSON object. This is checked without joining the pieces."""
        return next((piece for piece in reversed(self.pieces) if piece.strip()), "").rstrip().endswith("}")

    def __str__(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def __bool__(self) -> bool:
        return any(self.pieces)


def append_text(seen: Payload, piece: str) -> Payload:
    """Append a piece to a text. If the earlier value is not a text, the piece replaces it."""
    if isinstance(seen, GrowingText):
        seen.pieces.append(piece)
        return seen
    return GrowingText(seen, piece) if isinstance(seen, str) and seen else piece


def finish_texts(value: Payload) -> Payload:
    """Return a value with every `GrowingText` in it replaced by its text."""
    if isinstance(value, GrowingText):
        return str(value)
    if isinstance(value, dict):
        return {name: finish_texts(member) for name, member in value.items()}
    return [finish_texts(element) for element in value] if isinstance(value, list) else value


def merge(into: dict[str, Payload], delta: dict[str, Payload], depth: int = _DEPTH) -> None:
    """Merge a delta into the value so far, in place. Objects are merged down to `depth`."""
    for key, value in delta.items():
        seen = into.get(key)
        if value is None:
            into.setdefault(key)
        elif type(seen) is GrowingText and type(value) is str and key in _PIECEWISE:
            seen.pieces.append(value)  # most deltas end here, without another function call
        elif value is not seen or type(value) is str:  # a repeated value, such as an index, changes nothing
            into[key] = _joined(key, seen, value, depth)


def _joined(key: str, seen: Payload, value: Payload, depth: int) -> Payload:
    if isinstance(value, str) and isinstance(seen, str | GrowingText) and key in _PIECEWISE:
        return append_text(seen, value)
    if isinstance(value, list) or isinstance(seen, list):
        return _with_parts(_as_parts(seen), _as_parts(value), depth)
    if isinstance(value, dict) and isinstance(seen, dict) and depth:
        merge(seen, value, depth - 1)
        return seen
    return seen if keeps_first(key, seen, value) else value


def keeps_first(key: str, seen: Payload, value: Payload) -> bool:
    """Whether the earlier value is kept: if it is an id, or if the next value is null or an empty string."""
    return value is None or bool(seen and (value == "" or key == "id"))


def _as_parts(value: Payload) -> list[Payload]:
    """Return a member as a list. Mistral's content is a text at first, and becomes a list when thinking arrives."""
    if isinstance(value, str | GrowingText):
        return [text_part(str(value))] if value else []
    return value if isinstance(value, list) else [] if value is None else [value]


def _with_parts(parts: list[Payload], more: list[Payload], depth: int) -> list[Payload]:
    """Append parts to a list. A part that continues the part before it is merged into that part."""
    for part in more:
        if parts and depth and _is_fragment(part, parts[-1]):
            merge(parts[-1], part, depth - 1)
        else:
            parts.append(part)
    return parts


def _is_fragment(part: Payload, before: Payload) -> bool:
    """Whether a part continues the part before it.

    A part with a signature, or with a different id, is not continued.
    """
    if not isinstance(part, dict) or not isinstance(before, dict):
        return False
    if not part.get("type") or part["type"] != before.get("type"):
        return False
    if _differ(part, before, "id") or _differ(part, before, "index"):
        return False
    texts = [name for name in ("text", "summary", "thinking") if name in part or name in before]
    return bool(texts) and not (before.get("signature") and any(part.get(name) for name in texts))


def _differ(part: dict[str, Payload], other: dict[str, Payload], name: str) -> bool:
    """Whether both parts have this member, with different values."""
    return None not in (part.get(name), other.get(name)) and part.get(name) != other.get(name)


_FUNCTION_KEYS = ("function", "custom")
# Members with random text, with which OpenAI and Mistral hide the lengths of tokens on the wire.
_PADDING = ("obfuscation", "p")


def join_chunks(text: str, adapt: Callable[[dict[str, Payload]], Payload] | None = None) -> JoinedStream:
    """Join the chunks of a stream.

    `adapt` converts the JSON of an event that has a different form to the form of a chunk.

    If `adapt` has converted every event, it is unknown whether the stream is complete.
    """
    joined = _JoinedChunks()
    runs = MergedRuns(_can_join if adapt is None else lambda _: False)
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
        error = error_of(name, chunk, data) if name or "error" in chunk or chunk.get("object") == "error" else None
        joined.add(chunk, error)
    joined.events += runs.merged
    return joined.stream() if joined.events else unstreamed(text)


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
    return not isinstance(value, str) or not value or value == PIECE or (name not in _PIECEWISE and name != "name")


def error_of(name: str | None, chunk: dict[str, Payload], data: str) -> Payload:
    """Return the error in an event, or None."""
    if name == "error" or chunk.get("object") == "error":
        return chunk.get("error") or chunk or data
    return chunk.get("error")


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
            chunk = chunk if chunk.get("error") is not None else {"error": error}
        choices = chunk.pop("choices", None)
        for value in choices if isinstance(choices, list) else ():
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
            function["name"] = name if name == known else known + name
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
    is_complete = isinstance(json_value(arguments) if isinstance(arguments, str) else arguments, dict)
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
