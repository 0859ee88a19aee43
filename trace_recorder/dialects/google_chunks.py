"""Joins the chunks of a stream in Google's generateContent dialect into the body of the unstreamed answer.

A stream is a series of answers, as server-sent events or as one JSON array. Each answer has the next parts of the
content. Token counts are cumulative, so the last counts are kept. The arguments of a function call may be streamed too,
as values with JSON paths. `google_generate.py` reads the body, and `stream_framing.py` splits the stream into events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from trace_recorder.dialects.deltas import GrowingText, append_text, finish_texts
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, json_value
from trace_recorder.dialects.stream_framing import events
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import JoinedStream, Payload

_CAMEL_NAMES = (
    *("systemInstruction", "functionDeclarations", "parametersJsonSchema", "functionCall", "functionResponse"),
    *("partialArgs", "jsonPath", "stringValue", "numberValue", "boolValue", "finishReason", "modelVersion"),
    *("responseId", "usageMetadata", "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"),
    "cachedContentTokenCount",
)
CAMEL_OF_SNAKE = {re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name): name for name in _CAMEL_NAMES}


_STEP = lazy_pattern(r"\.([^.\[\]]+)|\['([^']*)'\]|\[(\d{1,9})\]")
_MAX_PATH_STEPS = 32
_SIGNATURES = ("thoughtSignature", "thought_signature")
"""A text with a signature is whole."""


def camel(value: Payload) -> dict[str, Payload]:
    """Return an object with its member names in camelCase. Names that the reader does not know are unchanged."""
    return {CAMEL_OF_SNAKE.get(name, name): member for name, member in as_dict(value).items()}


def read_google_chunks(text: str) -> Iterator[Payload]:
    """Yield the JSON of each event, then the JSON outside of events: an array, or an error that ends the stream."""
    for _, data in events(text):
        yield json_value(data)
    position = 0
    if not text.lstrip().startswith(("[", "{")):
        position = text.find("\n{")
    decoder = json.JSONDecoder()
    while position >= 0 and (begin := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, begin)
        except ours(ValueError, RecursionError):
            return
        yield value


def join_chunks(chunks: Iterable[Payload]) -> JoinedStream:
    """Join chunks. Candidates with the same index are joined. For every other member, the last value is kept."""
    number = 0
    body: dict[str, Payload] = {}
    candidates: dict[int, _Candidate] = {}
    for number, chunk in enumerate(map(as_dict, chunks), start=1):  # noqa: B007 read after the loop
        for position, candidate in enumerate(map(as_dict, as_list(chunk.get("candidates")))):
            index = as_int(candidate.get("index"))
            if index is None:
                index = position
            candidates.setdefault(index, _Candidate()).add(candidate)
        body.update({name: value for name, value in chunk.items() if value is not None})
    whole = [candidate.assembled() for _, candidate in sorted(candidates.items())]
    if whole:
        body["candidates"] = whole
    is_blocked = "blockReason" in as_dict(body.get("promptFeedback"))
    is_finished = bool(whole) and all(candidate.get("finishReason") for candidate in whole)
    return JoinedStream(body, is_blocked or is_finished, number, body.get("error"))


class _Candidate:
    """One candidate that grows by chunks. Adjacent texts are joined, and so are adjacent thoughts."""

    def __init__(self) -> None:
        self._members: dict[str, Payload] = {}
        self._content: dict[str, Payload] = {}
        self._parts: list[tuple[Payload, list[str]]] = []

    def add(self, candidate: dict[str, Payload]) -> None:
        """Add a chunk of the candidate. Each chunk has the log-probabilities of its own tokens."""
        for name, value in candidate.items():
            if name == "content":
                for part in as_list(as_dict(value).get("parts")):
                    self._add_part(part)
                self._content.update(as_dict(value))
            elif name == "logprobsResult":
                lists = {key: seen for key, seen in as_dict(self._members.get(name)).items() if isinstance(seen, list)}
                for key, seen in lists.items():
                    seen.extend(as_list(as_dict(value).get(key)))  # in place, because the lists may be very long
                self._members[name] = as_dict(value) | lists
            elif value is not None:
                self._members[name] = value

    def _add_part(self, part: Payload) -> None:
        """Add a part. If the part continues the text or the call before it, both are joined."""
        text = as_text(as_dict(part).get("text"))
        kind = {name: value for name, value in as_dict(part).items() if name != "text"}
        before: Payload = None
        pieces: list[str] = []
        if self._parts:
            before, pieces = self._parts[-1]
        if text is None:
            call = _continue_call(before, part)
            if call is None:
                self._parts.append((part, []))
            else:
                self._parts[-1] = (call, [])
        elif pieces and before == kind and kind.keys().isdisjoint(_SIGNATURES):
            pieces.append(text)
        else:
            self._parts.append((kind, [text]))

    def assembled(self) -> dict[str, Payload]:
        """Return the candidate as an unstreamed answer has it."""
        parts: list[Payload] = []
        for part, pieces in self._parts:
            if pieces:
                parts.append({"text": "".join(pieces), **part})
            else:
                parts.append(part)
        content = self._content
        if parts:
            content = {**content, "parts": parts}
        if not content:
            return self._members
        return {"content": content, **self._members}


def _continue_call(before: Payload, part: Payload) -> dict[str, Payload] | None:
    """Return the call `before` with the streamed arguments of `part` added.

    Return None if `part` does not continue that call.
    """
    call, more = as_dict(as_dict(before).get("functionCall")), as_dict(part).get("functionCall")
    if call.get("willContinue") is not True or not isinstance(more, dict):
        return None
    if more.get("name") and more["name"] != call.get("name"):
        return None
    partial = as_list(call.get("partialArgs"))
    partial += as_list(more.get("partialArgs"))  # in place, because the lists may be very long
    return {**before, **part, "functionCall": {**call, "willContinue": None, **more, "partialArgs": partial}}


def join_arguments(pieces: list[Payload]) -> Payload:
    """Build arguments from values and the path of each value, such as `$.places[0].name`."""
    arguments: dict[Payload, Payload] = {}
    for piece in map(camel, pieces):
        path = _STEP.findall(as_text(piece.get("jsonPath")) or "")[:_MAX_PATH_STEPS]
        steps: list[int | str] = []
        for name, quoted, index in path:
            if index:
                steps.append(int(index))
            else:
                steps.append(name or quoted)
        if not steps:
            steps = [""]
        inner = arguments
        for step in steps[:-1]:
            nested = as_dict(inner.get(step))
            inner[step] = nested
            inner = nested
        values = [piece.get(name) for name in ("stringValue", "numberValue", "boolValue")]
        value = next((value for value in values if isinstance(value, str | int | float)), None)
        seen = inner.get(steps[-1])
        if isinstance(seen, str | GrowingText) and isinstance(value, str):
            inner[steps[-1]] = append_text(seen, value)
        else:
            inner[steps[-1]] = value
    return _with_lists(finish_texts(arguments))


def _with_lists(value: Payload) -> Payload:
    """Convert objects to lists if all keys are numbers."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[index]) for index in sorted(value)]
    return {str(key): _with_lists(inner) for key, inner in value.items()}
