"""Encodes messages of a websocket as text for the journal, and media in them as their size and digest.

A message begins with `> ` if the client sent it, or with `< ` if the client received it. It ends with a newline. After
each newline inside the message follow two spaces. So the text has all messages, and is cut at the ends of its lines.

A message of a response is an event of the response's stream: each of its lines follows `data: `, as in a server-sent
event (`framing` "websocket"). So the dialects read it as they read a stream over HTTP.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import Literal

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours

FRAMING = "websocket"
Direction = Literal["sent", "received"]
_MARKS: dict[Direction, bytes] = {"sent": b"> ", "received": b"< "}
_DIRECTIONS: dict[bytes, Direction] = {mark: direction for direction, mark in _MARKS.items()}
_INSIDE = b"  "
_DATA = b"data: "


def marked(direction: Direction, message: bytes) -> bytes:
    """Return a message as text for the journal."""
    return _MARKS[direction] + message.replace(b"\n", b"\n" + _INSIDE) + b"\n"


def read_marked(text: bytes) -> Iterator[tuple[Direction, bytes]]:
    """Yield the messages in a text with their directions. Lines before the first mark are left out."""
    direction: Direction | None = None
    lines: list[bytes] = []
    for line in text.removesuffix(b"\n").split(b"\n"):
        mark = line[: len(_INSIDE)]
        if mark in _DIRECTIONS:
            if direction is not None:
                yield direction, b"\n".join(lines)
            direction, lines = _DIRECTIONS[mark], []
        lines.append(line[len(mark) :])
    if direction is not None:
        yield direction, b"\n".join(lines)


def as_event(message: bytes) -> bytes:
    """Return a message of a response as a server-sent event."""
    return _DATA + message.replace(b"\n", b"\n" + _DATA) + b"\n\n"


def from_event(event: bytes) -> bytes:
    """Return the message of a server-sent event."""
    return event.removesuffix(b"\n\n").removeprefix(_DATA).replace(b"\n" + _DATA, b"\n")


def media_note(encoded: str) -> str:
    """Return what stands in the place of media: how many bytes they have, and their SHA-256.

    `encoded` is base64. If it cannot be decoded, the bytes are those of `encoded` itself.
    """
    try:
        data = base64.b64decode(encoded, validate=True)
    except ours(binascii.Error, ValueError):
        data = encoded.encode("utf-8", "replace")
    return _note(data)


def _note(data: bytes) -> str:
    return f"[media: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"


def without_media(message: bytes, event_type: str) -> bytes:
    """Return a message with a note in the place of its media. All other bytes stay as they are.

    `event_type` is the `type` of the message, or empty. A message that is not UTF-8, and is no delta,
    becomes a note as a whole.
    """
    if event_type.endswith(_AUDIO_DELTA):
        return _DELTA.sub(_with_note, message)
    if event_type.endswith(_DELTA_END):
        return message
    for name, pattern in _MEDIA:
        if name in message:
            message = pattern.sub(_with_note, message)
    if not message.isascii():
        try:
            message.decode()
        except ours(UnicodeDecodeError):
            return _note(message).encode()
    return message


def _with_note(match: re.Match[bytes]) -> bytes:
    return match[1] + media_note(match[2].replace(b"\\/", b"/").decode("utf-8", "replace")).encode() + b'"'


_AUDIO_DELTA, _DELTA_END = "audio.delta", ".delta"
_STRING = rb'([^"\\]*+(?:\\/[^"\\]*+)*+)"'
"""The rest of a string of base64. JSON may spell a slash as `\\/`."""
_DELTA = lazy_pattern(rb'("delta"\s*:\s*")' + _STRING)
_MEDIA = (
    (b'"audio"', lazy_pattern(rb'("audio"\s*:\s*")' + _STRING)),
    (b'"partial_image_b64"', lazy_pattern(rb'("partial_image_b64"\s*:\s*")' + _STRING)),
    (b'"image_url"', lazy_pattern(rb'("image_url"\s*:\s*"data:(?:[^",\\]|\\/)*,)' + _STRING)),
    (b'"image_generation_call"', lazy_pattern(rb'("result"\s*:\s*")([A-Za-z0-9+/=]{64,}+)"')),
)
"""The members of events that have media, each with a text that is in a message with such a member.

Sources: OpenAI's reference of the events of Responses and of Realtime, and the types of its SDK.
"""
