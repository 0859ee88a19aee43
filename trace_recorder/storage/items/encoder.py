"""Encodes requests as items: a part that is sent repeatedly is stored once.

Each LLM request of a conversation repeats the messages before it. `ItemEncoder` takes a request's JSON apart. Each
element of a list of objects (messages, contents, tools, …) becomes an item. Each large member, and each large string
inside an element, becomes an item too. A large member that is an object with such a list is taken apart like the
request itself. An item is written once, in an `item` record, and has a number. The record of the request refers to
items by their numbers. `table.py` expands such a record to the JSON that was sent. Two values are
the same item if their JSON texts are the same. The rules are the same for every provider, because this module does not
know the meaning of members.

    item         {"n": 7, "value": …}                                     an element or a large member
                 {"n": 8, "value": {… "@string:3" …}, "strings": {"@string:3": 3}}
                 {"s": 3, "value": "…"}                                   a large string inside an element
    in a record  "body": the request with null in place of what is in `items`
                 "items": {"messages": [[0, 41]], "instructions": 42}     ranges of numbers, or one number
                 "items": {"/request/contents": [[0, 41]]}                members of an object in the request

If a list has many ranges, they may refer to positions in an earlier list of the same name that is written in full:
{"base": 171, "ranges": [[900, 900], {"base": [1, 280]}]}. Here 171 is the `seq` of the record that has that list.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

from trace_recorder.facts import ItemFact, JsonText
from trace_recorder.storage.items.conversation_prefix import (
    MIN_COMPARED_BYTES,
    ConversationPrefix,
    ListChanges,
    NewBytes,
    changes_of,
    newest_prefixes,
)
from trace_recorder.storage.items.item_lists import (
    MAX_FULL_RANGES,
    Base,
    Element,
    ItemList,
    Parts,
    RequestItems,
    ranges_of_base,
)
from trace_recorder.storage.items.large_strings import MIN_STRING_CHARACTERS, LargeString, reduce_json
from trace_recorder.storage.redaction.name_kinds import kind_of_name
from trace_recorder.values.json_text import (
    JsonMember,
    NotJsonError,
    added_elements,
    decode_json,
    inner_members,
    one_line,
    refuse_lone_surrogates,
    split_members,
)
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

MIN_MEMBER_CHARACTERS = 256
"""A request's member that is not a list of objects becomes an item if it has at least this many characters."""
MIN_PREPARED_BYTES = 32 * 1024
"""Only a longer request is prepared."""
MAX_KNOWN_ITEMS = 16_384
"""An encoder remembers at most this many items, and forgets the oldest first.

A forgotten item is written again when it is sent again.
"""

MAX_GROWING_LISTS = 8
"""`encode_lists` keeps at most this many of the newest lists, so that a later list can continue one of them."""


class NewElements(NamedTuple):
    """New elements of a list: their JSON text, from the byte `start` of the request on, and the spans in this text."""

    text: str
    spans: Sequence[tuple[int, int]]
    start: int


class Prepared(Struct, frozen=True):
    """The result of `ItemEncoder.prepare`: the new parts of a request, without their large strings.

    If the request changes the list of an earlier request, `changes` has the changes, and `added` the new elements of
    each new part, or None if a part has anything but whole elements. Otherwise `text` and `members` are the whole
    request. `strings` has the large strings by their marks, or is None if the new parts are too short to have any.
    """

    strings: Mapping[str, LargeString] | None
    text: str = ""
    members: list[JsonMember] | None = None
    changes: ListChanges | None = None
    added: list[NewElements] | None = None


class Encoded(Struct):
    """A request that was taken apart.

    `new` has the new items, which must be written first. `body` and `items` are members of the request's own fact. When
    all of these facts are on file, call `mark_written` with the `seq` of the request's record, so that the new items
    are remembered.
    """

    new: list[ItemFact]
    body: Payload
    items: dict[str, Payload]
    mark_written: Callable[[int], None]


