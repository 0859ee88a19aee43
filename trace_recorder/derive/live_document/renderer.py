"""Texts: the document's parts as JSON in UTF-8, with what many interactions repeat spelled once.

Where a request was read with those before it, its interaction shares the texts of its messages with others that begin
alike, and the text of what it offers, parameters and tools, with others that offer the same: these are parts of its
text as they are, never copied. How the parts are laid out in a file is for `buffer.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.derive.live_document.buffer import Cut
from trace_recorder.derive.requests import Known
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.trajectory import AgentStep, History

OFFERS = 32
"""Of how many offers the texts are remembered."""

_POINTER = 8
"""How many bytes it costs to share a text."""
_MESSAGES = b'"input_messages": '
_RESPONSE = b', "response": '
_REQUEST = b'"request": '
_STEP_RESPONSE = b'"llm_response": '
_encode = make_json_writer(", ", ": ")
_encode_lines = make_json_writer(",\n", ": ")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text in parts, of which `own` bytes are shared with none before it.

    Of an interaction, `cuts` make a delta of it, and `response` is the part that its step says too.
    """

    parts: list[bytes]
    own: int
    cuts: Sequence[Cut] = ()
    response: bytes | None = None


class Texts:
    """Spells the interactions of one document; `may_shorten` is whether they may be cut down to deltas later."""

    def __init__(self, history: History, *, may_shorten: bool = False) -> None:
        self._history = history
        self._may_shorten = may_shorten and history == "inline"
        self._offers: list[tuple[RequestReading, bytes]] = []

    def interaction(self, one: LLMInteraction, known: Known | None) -> Spelled:
        """The text of an interaction."""
        document = one.to_document({"input_messages": []} if known is not None else None)
        if one.api is None or "input_messages" not in document:  # by hand, or not to be put together
            text = dump(document)
            return Spelled([text], len(text))
        every = [dump(document["input_messages"])[1:-1]] if known is None else known.messages()
        offer = dump(document["request"]) if known is None else self._offer(known.offer, document["request"])
        response = dump(document["response"])
        text = dump(document | {"input_messages": 0, "response": 0, "request": 0})
        before, _, rest = text.partition(_MESSAGES + b"0")  # what stands before it are strings, with quotes escaped
        between, _, after = rest.rpartition(_REQUEST + b"0")  # so it is behind the other
        behind = [response, between.removeprefix(_RESPONSE + b"0") + _REQUEST, offer, after]
        new, delta = (every, _delta(None, 0)) if known is None else _added(known)
        own = len(text) + len(response) + sum(map(len, new)) + _POINTER * (len(every) + 6)
        said = response if one.answered else None
        if self._history == "delta":
            return Spelled([before + delta, *new, b"]}" + _RESPONSE, *behind], own, response=said)
        parts = [before + _MESSAGES + b"[", *every, b"]" + _RESPONSE, *behind]
        end = len(parts[0]) + sum(map(len, every))
        cuts = ((len(before), end - sum(map(len, new)), delta), (end, end + 1, b"]}")) if self._may_shorten else ()
        return Spelled(parts, own, cuts, said)

    def _offer(self, offer: RequestReading, document: Payload) -> bytes:
        for other, text in self._offers:
            if other is offer:
                return text
        text = dump(document)
        self._offers = [(offer, text), *self._offers[: OFFERS - 1]]
        return text


def _added(known: Known) -> tuple[list[bytes], bytes]:
    """The messages that a request adds to those of another, and what stands before them in a delta."""
    if not known.since:
        return known.messages(), _delta(None, 0)
    return known.messages(known.new), _delta(known.since, _kept(known))


def _delta(since: str | None, kept: Payload) -> bytes:
    return b'"input_messages_delta": ' + dump({"since": since, "kept": kept, "messages": 0})[: -len("0}")] + b"["


def _kept(known: Known) -> Payload:
    """How many messages are kept, where these are the first; else the ranges of their positions."""
    first = known.kept[0] if len(known.kept) == 1 else (-1, -1)
    return first[1] + 1 if first[0] == 0 else [list(one) for one in known.kept]


def step(one: AgentStep, response: bytes | None = None) -> Spelled:
    """The text of a step; `response` is that of its response, where it is known."""
    if response is None:
        text = dump(one.to_document())
        return Spelled([text], len(text))
    text = dump(one.to_document(llm_response=0))
    before, _, after = text.partition(_STEP_RESPONSE + b"0")  # what stands before it are strings and numbers
    return Spelled([before + _STEP_RESPONSE, response, after], len(text))


def message(one: Message) -> bytes:
    """The text of a message."""
    return dump(one.to_document())


def dump(value: Payload) -> bytes:
    """JSON text in UTF-8; half of a surrogate pair, which a stream that was cut off may end in, is described."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # with the same spaces: texts are put in the place of what stands there
        return _encode(json.loads(to_json(value))).encode()


def members(document: dict[str, Payload]) -> bytes:
    """The members of the root, each on a line of its own, without the braces around them."""
    try:
        return _encode_lines(document)[1:-1].encode()
    except UnicodeEncodeError:
        return to_json(document)[1:-1].encode()
