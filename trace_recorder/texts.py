"""Texts: the document's parts as JSON in UTF-8, with what many interactions repeat spelled once.

Where a request was read with those before it, its interaction shares the texts of its messages with others that begin
alike, and the text of what it offers, parameters and tools, with others that offer the same: these are parts of its
text as they are, never copied. How the parts are laid out in a file is for `pieces.py`.
"""

from __future__ import annotations

import json

from trace_recorder.conversation import Message, Payload, RequestReading
from trace_recorder.json_text import writer
from trace_recorder.plain import to_json
from trace_recorder.reading import Known
from trace_recorder.trajectory import History, LLMInteraction

OFFERS = 32
"""Of how many offers the texts are remembered."""

_POINTER = 8
"""How many bytes it costs to share a text."""
_REQUEST = b'"request": '
_encode = writer(", ", ": ")
_encode_lines = writer(",\n", ": ")


class Texts:
    """Spells the interactions of one document."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._offers: list[tuple[RequestReading, bytes]] = []

    def interaction(self, one: LLMInteraction, known: Known | None) -> tuple[list[bytes], int]:
        """The text of an interaction, in parts, and how many bytes of these it shares with none before it."""
        if known is None:
            whole = _whole_delta(one) if self._history == "delta" and one.api is not None else None
            text = dump(one.to_document(whole))
            return [text], len(text)
        since, kept, new = (known.since, _kept(known), known.new) if known.since else (None, 0, 0)
        if self._history == "inline":
            messages, name = known.messages(), b'"input_messages": '
            document = one.to_document({"input_messages": 0})
        else:
            messages, name = known.messages(new), b'"messages": '
            document = one.to_document({"input_messages_delta": {"since": since, "kept": kept, "messages": 0}})
        offer = self._offer(known.offer, document["request"])
        text = dump(document | {"request": 0})
        before, _, rest = text.partition(name + b"0")  # what stands before it are strings, with quotes escaped
        between, _, after = rest.rpartition(_REQUEST + b"0")  # so it is behind the other
        parts = [before + name + b"[", *messages, b"]" + between + _REQUEST, offer, after]
        return parts, len(text) + known.size_of_new() + _POINTER * len(parts)

    def _offer(self, offer: RequestReading, document: Payload) -> bytes:
        for other, text in self._offers:
            if other is offer:
                return text
        text = dump(document)
        self._offers = [(offer, text), *self._offers[: OFFERS - 1]]
        return text


def _whole_delta(one: LLMInteraction) -> dict[str, Payload]:
    messages = [message.to_document() for message in one.input_messages]
    return {"input_messages_delta": {"since": None, "kept": 0, "messages": messages}}


def _kept(known: Known) -> Payload:
    """How many messages are kept, where these are the first; else the ranges of their positions."""
    first = known.kept[0] if len(known.kept) == 1 else (-1, -1)
    return first[1] + 1 if first[0] == 0 else [list(one) for one in known.kept]


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
