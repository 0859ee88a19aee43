"""Access to JSON of unknown shape, for all dialects.

Nothing here raises. The `as_*` functions return a value of the requested type, or the empty value of that type.
`Members` takes members out of an object one by one. A value of the right type is taken. `rest` returns all values that
were not taken, so that they get into `extra`. A null means the same as an absent member, and `rest` leaves it out. The
last functions have the rules for arguments, content and roles that all dialects share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import float_info

from trace_recorder.signal_handlers import ours
from trace_recorder.values.json_text import NotJsonError, parse, replace_lone_surrogates
from trace_recorder.values.messages import Payload

_DECODER = json.JSONDecoder()
try:
    from msgspec import MsgspecError
    from msgspec.json import Decoder

    _decode: Callable[[str], Payload] = Decoder().decode
except ImportError:  # an agent's interpreter may have only the standard library
    _decode, MsgspecError = _DECODER.decode, ValueError  # type: ignore[assignment, misc]
ROLES = {"model": "assistant", "function": "tool"}
"""Maps the names of roles in some dialects to the names that all dialects share."""


def as_dict(value: Payload) -> dict[str, Payload]:
    """Return the value if it is an object, or else an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Payload) -> list[Payload]:
    """Return the value if it is an array, or else an empty array."""
    return value if isinstance(value, list) else []


def as_elements(value: Payload) -> list[Payload]:
    """Return the value if it is an array. Any other value is the only element of the result, unless it is null."""
    if isinstance(value, list):
        return value
    if value is None:
        return []
    return [value]


def as_text(value: Payload) -> str | None:
    """Return the value if it is a string, else None."""
    return value if isinstance(value, str) else None


def as_int(value: Payload) -> int | None:
    """Return the value if it is a whole number, such as 12 or 12.0, else None. A bool is not a number."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def as_number(value: Payload) -> float | None:
    """Return the value if it is a number that a float can hold, else None. A bool is not a number."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if -float_info.max <= value <= float_info.max:
        return value
    return None


def map_inside(function: Callable[[Payload], Payload], value: Payload) -> Payload:
    """Return an array or an object with a function applied to each element. Any other value is unchanged."""
    if isinstance(value, list):
        return [function(element) for element in value]
    if isinstance(value, dict):
        return {name: function(member) for name, member in value.items()}
    return value


def is_nonempty(value: Payload) -> bool:
    """Whether a value is, or contains, a string that is not empty, a number except 0, or true.

    Some servers send every member of a union, and leave members that do not apply empty.
    """
    if isinstance(value, dict):
        return any(map(is_nonempty, value.values()))
    if isinstance(value, list):
        return any(map(is_nonempty, value))
    return bool(value)


def json_value(text: str) -> Payload:
    """Return the value of a JSON text, or None if the text is not JSON.

    msgspec is tried first, because it is five times as fast as Python's json. Only Python's json reads NaN, infinities
    and halves of surrogate pairs.
    """
    try:
        return _decode(text)
    except ours(MsgspecError, ValueError, RecursionError):
        pass
    try:
        return _DECODER.decode(text)
    except ours(ValueError, RecursionError):
        return None