class ItemEncoder:
    """The encoder of the requests of one journal.

    Not thread-safe: the caller holds the run's lock. An item counts as written only after `Encoded.mark_written`. If
    its record could not be written, the item is new again in the next request.
    """

    def __init__(self, *, max_known_items: int = MAX_KNOWN_ITEMS) -> None:
        self._max_known_items = max_known_items
        self._known: dict[bytes, int] = {}
        self.next_numbers = {"n": 0, "s": 0}
        """The number of the next item under "n", and of the next large string under "s"."""
        self._bases: dict[str, Base] = {}
        self._prefixes: list[ConversationPrefix] = []
        self._growing: list[ItemList] = []

    def prepare(self, request: bytes, changes: ListChanges | None = None) -> Prepared | None:
        """Compare a request with earlier ones, and split its new part without its large strings.

        `changes` is the result of `changes_of` if the request was compared already. Return None if the request is
        short. Any thread may call `prepare`, without the lock. If another request is encoded between `prepare` and
        `encode`, `encode` may ignore the result.
        """
        if len(request) <= MIN_PREPARED_BYTES:
            return None
        changes = changes or self.changes_of(request)
        try:
            if changes is None:
                reduced = reduce_json(request)
                refuse_lone_surrogates(reduced.text)
                return Prepared(reduced.strings, text=reduced.text, members=split_members(reduced.text))
            if changes.new_bytes() < MIN_STRING_CHARACTERS:
                return Prepared(None, changes=changes, added=_new_elements(changes, partial(_text_of, request)))
            strings: dict[str, LargeString] = {}

            def text_of(span: NewBytes) -> str:
                part = reduce_json(request[slice(*span)])
                refuse_lone_surrogates(part.text)
                strings.update(part.strings)
                return part.text

            return Prepared(strings, changes=changes, added=_new_elements(changes, text_of))
        except NotJsonError:  # `encode` raises it again
            return None

    def encode(self, request: bytes, prepared: Prepared | None = None) -> Encoded:
        """Take a request apart into new item records and the rest of the request.

        `request` is a JSON object in UTF-8, and `prepared` is the result of `prepare`. Elements that an earlier request
        has too are not parsed or hashed again (`conversation_prefix.py`). Raises NotJsonError if `request` is not a
        JSON object.
        """
        # Ctrl-C could leave a prefix with only some of the new elements. So no prefix is kept until all is on file.
        prefixes, self._prefixes = self._prefixes, []
        items = RequestItems(self._known, self.next_numbers)
        taken = None
        if len(request) >= MIN_COMPARED_BYTES:
            taken = _continue_prefix(prefixes, request, prepared, items)
        if taken is None:
            taken = _take_apart(request, prepared, items)
        prefix = taken.prefix

        def keep() -> None:
            # another request may have been encoded since, and have its prefix in `self._prefixes`
            self._prefixes = newest_prefixes(prefix, [*self._prefixes, *prefixes])

        return self._encoded(items, taken.body, taken.parts, keep)

    def encode_lists(self, lists: Mapping[str, str | Sequence[Element]]) -> Encoded:
        """Take apart a request that is given as lists of elements, and as the JSON of its other members.

        If an element has an `item`, the number of this item is written. If an element has no `item` yet, it gets the
        known item with the same text, or a new one.
        """
        growing, self._growing = self._growing, []  # empty until all is on file, as the prefixes in `encode`
        items = RequestItems(self._known, self.next_numbers)
        body: list[str] = []
        parts: dict[str, int | ItemList] = {}
        for name, content in lists.items():
            if isinstance(content, str):
                text = f'{{"{name}":{content}}}'
                part: int | ItemList | None = _encode_member(text, split_members(text)[0], items)
            else:
                part = _continue_list(growing, content, items)
            if part is None:
                body.append(f'"{name}":{content}')
            else:
                body.append(f'"{name}":null')
                parts[name] = part
        extended = [part for part in parts.values() if isinstance(part, ItemList)]

        def keep() -> None:
            self._growing = [*extended, *self._growing, *growing][:MAX_GROWING_LISTS]

        return self._encoded(items, f"{{{','.join(body)}}}", parts, keep)

    def _encoded(self, items: RequestItems, body: str, parts: Parts, keep: Callable[[], None]) -> Encoded:
        """Return the `Encoded` of a request that was taken apart. `keep` is called when the request is on file."""
        described: dict[str, Payload] = {}
        full: dict[str, array[int]] = {}  # the lists that later lists may refer to
        for name, part in parts.items():
            if isinstance(part, int):
                described[name] = part
                continue
            ranges = None
            if len(part.begins) > MAX_FULL_RANGES:
                ranges = ranges_of_base(part, self._bases.get(name))
                if ranges is None:
                    full[name] = part.numbers[:]  # a copy, because the next request adds to this list in place
            described[name] = ranges or part.ranges()
        new = items.new

        def remember(seq: int) -> None:
            self._known |= new
            if len(self._known) > self._max_known_items:
                for key in list(islice(self._known, len(self._known) - self._max_known_items // 8 * 7)):
                    del self._known[key]
            self._bases |= {name: Base(seq, numbers) for name, numbers in full.items()}
            keep()

        return Encoded(items.facts, JsonText(body), described, remember)

    def changes_of(self, request: bytes) -> ListChanges | None:
        """Compare a request with earlier ones. Return None if it probably changes none of them.

        Any thread may call this method.
        """
        _, changes = next(changes_of(self._prefixes, request), (None, None))
        return changes


class _TakenApart(NamedTuple):
    """The body and the parts of a request, and the prefix that has this request as its newest."""

    body: str
    parts: Parts
    prefix: ConversationPrefix | None


def _continue_prefix(
    prefixes: list[ConversationPrefix], request: bytes, prepared: Prepared | None, items: RequestItems
) -> _TakenApart | None:
    """Take apart a request that continues one of these prefixes. Return None if it continues none of them."""
    if prepared is not None and prepared.changes is not None and prepared.added is not None:
        for prefix in prefixes:
            if prefix.request is prepared.changes.base:
                if prepared.strings is not None:
                    items.take_reduced(prepared.strings)
                return _apply(prefix, prepared.changes, prepared.added, request, items)
    for prefix, changes in changes_of(prefixes, request):
        added = _new_elements(changes, partial(_text_of, request))
        if added is not None:
            return _apply(prefix, changes, added, request, items)
    return None


def _text_of(request: bytes, span: NewBytes) -> str:
    """Return the text of a new part. Raises NotJsonError."""
    return decode_json(request[span.start : span.end])


def _new_elements(changes: ListChanges, text_of: Callable[[NewBytes], str]) -> list[NewElements] | None:
    """Return the elements of each new part of a request, or None if a part has anything but whole elements.

    `text_of` returns the text of a part.
    """
    added = []
    for span in changes.new():
        text = text_of(span)
        spans = added_elements(text, is_beginning=span.start == changes.opening)
        if spans is None:
            return None
        added.append(NewElements(text, spans, span.start))
    return added


def _apply(
    prefix: ConversationPrefix, changes: ListChanges, added: list[NewElements], request: bytes, items: RequestItems
) -> _TakenApart:
    """Take apart a request that changes the list of a prefix. The list of a prefix that is extended grows in place."""
    if changes.extends:
        for elements in added:
            for number, end in _numbered(elements, items):
                prefix.growing.add(number)
                prefix.ends.append(end)
        return _TakenApart(prefix.body, prefix.parts, prefix.take(request))
    numbers, ends, earlier = array("L"), array("Q"), prefix.growing.numbers
    position, remaining = prefix.opening, iter(added)
    for piece in changes.pieces:
        if isinstance(piece, NewBytes):
            for number, end in _numbered(next(remaining), items):
                numbers.append(number)
                ends.append(end)
            position = piece.end
        else:
            shift = position - prefix.end_before(piece.begin)
            numbers += earlier[piece.begin : piece.end]
            ends.extend(map(shift.__add__, prefix.ends[piece.begin : piece.end]))
            position = ends[-1]
    growing = ItemList.of(numbers)
    parts = {**prefix.parts, prefix.name: growing}
    changed = ConversationPrefix(prefix.tail, prefix.body, parts, prefix.name, growing, prefix.opening, ends)
    return _TakenApart(prefix.body, parts, changed.take(request))


def _numbered(elements: NewElements, items: RequestItems) -> Iterator[tuple[int, int]]:
    """Yield the number of each element, and the byte of the request at which it ends."""
    done, position = 0, elements.start
    for start, end in elements.spans:
        position += items.bytes_of(elements.text[done:end])
        done = end
        yield items.item_of(elements.text[start:end]), position


def _take_apart(request: bytes, prepared: Prepared | None, items: RequestItems) -> _TakenApart:
    """Take apart a request that continues no earlier request.

    If several members have the same name, the last of them counts.
    """
    if prepared is not None and prepared.members is not None and prepared.strings is not None:
        items.take_reduced(prepared.strings)
        text, members = prepared.text, prepared.members
    else:
        text = decode_json(request)
        members = split_members(text)
    by_name = {member.name: member for member in members}
    encoded = _EncodedMembers(text, items)
    skeleton = one_line(items.restored(encoded.add_object(by_name)))
    prefix = None
    has_duplicates = len(members) != len(by_name)
    if len(request) >= MIN_COMPARED_BYTES and not has_duplicates:
        prefix = _new_prefix(request, text, encoded.members, skeleton, encoded.parts, items)
    return _TakenApart(skeleton, encoded.parts, prefix)


class _EncodedMembers:
    """The members of a request that become items, by their names.

    The name of a member of an object in the request is a path, such as "/request/contents".
    """

    def __init__(self, text: str, items: RequestItems) -> None:
        self.parts: dict[str, int | ItemList] = {}
        self.members: dict[str, JsonMember] = {}
        self._text = text
        self._items = items

    def add_object(self, members: Mapping[str, JsonMember], path: str = "") -> str:
        """Add the members of an object. Return the object's text, with null in place of the members in items."""
        body: list[str] = []
        for name, member in members.items():
            value = member.value
            inner: dict[str, JsonMember] = {}
            if not path and value.startswith("{"):
                inner = _members_with_lists(member, self._items)
            if inner and not any(f"/{name}/{inner_name}" in members for inner_name in inner):
                value = self.add_object(inner, f"/{name}/")
            else:
                part = _encode_member(self._text, member, self._items)
                if part is not None:
                    value = "null"
                    self.parts[path + name] = part
                    self.members[path + name] = member
            body.append(f"{member.name_text}:{value}")
        return f"{{{','.join(body)}}}"


def _members_with_lists(member: JsonMember, items: RequestItems) -> dict[str, JsonMember]:
    """Return the members of a large object that has a list of objects. Return {} for any other object in a request.

    An object with two members of one name, or with a name that cannot be in a path, is not taken apart.
    """
    if items.size_of(member.value) < MIN_MEMBER_CHARACTERS or kind_of_name(member.name):
        return {}
    members = inner_members(member)
    by_name = {inner.name: inner for inner in members}
    if len(members) != len(by_name) or any("/" in name for name in (member.name, *by_name)):
        return {}
    if not any(inner.elements for inner in members):
        return {}
    return by_name


def _encode_member(text: str, member: JsonMember, items: RequestItems) -> int | ItemList | None:
    if member.elements is not None:
        numbers = ItemList()
        for start, end in member.elements:
            numbers.add(items.item_of(text[start:end]))
        return numbers
    if items.size_of(member.value) < MIN_MEMBER_CHARACTERS or kind_of_name(member.name):
        return None  # masking needs the name of a secret's member, which the record of an item does not have
    return items.item_of(member.value)


def _continue_list(growing: list[ItemList], elements: Sequence[Element], items: RequestItems) -> ItemList:
    """Return a list of these elements.

    If the elements begin with the elements of lists in `growing`, the longest of those lists is extended. Otherwise a
    new list is made.
    """
    known = array("L")
    for element in elements:
        if element.item is None:
            break
        known.append(element.item)
    continued = ItemList()
    for candidate in growing:
        length = len(candidate.numbers)
        if len(continued.numbers) < length <= len(known) and known[:length] == candidate.numbers:
            continued = candidate
    growing[:] = [candidate for candidate in growing if candidate is not continued]
    continued.add_elements(elements[len(continued.numbers) :], items)
    return continued


def _new_prefix(
    request: bytes, text: str, members: dict[str, JsonMember], body: str, parts: Parts, items: RequestItems
) -> ConversationPrefix | None:
    """Return the prefix of a request up to the end of its longest list, or None if the request has no such list.

    The next request probably begins with this prefix, and has more elements in the list.
    """
    lists = [name for name, member in members.items() if member.elements]
    if not lists:
        return None
    longest = max(lists, key=lambda name: items.size_of(members[name].value))
    elements, growing = members[longest].elements, parts[longest]
    if not elements or not isinstance(growing, ItemList):
        return None
    tail = items.restored(text[elements[-1][1] :]).encode()
    opening, ends = elements[0][0], array("Q", [end for _, end in elements])
    if len(text) != len(request):  # a character may have several bytes, and a mark replaces a large string
        opening = items.bytes_of(text[:opening])
        sizes = (items.bytes_of(text[before:end]) for before, end in pairwise([elements[0][0], *ends]))
        ends = array("Q", [*accumulate(sizes, initial=opening)][1:])
    return ConversationPrefix(tail, body, parts, longest, growing, opening, ends).take(request)
