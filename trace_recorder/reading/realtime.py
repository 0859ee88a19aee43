"""Derives what the model had at each response of a realtime connection.

A request on such a connection does not repeat the conversation. The server keeps it, as a list of items, and the events
of both sides change it. A `RealtimeConversation` takes these events in their order:

- An item that the client creates, and speech that it commits, is in the conversation from then on. The server confirms
  it, with its id. The server confirms in the order of the client's events, so an item before a confirmed one that is
  not confirmed was refused.
- An item that the server adds is after the item that `previous_item_id` names, or else at the end. Items that the model
  makes get their contents when the item or its response is done.
- A transcript of the user's speech may come late. The model had the speech, and not the transcript, so the item
  is the same message before and after: all prompts that have it share what is known of it.
- If the user interrupts the model, the client says how much of the speech was heard (`conversation.item.truncate`). The
  item then states `audio_end_ms`, and its text stays what the model said. Prompts from then on have this other message.
- The session has the instructions, the tools and all other parameters. A `response.create` may state others for one
  response, and an `input` in place of the conversation, which may refer to items by their ids.

The history of a prompt is a list of elements, and `TablePrompts` reads it, as it reads the requests over HTTP. Nothing
here raises, whatever the events are.

Source: OpenAI's guide "Realtime conversations", and the types of the SDK (`openai.types.realtime`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from functools import partial, reduce
from itertools import zip_longest

from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.dialects.openai_realtime import ITEMS
from trace_recorder.reading.table_prompts import PREAMBLE, ElementReadings, IncrementalReading, TablePrompts
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.message_table import MessageTable, SharedSequence
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.structs import Struct, field, replace

Event = Mapping[str, Payload]
MOST_UNCONFIRMED = 64
"""At most this many events of a client are remembered, to undo them if the server refuses them."""
_ROOT = "root"
_COMMITTED = {"type": "message", "role": "user", "content": [{"type": "input_audio"}]}
"""The item that a client makes of the speech in the buffer."""
_NO_PARAMETERS = frozenset({"id", "object", "expires_at", "client_secret"})
"""The members of a session that say nothing about responses."""
_BESIDE = ("id", "object", "status")
"""The members of an item that are not what the model has."""


class _Item(Struct, eq=False):
    """An item of a conversation.

    `number` is its newest element. `audio_ends` has the milliseconds after which each part was cut. `made_by` is the
    interaction that made it, if any.
    """

    json: dict[str, Payload]
    number: int = PREAMBLE
    audio_ends: dict[int, int] = field(default_factory=dict)
    made_by: str | None = None


class _Elements:
    """What the items of the conversations have been, by numbers. Nothing here refers to the table of messages."""

    def __init__(self) -> None:
        self._elements: list[Payload] = []

    def __len__(self) -> int:
        return len(self._elements)

    def element(self, number: int) -> Payload:
        """Return an element."""
        return self._elements[number]

    def add(self, element: Payload) -> int:
        """Add an element, and return its number."""
        self._elements.append(element)
        return len(self._elements) - 1

    def set(self, number: int, element: Payload) -> None:
        """Replace an element."""
        self._elements[number] = element


class RealtimePrompts:
    """Reads the prompts of all realtime conversations of a run. An element is what an item has been at some time.

    The elements and their messages stay in memory. They have no audio, so their texts are short.
    """

    def __init__(self, dialect: Dialect, table: MessageTable) -> None:
        self._dialect = dialect
        self._table = table
        self._elements = _Elements()
        self._readings = ElementReadings(
            self._elements,
            table,
            ITEMS.read_message,
            ITEMS.merge_rule,
            makes_up_ids=dialect.numbers_calls,
        )
        self._prompts = TablePrompts(table)
        self._read_up_to = 0
        self._inline: dict[bytes, int] = {}
        self._offers: dict[tuple[bytes, bytes], RequestReading] = {}
        self.add = self._elements.add

    def add_inline(self, element: Payload) -> int:
        """Return the number of an item that a request states. Equal items are one element."""
        key = json_digest(element)
        number = self._inline.get(key)
        if number is None:
            number = self._inline[key] = self.add(element)
        return number

    def has(self, number: int) -> bool:
        """Return whether a prompt may have an element."""
        return number < self._read_up_to

    def set(self, number: int, element: Payload) -> None:
        """Set what is known of an element now. If it is in a prompt, its message is not merged with others."""
        self._elements.set(number, element)
        if self.has(number):
            self._readings.refresh(number)

    def read(self, session: SessionSettings, overrides: dict[str, Payload], numbers: array[int]) -> IncrementalReading:
        """Read a prompt with these elements. `overrides` has the parameters that the response states."""
        key = session.digest, json_digest(overrides)
        offer = self._offers.get(key)
        if offer is None:
            members = {
                name: value for name, value in {**session.members, **overrides}.items() if name != "instructions"
            }
            base = self._dialect.read_request({"response": members})
            offer = self._offers[key] = replace(base, messages=SharedSequence(), tools=self._table.tools(base.tools))
        elements = array("q", [PREAMBLE])
        instructions = overrides.get("instructions") or session.members.get("instructions")
        if isinstance(instructions, str) and instructions:
            offer = replace(offer, instructions=1)
            elements.append(self.add_inline({"type": "message", "role": "system", "content": instructions}))
        self._read_up_to = len(self._elements)
        reading = self._prompts.read(self._dialect.name, elements + numbers, self._readings, _nothing_before)
        return replace(reading, offer=offer)


def _nothing_before() -> tuple[RequestReading, list[Message]]:
    return RequestReading(), []


class SessionSettings(Struct, frozen=True):
    """The parameters of a session, and a digest of them."""

    members: dict[str, Payload] = field(default_factory=dict)
    digest: bytes = b""

    @classmethod
    def of(cls, members: dict[str, Payload]) -> SessionSettings:
        """Return the parameters among the members of a session."""
        known = {name: value for name, value in members.items() if name not in _NO_PARAMETERS}
        return cls(known, json_digest(known))


class RealtimeConversation:
    """The conversation of one connection. Call the methods in the order of the journal.

    If the user interrupted an answer, `note_interruption` gets its interaction, and how many milliseconds the user
    heard.
    """

    def __init__(self, prompts: RealtimePrompts, note_interruption: Callable[[str, int], None]) -> None:
        self._prompts = prompts
        self._note_interruption = note_interruption
        self._session = SessionSettings()
        self._confirmed: dict[str, Payload] = {}
        """The session as the server states it."""
        self._updates: list[dict[str, Payload]] = []
        """The changes of the session that the client has sent, and the server has not confirmed."""
        self._order = array("q")
        self._items: dict[str, _Item] = {}
        self._created: list[_Item] = []
        """The items that the client has created, and the server has not confirmed."""
        self._committed: list[_Item] = []
        """The items of speech that the client has committed, and the server has not confirmed."""
        self._undo: dict[str, Callable[[], None]] = {}

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def sent(self, event: Event) -> None:
        """Read an event of the client."""
        read = _SENT.get(as_text(event.get("type")) or "")
        if read is not None:
            read(self, event)

    def received(self, event: Event) -> None:
        """Read an event of the server."""
        read = _RECEIVED.get(as_text(event.get("type")) or "")
        if read is not None:
            read(self, event)

    def _undo_by(self, event: Event, undo: Callable[[], None]) -> None:
        identity = as_text(event.get("event_id"))
        if identity is not None:
            self._undo[identity] = undo
            if len(self._undo) > MOST_UNCONFIRMED:
                del self._undo[next(iter(self._undo))]

    def _undo_refused(self, event: Event) -> None:
        """Undo the event of the client that an error names. Speech that was too short is not in the conversation."""
        error = as_dict(event.get("error"))
        undo = self._undo.pop(as_text(error.get("event_id")) or "", None)
        if undo is not None:
            undo()
        elif (as_text(error.get("code")) or "").startswith("input_audio_buffer_commit") and self._committed:
            self._refuse(self._committed[0])

    def _update_session(self, event: Event) -> None:
        update = as_dict(event.get("session"))
        self._updates.append(update)
        self._undo_by(event, partial(self._refuse_update, update))
        self._set_session()

    def _confirm_session(self, event: Event) -> None:
        self._confirmed = as_dict(event.get("session"))
        if event.get("type") == "session.updated":
            del self._updates[:1]
        self._set_session()

    def _set_session(self) -> None:
        if len(self._updates) > MOST_UNCONFIRMED:  # the server confirms nothing
            self._confirmed = _merged(self._confirmed, self._updates.pop(0))
        self._session = SessionSettings.of(reduce(_merged, self._updates, self._confirmed))

    def _refuse_update(self, update: dict[str, Payload]) -> None:
        self._updates = [other for other in self._updates if other is not update]
        self._set_session()

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _create(self, event: Event) -> None:
        item = self._add(as_dict(event.get("item")), as_text(event.get("previous_item_id")))
        self._expect(self._created, item, event)

    def _commit(self, event: Event) -> None:
        self._expect(self._committed, self._add(_COMMITTED, None), event)

    def _expect(self, waiting: list[_Item], item: _Item, event: Event) -> None:
        """Wait until the server confirms or refuses an item. Some servers do neither."""
        waiting.append(item)
        del waiting[:-MOST_UNCONFIRMED]
        self._undo_by(event, partial(self._refuse, item))

    def _add(self, json: dict[str, Payload], previous: str | None) -> _Item:
        """Add an item after the item with the id `previous`, or at the end if there is no such item."""
        item, before = _Item(json, self._prompts.add(json)), self._items.get(previous or "")
        if previous == _ROOT:
            self._order.insert(0, item.number)
        elif before is None or not self._order or before.number == self._order[-1] or before.number not in self._order:
            self._order.append(item.number)
        else:
            self._order.insert(self._order.index(before.number) + 1, item.number)
        identity = as_text(json.get("id"))
        if identity is not None:
            self._items[identity] = item
        return item

    def _confirm(self, event: Event) -> None:
        """Read an item that the server has added. It may be one that is known, or one that the client has sent."""
        json = as_dict(event.get("item")) or {**_COMMITTED, "id": event.get("item_id")}
        identity = as_text(json.get("id"))
        item = self._items.get(identity or "")
        if item is None:
            item = self._unconfirmed(json)
        if item is None:
            self._add(json, as_text(event.get("previous_item_id")))
            return
        for waiting in (self._created, self._committed):
            if item in waiting:
                for refused in waiting[: waiting.index(item)]:
                    self._refuse(refused)
                waiting.remove(item)
        if identity is not None:
            self._items[identity] = item
        self._change(item, json)

    def _unconfirmed(self, json: dict[str, Payload]) -> _Item | None:
        """Return the first item that the client has sent, and that this item of the server may be."""
        for waiting in (self._created, self._committed):
            for item in waiting:
                if "id" not in item.json and _may_be(item.json, json):
                    return item
        return None

    def _refuse(self, item: _Item) -> None:
        """Remove an item that the server has refused."""
        for waiting in (self._created, self._committed):
            if item in waiting:
                waiting.remove(item)
        self._remove(item)

    def _remove(self, item: _Item | None) -> None:
        if item is not None and item.number in self._order:
            self._order.remove(item.number)

    def _delete(self, event: Event) -> None:
        self._remove(self._items.get(as_text(event.get("item_id")) or ""))

    def _retrieve(self, event: Event) -> None:
        """Read an item as the server knows it."""
        item = as_dict(event.get("item"))
        known = self._items.get(as_text(item.get("id")) or "")
        if known is not None:
            self._change(known, item)

    def _change(self, item: _Item, json: dict[str, Payload]) -> None:
        """Set what is known of an item. What was known of its parts before, such as a transcript, stays known."""
        self._set(item, _with_parts(item.json, json))

    def _set(self, item: _Item, json: dict[str, Payload]) -> None:
        is_read = self._prompts.has(item.number)
        if is_read and _content(json) == _content(item.json):
            return  # an id or a status is no news for the model
        item.json = json
        if not is_read or json.get("role") == "user":
            self._prompts.set(item.number, json)
            return
        number = self._prompts.add(json)
        if item.number in self._order:
            self._order[self._order.index(item.number)] = number
        item.number = number

    def _transcribe(self, event: Event) -> None:
        item = self._items.get(as_text(event.get("item_id")) or "")
        transcript = event.get("transcript")
        if item is not None and isinstance(transcript, str):
            self._set(item, _with_member(item.json, as_int(event.get("content_index")) or 0, "transcript", transcript))

    def _truncate(self, event: Event) -> None:
        """Read how much of an item of the model the user has heard."""
        item, end = self._items.get(as_text(event.get("item_id")) or ""), as_int(event.get("audio_end_ms"))
        if item is None or end is None or end < 0:
            return
        index = as_int(event.get("content_index")) or 0
        item.audio_ends[index] = end
        self._cut(item, index)

    def _cut(self, item: _Item, index: int) -> None:
        end = item.audio_ends[index]
        self._set(item, _with_member(item.json, index, "audio_end_ms", end))
        if item.made_by is not None:
            self._note_interruption(item.made_by, end)

    # ── responses ────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_request(self, body: Payload) -> IncrementalReading:
        """Return the prompt of a response. `body` is the event that asks for it, or an empty object."""
        parameters = as_dict(as_dict(body).get("response"))
        numbers, own = self._order, parameters.get("input")
        if isinstance(own, list):
            numbers = array("q", filter(lambda number: number >= 0, map(self._element_of, own)))
        others = {name: value for name, value in parameters.items() if name != "input" and value is not None}
        return self._prompts.read(self._session, others, numbers)

    def _element_of(self, item: Payload) -> int:
        """Return the element of an item in a request, which may refer to an item by its id.

        Return `PREAMBLE` if there is no such item.
        """
        members = as_dict(item)
        if members.get("type") != "item_reference":
            return self._prompts.add_inline(item)
        known = self._items.get(as_text(members.get("id")) or "")
        return PREAMBLE if known is None else known.number

    def read_response(self, interaction_id: str, request: Payload, response: Payload) -> None:
        """Read the items of a response that has ended, or was cut off. Out of band, they are in no conversation."""
        body, parameters = as_dict(response), as_dict(as_dict(request).get("response"))
        is_beside = parameters.get("conversation") == "none" or body.get("conversation_id", "") is None
        for json in map(as_dict, as_list(body.get("output"))):
            item = self._items.get(as_text(json.get("id")) or "")
            if item is not None:
                self._change(item, json)
            elif not is_beside:
                item = self._add(json, None)
            else:
                continue
            item.made_by = interaction_id
            for index in item.audio_ends:
                self._cut(item, index)


_SENT: Mapping[str, Callable[[RealtimeConversation, Event], None]] = {
    "session.update": RealtimeConversation._update_session,
    "conversation.item.create": RealtimeConversation._create,
    "input_audio_buffer.commit": RealtimeConversation._commit,
    "conversation.item.truncate": RealtimeConversation._truncate,
    "conversation.item.delete": RealtimeConversation._delete,
}
_RECEIVED: Mapping[str, Callable[[RealtimeConversation, Event], None]] = {
    "session.created": RealtimeConversation._confirm_session,
    "session.updated": RealtimeConversation._confirm_session,
    "conversation.item.created": RealtimeConversation._confirm,
    "conversation.item.added": RealtimeConversation._confirm,
    "conversation.item.done": RealtimeConversation._confirm,
    "input_audio_buffer.committed": RealtimeConversation._confirm,
    "conversation.item.retrieved": RealtimeConversation._retrieve,
    "conversation.item.input_audio_transcription.completed": RealtimeConversation._transcribe,
    "conversation.item.truncated": RealtimeConversation._truncate,
    "conversation.item.deleted": RealtimeConversation._delete,
    "error": RealtimeConversation._undo_refused,
}
"""The events of the client and of the server that change a conversation, each with the method that reads them."""


def _merged(known: dict[str, Payload], update: dict[str, Payload]) -> dict[str, Payload]:
    """Return the members of a session after an update, which leaves out what stays."""
    merged = dict(known)
    for name, value in update.items():
        before = known.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _merged(before, value)  # noqa: PLW2901 - the two objects become one
        merged[name] = value
    return merged


def _stated(members: dict[str, Payload]) -> dict[str, Payload]:
    return {name: value for name, value in members.items() if value is not None}


def _content(item: dict[str, Payload]) -> dict[str, Payload]:
    return {name: value for name, value in item.items() if name not in _BESIDE}


def _with_parts(known: dict[str, Payload], update: dict[str, Payload]) -> dict[str, Payload]:
    """Return an item as it is stated now, with what was known of its parts before."""
    before, parts = as_list(known.get("content")), as_list(update.get("content"))
    merged = {**_stated(known), **_stated(update)}
    content = []
    for old, new in zip_longest(before, parts):
        if isinstance(old, dict) and isinstance(new, dict):
            content.append({**_stated(old), **_stated(new)})
        else:
            content.append(old if new is None else new)
    if content:
        merged["content"] = content
    return merged


def _with_member(item: dict[str, Payload], index: int, name: str, value: Payload) -> dict[str, Payload]:
    """Return an item with a member of one of its parts set."""
    parts = [*as_list(item.get("content"))]
    if not 0 <= index < len(parts) or not isinstance(parts[index], dict):
        return item
    parts[index] = {**parts[index], name: value}
    return {**item, "content": parts}


def _may_be(sent: dict[str, Payload], added: dict[str, Payload]) -> bool:
    """Return whether an item of the server may be one that the client has sent without an id.

    The server leaves audio out, and may add transcripts.
    """
    if any(sent.get(name) != added.get(name) for name in ("type", "role", "call_id", "output", "name")):
        return False
    before, after = as_list(sent.get("content")), as_list(added.get("content"))
    pairs = zip(map(as_dict, before), map(as_dict, after), strict=False)
    return len(before) == len(after) and all(old.get("text") == new.get("text") for old, new in pairs)