class Members(dict[str, Payload]):
    """The members of a JSON object, to be taken out one by one.

    Each method takes one member. If the value has the right type, the method removes and returns it. Otherwise it
    returns None, [] or {} and leaves the member to `rest`. A value that is not an object has no members. The methods
    remove members from this copy. The object that was passed is never changed.
    """

    _opened: Mapping[str, Members] = {}

    def __init__(self, value: Payload) -> None:
        if isinstance(value, dict):
            dict.__init__(self, value)

    def take(self, key: str) -> Payload:
        """Take the member, whatever its type."""
        return self.pop(key, None)

    def text(self, key: str) -> str | None:
        """Take the member if it is a string."""
        if isinstance(value := self.get(key), str):
            del self[key]
            return value
        return None

    def nonempty_text(self, key: str) -> str | None:
        """Take the member if it is a string; return None for the empty string."""
        if isinstance(value := self.get(key), str):
            del self[key]
            return value or None
        return None

    def drop_empty(self, *keys: str) -> None:
        """Remove these members if they are empty."""
        for key in keys:
            if key in self and not is_nonempty(self[key]):
                del self[key]

    def integer(self, key: str) -> int | None:
        """Take the member if it is a whole number."""
        number = self.get(key)
        if number is None or (type(number) is not int and (number := as_int(number)) is None):
            return None
        del self[key]
        return number

    def first_integer(self, *keys: str) -> int | None:
        """Take the first of these members that is a whole number, even 0."""
        return self.first_integers(keys)[0]

    def first_integers(self, *alternatives: Sequence[str]) -> list[int | None]:
        """For each group of names, take the first member that is a whole number, even 0."""
        numbers: list[int | None] = []
        for keys in alternatives:
            number = None
            for key in keys:
                number = self.get(key)
                if number is not None and type(number) is not int:
                    number = as_int(number)
                if number is not None:
                    del self[key]
                    break
            numbers.append(number)
        return numbers

    def integers_inside(self, *alternatives: tuple[str, Sequence[str]]) -> list[int | None]:
        """For each name, take the member from the first inner object in which it is a whole number, even 0.

        Each argument is the name of a member, and the names of the inner objects that may have the member. All other
        members of an object stay in the object, except nulls. An object that becomes empty is removed.
        """
        numbers: list[int | None] = []
        for name, keys in alternatives:
            number = None
            for key in keys:
                if not isinstance(value := self.get(key), dict):
                    continue
                remaining = dict(value)
                if number is None and (number := as_int(remaining.get(name))) is not None:
                    del remaining[name]
                if None in remaining.values():
                    remaining = {inner: member for inner, member in remaining.items() if member is not None}
                if remaining:
                    self[key] = remaining
                else:
                    del self[key]
            numbers.append(number)
        return numbers

    def number(self, key: str) -> float | None:
        """Take the member if it is a number."""
        number = as_number(self.get(key))
        if number is not None:
            del self[key]
        return number

    def array(self, key: str) -> list[Payload]:
        """Take the member if it is an array."""
        if isinstance(value := self.get(key), list):
            del self[key]
            return value
        return []

    def object(self, key: str) -> dict[str, Payload]:
        """Take the member if it is an object."""
        if isinstance(value := self.get(key), dict):
            del self[key]
            return value
        return {}

    def nested(self, key: str) -> Members:
        """Return the members of an inner object, to be taken out one by one.

        `rest` of the outer object includes the members that were not taken.
        """
        opened = Members(value := self.get(key))
        if isinstance(value, dict):
            self._opened = {**self._opened, key: opened}
        return opened

    def rest(self) -> dict[str, Payload]:
        """Return the members that were not taken, without nulls, and without inner objects that are empty now."""
        if not self:
            return {}
        members = dict(self)
        if None in members.values():
            members = {key: value for key, value in members.items() if value is not None}
        for key, opened in self._opened.items():
            if key in members and not (rest := opened.rest()):
                del members[key]
            elif key in members:
                members[key] = rest
        return members

    def all(self) -> dict[str, Payload]:
        """Return the members that were not taken, with nulls.

        Nulls are kept because null parameters of a request are sent on purpose.
        """
        return {**self, **{key: opened.all() for key, opened in self._opened.items() if key in self}}


def role_of(value: Payload, default: str = "user") -> str:
    """Return the role under the name that all dialects share ('model' is assistant, 'function' is tool)."""
    if value and isinstance(value, str):
        return ROLES.get(value, value)
    return ROLES.get(default, default)


def arguments_of(raw: Payload) -> Payload:
    """Return a tool call's arguments: the object in the text, or {} if there are no arguments.

    In the object, a lone surrogate becomes U+FFFD. Any other value is returned unchanged, even a text that is not
    strict JSON.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    if not isinstance(raw, str):
        return raw
    try:
        parsed = parse(replace_lone_surrogates(raw))
    except NotJsonError:
        return raw
    if isinstance(parsed, dict):
        return parsed
    return raw


def text_part(text: str, extra: dict[str, Payload] | None = None) -> dict[str, Payload]:
    """Make a text part in the common form: type and text, then the other members of the provider's part."""
    return {"type": "text", "text": text, **(extra or {})}


def as_part(value: Payload) -> Payload:
    """Return a text as a text part, and any other value unchanged."""
    if isinstance(value, str):
        return text_part(value)
    return value


def is_plain_text(part: dict[str, Payload]) -> bool:
    """Whether a part is a text without any other information."""
    text = part.get("type") == "text" and isinstance(part.get("text"), str)
    return text and not any(is_nonempty(value) for name, value in part.items() if name not in ("type", "text"))


def content_of(parts: Payload) -> str | list[Payload] | None:
    """Read a message's content. A single plain text part becomes its text. An empty list becomes None.

    Text parts must have the form of `text_part`. Every other part is unchanged. A value that is not a list counts as
    the only part.
    """
    if parts is None or isinstance(parts, str):
        return parts
    listed = as_elements(parts)
    if len(listed) == 1:
        only = as_dict(listed[0])
        if is_plain_text(only):
            return as_text(only["text"])
    return listed or None


def join_texts(texts: Iterable[str | None], between: str = "") -> str | None:
    """Join the texts that are not None. Return None if there is no such text."""
    present = [text for text in texts if text is not None]
    if not present:
        return None
    return between.join(present)
