"""How servers are asked for the tokens of a call, and their answers as they are to callers that do not ask.

`trace-recorder proxy --tokens` adds members to requests, and takes out of the answers what only these members asked
for. A replay takes the same out of the recorded answers. Bodies are edited as text, so that all their other bytes stay.

Sources: vLLM 0.33 (`vllm/entrypoints/openai/*/serving.py` and `protocol.py`), SGLang 0.5.23
(`sglang/srt/entrypoints/openai/serving_chat.py`, `serving_completions.py`, `protocol.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_recorder.dialects.json_access import as_dict
from trace_recorder.dialects.stream_framing import EVENT_END
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.json_text import NotJsonError, decode_json, split_members
from trace_recorder.values.messages import Payload

_DATA_LINE = lazy_pattern(rb"^data: ?(\{.*)$", 8)  # re.MULTILINE
_NULL, _MISSING = "null", ""
_Paths = Mapping[tuple[str, ...], str]
_LOGPROBS: _Paths = {("choices", "logprobs"): _NULL}
_BESIDE_LOGPROBS = ("top_logprobs", "logprob_token_ids")
"""A server refuses these members without `logprobs`. The program gets this error if it forgot `logprobs`."""


@dataclass(frozen=True, slots=True)
class TokenServer:
    """A kind of server that states the ids and log-probabilities of tokens if a request asks for them.

    `asked` has the members that ask for them, by the dialect of the request. They are empty if the server states tokens
    unasked. `stated` has the paths of the members of an answer for which each of these members asks. A path leads
    through lists. Its value is the text that the server writes there if nobody asks, or is empty if the member is then
    missing.
    """

    asked: Mapping[str, Mapping[str, Payload]]
    stated: Mapping[str, _Paths]


TOKEN_SERVERS: Mapping[str, TokenServer] = {
    "vllm": TokenServer(
        asked={
            "openai-chat": {"return_token_ids": True, "logprobs": True},
            "openai-completions": {"return_token_ids": True, "logprobs": 0},
            "vllm-generate": {},
        },
        stated={
            "return_token_ids": {
                ("prompt_token_ids",): _NULL,
                ("choices", "prompt_token_ids"): _NULL,
                ("choices", "token_ids"): _NULL,
            },
            "logprobs": _LOGPROBS,
        },
    ),
    "sglang": TokenServer(
        asked={
            # A stream of chat with `return_token_ids` is refused.
            "openai-chat": {
                "return_input_ids_in_sglext": True,
                "return_output_ids_in_sglext": True,
                "logprobs": True,
            },
            "openai-completions": {"return_token_ids": True, "logprobs": 0},
            "sglang-generate": {},
        },
        stated={
            "return_input_ids_in_sglext": {("sglext", "input_ids"): _MISSING},
            "return_output_ids_in_sglext": {("sglext", "output_ids"): _MISSING},
            "return_token_ids": {
                ("choices", "prompt_token_ids"): _MISSING,
                ("choices", "token_ids"): _MISSING,
            },
            "logprobs": _LOGPROBS,
        },
    ),
}
"""The kinds of servers by their names."""


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def missing_members(body: bytes, asked: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return those of the members `asked` that a body lacks. Raises NotJsonError if the body is not a JSON object.

    A body with `echo` lacks none, because vLLM leaves the text of the prompt out if ids are asked for.
    """
    stated = {member.name: member.value for member in split_members(decode_json(body), lists=())}
    if stated.get("echo", "false") not in {"false", "null"}:
        return {}
    lacking = {name: value for name, value in asked.items() if name not in stated}
    if not stated.keys().isdisjoint(_BESIDE_LOGPROBS):
        lacking.pop("logprobs", None)
    return lacking


def asking_body(body: bytes, members: Mapping[str, Payload]) -> bytes:
    """Return the body of a request, a JSON object with at least one member, with these members at its end."""
    end = body.rindex(b"}")
    return b"%s,%s%s" % (body[:end], json.dumps(members, separators=(",", ":"))[1:-1].encode(), body[end:])


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


