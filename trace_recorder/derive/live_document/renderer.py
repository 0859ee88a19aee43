"""The renderer: the document's parts as JSON in UTF-8. What many interactions repeat is rendered once.

If a request was read together with earlier ones, its interaction shares the texts of its messages with others that
begin with the same messages, and the text of its parameters and tools with others that offer the same. These texts
are parts of the result and are never copied. How parts are laid out in a file is left to `buffer.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from trace_recorder.derive.live_document.buffer import Edit
from trace_recorder.derive.message_prefix import IncrementalReading
from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.long_strings import make_json_bytes_writer
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.trajectory import AgentStep, History

MAX_CACHED_OFFERS = 32
"""The texts of this many combinations of parameters and tools are remembered."""

_POINTER_BYTES = 8
"""The memory that a reference to a shared text takes."""
_MESSAGES = b'"input_messages": '
_DELTA = b'"input_messages_delta": {'
_STEP_RESPONSE = b'"llm_response": '
_STEP_MESSAGES = b'"llm_messages": '
_RESPONSE = b', "response": '
_REQUEST = b'"request": '
_FROM_NOTHING = b'"since": null, "kept": 0, "messages": ['
_encode = make_json_writer(", ", ": ")
_encode_in_steps = make_json_bytes_writer(", ", ": ")
_encode_lines, _encode_lines_and_yield = (make_json_writer(",\n", ": ", yields=yields) for yields in (False, True))


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A text in parts, of which `own_bytes` bytes are shared with no earlier one.

    `delta_edits` turn the text of an interaction into a delta. `response` is the part that its step contains too.
    """

    parts: list[bytes]
    own_bytes: int
    delta_edits: Sequence[Edit] = ()
    response: bytes | None = None


class Renderer:
    """Renders the parts of one document.

    `may_shorten` says whether interactions may be shortened to deltas later; `has_long_strings` whether a string may be
    so long that its encoding has to let other threads run, which makes each string take a call more.
    """

    def __init__(self, history: History, *, may_shorten: bool = False) -> None:
        self.has_long_strings = False
        self._history = history
        self._may_shorten = may_shorten and history == "inline"
        self._offers: list[tuple[RequestReading, bytes]] = []

    def switch_to_deltas(self) -> None:
        """Render from now on only the messages that each request adds."""
        self._history, self._may_shorten = "delta", False

    def interaction(self, one: LLMInteraction, reading: IncrementalReading | None) -> RenderedText:
        """Render an interaction."""
        if reading is None and not one.source.has_request():
            text = self._dump(one.to_document())
            return RenderedText([text], len(text))
        if reading is None:
            asked = one.source.request()
            every = [self._dump([message.to_document() for message in asked.messages])[1:-1]]
            new, delta, offer = every, _DELTA + _FROM_NOTHING, self._dump(asked.to_document())
        else:
            every, offer = reading.rendered(), self._offer(reading.offer)
            new, delta = self._added(reading, every, _DELTA)
        response = self._dump(one.response.to_document())
        text = self._dump(one.to_document({"input_messages": 0}, response=0, request=0))
        before, _, rest = text.partition(_MESSAGES + b"0")  # before it are only strings, with escaped quotes
        between, _, after = rest.rpartition(_REQUEST + b"0")  # in the rest, so after the messages
        behind = [response, between.removeprefix(_RESPONSE + b"0") + _REQUEST, offer, after]
        own = len(text) + len(response) + sum(map(len, new)) + _POINTER_BYTES * (len(every) + 6)
        if self._history == "delta":
            return RenderedText([before + delta, *new, b"]}" + _RESPONSE, *behind], own, response=response)
        parts = [before + _MESSAGES + b"[", *every, b"]" + _RESPONSE, *behind]
        edits = _edits(before, parts[0], every, new, delta) if self._may_shorten else ()
        return RenderedText(parts, own, edits, response)

    def step(self, one: AgentStep, response: bytes | None, messages: IncrementalReading | None) -> RenderedText:
        """Render a step.

        `response` is the text of its response, if it was rendered already, and `messages` are those that were read
        together with other steps.
        """
        if response is not None and one.llm_response is not None:
            text = self._dump(one.to_document(llm_response=0))
            before, _, after = text.partition(_STEP_RESPONSE + b"0")  # before it are only strings and numbers
            return RenderedText([before + _STEP_RESPONSE, response, after], len(text))
        document = one.to_document()
        if messages is None:
            text = self._dump(document)
            return RenderedText([text], len(text))
        at = [*document].index("llm_messages")
        before = self._dump(dict(islice(document.items(), at)))[:-1] + b", "
        after = b", " + self._dump(dict(islice(document.items(), at + 1, None)))[1:]
        every = messages.rendered()
        new, delta = self._added(
            messages, every, b'"llm_messages_delta": {"id": ' + self._dump(messages.identity) + b", "
        )
        own = len(before) + len(after) + sum(map(len, new)) + _POINTER_BYTES * (len(every) + 2)
        if self._history == "delta":
            return RenderedText([before + delta, *new, b"]}" + after], own)
        parts = [before + _STEP_MESSAGES + b"[", *every, b"]" + after]
        return RenderedText(parts, own, _edits(before, parts[0], every, new, delta) if self._may_shorten else ())

    def message(self, one: Message) -> bytes:
        """Render a message."""
        return self._dump(one.to_document())

    def members(self, document: dict[str, Payload]) -> bytes:
        """Render the members of the root, each on its own line, without the braces."""
        encode = _encode_lines_and_yield if self.has_long_strings else _encode_lines
        try:
            return encode(document)[1:-1].encode()
        except ours(UnicodeEncodeError):
            return to_json(document)[1:-1].encode()

    def _dump(self, value: Payload) -> bytes:
        """Encode JSON as UTF-8. A lone surrogate, which a stream that was cut off may end in, is described."""
        try:
            return _encode_in_steps(value) if self.has_long_strings else _encode(value).encode()
        except ours(UnicodeEncodeError):  # with the same separators: callers search in the text
            return _encode(json.loads(to_json(value))).encode()

    def _added(self, reading: IncrementalReading, every: list[bytes], name: bytes) -> tuple[list[bytes], bytes]:
        """Return the messages that a request adds to those of another one, and the beginning of its delta, up to them.

        `every` are all its messages, `name` is the text before the delta's member `since`.
        """
        if not reading.since:
            return every, name + _FROM_NOTHING
        since = self._dump({"since": reading.since, "kept": _kept(reading), "messages": 0})[1 : -len("0}")]
        return reading.rendered(reading.new), name + since + b"["

    def _offer(self, offer: RequestReading) -> bytes:
        for other, text in self._offers:
            if other is offer:
                return text
        text = self._dump(offer.to_document())
        self._offers = [(offer, text), *self._offers[: MAX_CACHED_OFFERS - 1]]
        return text


def _edits(
    before: bytes, beginning: bytes, every: Sequence[bytes], new: Sequence[bytes], delta: bytes
) -> Sequence[Edit]:
    """Return the edits that leave of all messages the new ones, behind the beginning of their delta."""
    end = len(beginning) + sum(map(len, every))
    return (len(before), end - sum(map(len, new)), delta), (end, end + 1, b"]}")


def _kept(reading: IncrementalReading) -> Payload:
    """Return how many messages are kept, if they are the first ones, else the ranges of their positions."""
    first = reading.kept[0] if len(reading.kept) == 1 else (-1, -1)
    return first[1] + 1 if first[0] == 0 else [list(one) for one in reading.kept]
