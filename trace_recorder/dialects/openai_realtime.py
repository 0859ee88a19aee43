"""The OpenAI Realtime dialect (/realtime, a websocket): responses of a voice or text session.

A request is the client's event `response.create`, or an empty object if the server began the response by itself. It
states only what differs from the session: `reading/realtime.py` derives what the model had. A response is the object in
the event `response.done`, with the items of the Responses dialect. The reader of that dialect reads them, and joins the
events of a stream.

Speech has a transcript, which is read as the text of the answer. The text part has `modality` "audio". The audio itself
is not on file: an assembled response states in the member `audio` of a part how many bytes the stream had, in how many
pieces. `finish_reason` is the reason in `status_details`, such as "turn_detected", or else the final status.

Sources: OpenAI's guide "Realtime conversations", and the types of the SDK (`openai.types.realtime`, and
`openai.types.beta.realtime` with the older names of events and parts).
"""

from __future__ import annotations

from trace_recorder.dialects import openai_responses
from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.dialect import Dialect, History, Websockets
from trace_recorder.dialects.json_access import Members, as_dict, as_elements, as_int, as_list, as_text
from trace_recorder.dialects.openai_chat import not_found, read_tool
from trace_recorder.dialects.openai_responses import MERGE_RULE, JoinedResponse, join_response_events, read_finished
from trace_recorder.dialects.split_messages import read_groups
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE

_SPEECH = frozenset({"output_audio", "audio"})
"""The types of the parts in which the model speaks. The second one is older."""
_AUDIO_EVENTS = frozenset({"response.output_audio.delta", "response.audio.delta"})
_LAST = frozenset({"response.done"})
_MEDIA = lazy_pattern(r"\[media: (\d{1,15}) bytes\b")
"""Matches the beginning of what stands on file in the place of media (`storage/websocket_frames.py`)."""


def read_request(body: Payload) -> RequestReading:
    """Read an event `response.create`."""
    event = Members(body)
    members = Members(event.take("response"))
    instructions, system_messages = members.nonempty_text("instructions"), []
    if instructions is not None:
        system_messages.append(Message("system", instructions))
    groups = read_groups(as_elements(members.take("input")), read_message, MERGE_RULE)
    messages = [message for group in groups for message in group.messages]
    tools = [read_tool(tool) for tool in members.array("tools")]
    parameters = {**event.all(), **members.all()}
    model = as_text(parameters.get("model"))
    return RequestReading(
        number_messages([*system_messages, *messages]), tools, parameters, model, len(system_messages)
    )


def read_message(element: Payload) -> list[Message]:
    """Read an item of a conversation. An item that has nothing yet, because the model is making it, has no message."""
    item = as_dict(element)
    if item.get("role") == "assistant" and not as_list(item.get("content")):
        return []
    return openai_responses.read_message(_with_texts(element))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON. `made_up_ids` is how many tool calls of the request have made-up ids."""
    return read_finished(Members(body), "status_details", made_up_ids, _with_texts)


def _with_texts(element: Payload) -> Payload:
    """Return an item in which the transcript of each part that the model spoke is a text."""
    content = as_dict(element).get("content")
    if not isinstance(content, list):
        return element
    return {**element, "content": [*map(_with_text, content)]}


def _with_text(part: Payload) -> Payload:
    members = as_dict(part)
    if members.get("type") not in _SPEECH or not isinstance(members.get("transcript"), str):
        return part
    others = {name: value for name, value in members.items() if name not in {"type", "transcript"}}
    return {"type": "output_text", "text": members["transcript"], "modality": "audio", **others}


ITEMS = History("input", read_message, MERGE_RULE)
"""The items of a conversation. Requests do not have them all, so the dialect has no `history`."""


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def join_stream(text: str) -> JoinedStream:
    """Join the events of a response, which may be cut off anywhere."""
    return join_response_events(text, _SpokenResponse(_LAST))


class _SpokenResponse(JoinedResponse):
    """A response that grows by events, without the audio in them. It counts the bytes and the pieces of the audio."""

    __slots__ = ("_bytes", "_pieces")

    def __init__(self, last: frozenset[str]) -> None:
        super().__init__(last)
        self._bytes: dict[tuple[int, int], int] = {}
        self._pieces: dict[tuple[int, int], int] = {}

    def add(self, kind: str, event: dict[str, Payload]) -> None:
        """Add an event of this kind."""
        if kind not in _AUDIO_EVENTS:
            super().add(kind, event)
            return
        place = as_int(event.get("output_index")) or 0, as_int(event.get("content_index")) or 0
        sizes = [int(match[1]) for match in _MEDIA.finditer(as_text(event.get("delta")) or "")]
        self._bytes[place] = self._bytes.get(place, 0) + sum(sizes)
        self._pieces[place] = self._pieces.get(place, 0) + len(sizes)

    def stream(self) -> JoinedStream:
        """Return the response so far. Each part that the model spoke states how much audio the stream had."""
        joined = super().stream()
        body = as_dict(joined.body)
        for (index, part_index), size in self._bytes.items():
            parts = as_list(as_dict(_at(as_list(body.get("output")), index)).get("content"))
            part = as_dict(_at(parts, part_index))
            if part and size:
                part["audio"] = f"[media: {size} bytes in {self._pieces[index, part_index]} pieces]"
        status = as_dict(body.get("status_details"))
        return replace(joined, error=joined.error or status.get("error"))


def _at(elements: list[Payload], index: int) -> Payload:
    if 0 <= index < len(elements):
        return elements[index]
    return None


DIALECT = Dialect(
    name="openai-realtime",
    addresses={r"/realtime/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="chat",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=Websockets({r"/realtime/?$": "openai"}, _LAST, names_responses=True, media_are_kept=False),
)