class UnaskedAnswer:
    """Makes the body of an answer what it is to a caller that did not ask for tokens.

    `added` is the member of the request's record. A body or an event that is not a JSON object is returned unchanged.
    """

    def __init__(self, added: Mapping[str, Payload]) -> None:
        server = TOKEN_SERVERS.get(str(added.get("server")))
        self._changes: dict[str, Any] = {}
        if server is not None:
            for name in as_dict(added.get("members")):
                for path, text in server.stated.get(name, {}).items():
                    changes = self._changes
                    for step in path[:-1]:
                        changes = changes.setdefault(step, {})
                    changes[path[-1]] = text
        self._begun = bytearray()

    def whole(self, body: bytes) -> bytes:
        """Return the body of an answer that is not a stream."""
        try:
            return _changed(decode_json(body), self._changes).encode()
        except NotJsonError:
            return body

    def events(self, data: bytes) -> bytes:
        """Take the next bytes of a stream. Return the events that are complete now."""
        search_from = max(0, len(self._begun) - 3)
        self._begun += data
        begin, pieces = 0, []
        for match in EVENT_END.finditer(self._begun, search_from):
            pieces.append(self._event(bytes(self._begun[begin : match.end()])))
            begin = match.end()
        del self._begun[:begin]
        return b"".join(pieces)

    def rest(self) -> bytes:
        """Return the last event of a stream that has ended, if it is complete but for its empty line."""
        event = bytes(self._begun)
        match = _DATA_LINE.search(event)
        if match is not None:
            try:
                split_members(decode_json(match[1]), lists=())
            except NotJsonError:
                return b""
        return self._event(event)

    def _event(self, event: bytes) -> bytes:
        lines = [*_DATA_LINE.finditer(event)]
        if len(lines) != 1:
            return event
        try:
            text = decode_json(lines[0][1])
            changed = _changed(text, self._changes)
        except NotJsonError:
            return event
        if changed == text:
            return event
        if _says_nothing(json.loads(changed)):
            return b""
        begin, end = lines[0].span(1)
        return event[:begin] + changed.encode() + event[end:]


def _changed(text: str, changes: Mapping[str, Any]) -> str:
    """Return the text of an object with the values at the paths of `changes`. Raises NotJsonError."""
    members = split_members(text, lists=changes)
    pieces: list[str] = []
    end = 0
    for member in members:
        value = member.value
        change = changes.get(member.name)
        if isinstance(change, str):
            value = change
        elif change is not None and member.elements is not None:
            value = _changed_elements(text, member.end - len(value), member.end, member.elements, change)
        elif change is not None and value.startswith("{"):
            value = _changed(value, change)
            if value != member.value and not split_members(value):
                value = _MISSING
        if value != _MISSING:
            if pieces:
                pieces.append(text[end : member.begin])
            pieces += (text[member.begin : member.end - len(member.value)], value)
        end = member.end
    if not members:
        return text
    return "".join((text[: members[0].begin], *pieces, text[end:]))


def _changed_elements(
    text: str, begin: int, end: int, elements: list[tuple[int, int]], changes: Mapping[str, Any]
) -> str:
    pieces: list[str] = []
    for first, last in elements:
        element = text[first:last]
        if element.startswith("{"):
            element = _changed(element, changes)
        pieces += (text[begin:first], element)
        begin = last
    return "".join((*pieces, text[begin:end]))


def _says_nothing(chunk: Payload) -> bool:
    """Whether an event has nothing but nulls, without what was taken out. Servers send such events for tokens alone."""
    chunk = as_dict(chunk)
    choices = chunk.get("choices")
    if choices == []:
        return chunk.get("usage") is None and chunk.get("sglext") is None
    if not isinstance(choices, list):
        return False
    for choice in choices:
        for name, value in as_dict(choice).items():
            values = value.values() if isinstance(value, dict) else [value]
            if name != "index" and any(inner is not None for inner in values):
                return False
    return True
