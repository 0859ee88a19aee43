"""Reading JSON whose shape cannot be trusted: the one tolerant way in, shared by all dialects.

Nothing here raises. `as_*` give a value of the type that was asked for, or the empty one of that type. `Members`
takes the members out of an object one by one: a value of the right type is taken, a value of any other type stays
where it is and comes out with the rest, so that nothing is lost on its way into `extra`. Nulls say no more than
absence and are left out of the rest. Below it stand the rules that all dialects share for arguments, content and
roles.

What a member means is for the dialects to say; how events are cut out of a stream is for `sse.py`, ids that have to
be made up are for `call_ids.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from trace_recorder.values.json_text import NotJsonError, parse, replace_lone_surrogates
from trace_recorder.values.messages import Payload, without_none

_DECODER = json.JSONDecoder()
_ROLES = {"model": "assistant", "function": "tool"}


def as_dict(value: Payload) -> dict[str, Payload]:
    """Give the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Payload) -> list[Payload]:
    """Give the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Payload) -> str | None:
    """Give the value if it is a string, else None."""
    return value if isinstance(value, str) else None


def as_int(value: Payload) -> int | None:
    """Give the value if it is a whole number (12 and 12.0, never true), else None."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def as_number(value: Payload) -> float | None:
    """Give the value if it is a number (never true), else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def says(value: Payload) -> bool:
    """Whether a value says anything: nothing empty does, nor a 0 or a false, nor what holds nothing else.

    Some servers send every member of a union, empty where it does not apply: what is empty there is none.
    """
    if isinstance(value, dict):
        return any(map(says, value.values()))
    return any(map(says, value)) if isinstance(value, list) else bool(value)


def json_value(text: str) -> Payload:
    """Parse a JSON text; None where it is none."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


class Members:
    """The members of a JSON object, to be taken out one by one.

    Each method takes one member: it gives the value and removes it where the type is right, and otherwise gives
    None, [] or {} and leaves the member to `rest`. A value that is no object has no members. The object that was
    given is never changed.
    """

    __slots__ = ("_left", "_opened")

    def __init__(self, value: Payload) -> None:
        self._left: dict[str, Payload] = value.copy() if isinstance(value, dict) else {}
        self._opened: dict[str, Members] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str) -> Payload:
        """Take the member, whatever it is."""
        return self._left.pop(key, None)

    def text(self, key: str) -> str | None:
        """Take the member if it is a string."""
        if isinstance(value := self._left.get(key), str):
            del self._left[key]
            return value
        return None

    def word(self, key: str) -> str | None:
        """Take the member if it is a string; the empty one is none."""
        return self.text(key) or None

    def drop_empty(self, *keys: str) -> None:
        """Take those of these members out that say nothing."""
        for key in keys:
            if key in self._left and not says(self._left[key]):
                del self._left[key]

    def integer(self, key: str) -> int | None:
        """Take the member if it is a whole number."""
        if (value := self._left.get(key)) is None or (number := as_int(value)) is None:
            return None
        del self._left[key]
        return number

    def first_integer(self, *keys: str) -> int | None:
        """Take the first of these members that is a whole number, be it 0."""
        return next((number for key in keys if (number := self.integer(key)) is not None), None)

    def number(self, key: str) -> float | None:
        """Take the member if it is a number."""
        return self.take(key) if as_number(self._left.get(key)) is not None else None

    def array(self, key: str) -> list[Payload]:
        """Take the member if it is an array."""
        if isinstance(value := self._left.get(key), list):
            del self._left[key]
            return value
        return []

    def object(self, key: str) -> dict[str, Payload]:
        """Take the member if it is an object."""
        if isinstance(value := self._left.get(key), dict):
            del self._left[key]
            return value
        return {}

    def inside(self, key: str) -> Members:
        """Open the member if it is an object: what is not taken from inside it stays part of the rest."""
        opened = Members(value := self._left.get(key))
        if isinstance(value, dict):
            self._opened[key] = opened
        return opened

    def rest(self) -> dict[str, Payload]:
        """Give what was not taken, without the nulls and the opened members that were emptied."""
        left = self._left
        if self._opened:
            left = left | {key: opened.rest() or None for key, opened in self._opened.items() if key in left}
        return without_none(**left) if left else {}

    def all(self) -> dict[str, Payload]:
        """Give what was not taken, nulls too: of a request's parameters these were sent on purpose."""
        return self._left | {key: opened.all() for key, opened in self._opened.items() if key in self._left}


def role_of(value: Payload, default: str = "user") -> str:
    """Give the role in the words that all dialects share ('model' is assistant, 'function' is tool)."""
    role = as_text(value) or default
    return _ROLES.get(role, role)


def arguments_of(raw: Payload) -> Payload:
    """Read a tool call's arguments: the parsed object, {} for none, else what came, as it came.

    Half of a surrogate pair reads as U+FFFD; a text with anything else that strict JSON has no word for stays a text.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    if not isinstance(raw, str):
        return raw
    try:
        parsed = parse(replace_lone_surrogates(raw))
    except NotJsonError:
        return raw
    return parsed if isinstance(parsed, dict) else raw


def text_part(text: str, extra: dict[str, Payload] | None = None) -> dict[str, Payload]:
    """Make the one form of a text part: type and text, then what else the provider's part has."""
    return {"type": "text", "text": text, **(extra or {})}


def is_plain_text(part: dict[str, Payload]) -> bool:
    """Whether a part is text and says nothing else."""
    text = part.get("type") == "text" and isinstance(part.get("text"), str)
    return text and not any(says(value) for name, value in part.items() if name not in ("type", "text"))


def content_of(parts: Payload) -> str | list[Payload] | None:
    """Give a message's content: a string stays one, one plain text part is its text, no part is None.

    Plain is a text beside which nothing is said. Text parts have the form of `text_part` already; every other part
    passes as it is. A value that is no list stands as the only part.
    """
    if parts is None or isinstance(parts, str):
        return parts
    listed = parts if isinstance(parts, list) else [parts]
    if len(listed) == 1:
        only = as_dict(listed[0])
        if is_plain_text(only):
            return as_text(only["text"])
    return listed or None


def join_texts(texts: Iterable[str | None], between: str = "") -> str | None:
    """Join what there is of texts; None if there is none at all."""
    there = [text for text in texts if text is not None]
    return between.join(there) if there else None
