"""The framing of streams: server-sent events, JSON lines, and AWS's event stream.

Events are split by the WHATWG rules (https://html.spec.whatwg.org/multipage/server-sent-events.html) as far as the SDKs
follow them. Lines end with LF, CR or CRLF, and comments are skipped. The data lines of an event are joined with LF. One
space after the colon is not part of the value. An event without a data line is ignored. Unlike in a browser, the last
event counts even if the connection ended before its empty line, because some servers end in that way. Splitting raises
nothing, even if the text was cut off.

Bedrock's streams consist of binary frames (https://smithy.io/2.0/aws/amazon-eventstream.html). On file, each frame is
one line, `{"headers":{…},"payload":…}`. So the text of the frame is masked and joined like the text of any other
stream. A JSON payload is unchanged. InvokeModel wraps an event of the model in base64, `{"bytes":"…"}`. The line of
such a frame has the event under `event`, and the other members under `beside`. A frame consists of its length, the
length of the headers, the CRC of these two, the headers, the payload, and the CRC of everything before. A header is a
name and a typed value.

The dialects read the data of an event.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain

from trace_recorder.background_work import current_yield, yield_to_others
from trace_recorder.dialects.json_access import as_dict, as_text, json_value
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import JoinedStream, Payload

MEDIA_TYPE = "application/vnd.amazon.eventstream"
FRAMING = "aws-eventstream"
EXCEPTION_HEADER = ":exception-type"
EVENT_END = lazy_pattern(rb"\r?\n\r?\n|\r\r")
"""Matches the end of a server-sent event: the end of its last line, and an empty line."""
LINE_BEGINS = '{"headers":{'
"""The beginning of each line of a stream of frames."""

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_MAX_FRAME_BYTES = 32 * 1024 * 1024
_MAX_CACHED_BYTES = 1024
_STRING = 7
_FIXED_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Maps each type of header value to its number of bytes. Strings (7) and byte arrays (6) state their length."""
_SEPARATORS = (",", ":")
_DECODER = json.JSONDecoder()


class FrameDecoder:
    """Converts the bytes of a stream to lines as they arrive. An incomplete frame waits for its remaining bytes."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def __call__(self, data: bytes) -> bytes:
        """Take the next bytes, and return the lines of the frames that are complete.

        Raises ValueError if the bytes are not frames. If complete frames come before such bytes, the call returns the
        lines of these frames, and the next call raises.
        """
        self._waiting += data
        lines: list[str] = []
        while len(self._waiting) >= _PRELUDE.size:
            length, length_of_headers, crc = _PRELUDE.unpack_from(self._waiting)
            is_whole = binascii.crc32(self._waiting[: _PRELUDE.size - _CRC.size]) == crc
            if not is_whole or not _PRELUDE.size + _CRC.size + length_of_headers <= length <= _MAX_FRAME_BYTES:
                if lines:
                    break
                raise ValueError("a frame of an event stream does not begin with its lengths")
            if len(self._waiting) < length:
                break
            frame = bytes(self._waiting[:length])
            del self._waiting[:length]
            lines.append(_line(frame, length_of_headers))
        return "".join(lines).encode()


def _line(frame: bytes, length_of_headers: int) -> str:
    """Return the line of a complete frame. Raises ValueError if its CRC is wrong."""
    if binascii.crc32(frame[: -_CRC.size]) != _CRC.unpack(frame[-_CRC.size :])[0]:
        raise ValueError("a frame of an event stream has a wrong CRC")
    begin = _PRELUDE.size + length_of_headers
    headers = frame[_PRELUDE.size : begin]
    if length_of_headers <= _MAX_CACHED_BYTES:
        headers_json = _headers_as_json(headers)
    else:
        headers_json = _headers_as_json.__wrapped__(headers)
    return f'{{"headers":{headers_json},{_payload_members(frame[begin : -_CRC.size])}}}\n'


@lru_cache(maxsize=64)
def _headers_as_json(data: bytes) -> str:
    """Return the headers of a frame as JSON.

    The result is cached, because the frames of a stream have few different headers.
    """
    return json.dumps(dict(_headers(data)), separators=_SEPARATORS)


def _headers(data: bytes) -> Iterator[tuple[str, Payload]]:
    """Yield the headers of a frame. A value that is not a string becomes a list of its type and its bytes in base64."""
    position = 0
    while position < len(data):
        name_length = data[position]
        name = data[position + 1 : position + 1 + name_length].decode()
        position += 1 + name_length
        kind = data[position]
        position += 1
        length = _FIXED_BYTES.get(kind)
        if length is None:
            length = int.from_bytes(data[position : position + 2], "big")
            position += 2
        value = data[position : position + length]
        position += length
        if kind == _STRING:
            yield name, value.decode()
        else:
            yield name, [kind, base64.b64encode(value).decode()]


def _payload_members(payload: bytes) -> str:
    """Return a payload as the members of a line. `_payload` makes the same bytes from these members."""
    try:
        text = payload.decode()
        value = json.loads(text)
    except ours(ValueError):
        return f'"base64":"{base64.b64encode(payload).decode()}"'
    wrapped = as_dict(value).get("bytes")
    if isinstance(wrapped, str):
        inner = _unwrapped(wrapped)
        beside = {name: other for name, other in value.items() if name != "bytes"}
        members = f'"event":{inner},"beside":{json.dumps(beside, separators=_SEPARATORS)}'
        if inner and _payload(as_dict(json_value(f"{{{members}}}")), members) == payload:
            return members
    if "\n" not in text:
        return f'"payload":{text}'
    return f'"base64":"{base64.b64encode(payload).decode()}"'


def _unwrapped(wrapped: str) -> str:
    """Return the JSON inside a base64 text, or an empty text if it has no JSON on one line."""
    try:
        inner = base64.b64decode(wrapped, validate=True).decode()
        json.loads(inner)
    except ours(ValueError):
        return ""
    if "\n" in inner:
        return ""
    return inner


def encode_line(line: str) -> bytes:
    """Return the frame of a line.

    The returned frame equals the received frame, unless a secret in the frame was masked.
    """
    value = as_dict(json_value(line))
    headers = b"".join(_header(name, text) for name, text in as_dict(value.get("headers")).items())
    _, end = _DECODER.raw_decode(line, len(LINE_BEGINS) - 1)
    payload = _payload(value, line[end + 1 :].rstrip().removesuffix("}"))
    length = _PRELUDE.size + len(headers) + len(payload) + _CRC.size
    lengths = struct.pack(">II", length, len(headers))
    frame = lengths + _CRC.pack(binascii.crc32(lengths)) + headers + payload
    return frame + _CRC.pack(binascii.crc32(frame))


def _header(name: str, value: Payload) -> bytes:
    """Return a header as bytes. `value` is a string, or a list of the value's type and the value's bytes in base64."""
    if isinstance(value, str):
        kind, data = _STRING, value.encode()
    else:
        kind, data = value[0], base64.b64decode(value[1])
    length = b"" if kind in _FIXED_BYTES else len(data).to_bytes(2, "big")
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + length + data


def _payload(value: dict[str, Payload], members: str) -> bytes:
    """Return the payload of a line. `members` is the text of the line's members after the headers."""
    if "base64" in value:
        return base64.b64decode(value["base64"])
    if "event" not in value:
        return members.removeprefix('"payload":').encode()
    inner = members.removeprefix('"event":')
    inner = inner[: inner.rindex(',"beside":')]
    wrapped = {"bytes": base64.b64encode(inner.encode()).decode(), **as_dict(value.get("beside"))}
    return json.dumps(wrapped, separators=_SEPARATORS).encode()


def frame_events(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield each event of a stream of frames: its type, and its data as JSON.

    A frame with an `:exception-type` or an `:error-code` becomes an event of the type "error" in Anthropic's form.
    """
    for line in text.split("\n"):
        frame = as_dict(json_value(line))
        headers = as_dict(frame.get("headers"))
        data = frame.get("event", frame.get("payload"))
        failure = headers.get(EXCEPTION_HEADER) or headers.get(":error-code")
        if failure:
            message = as_dict(data) or {"message": headers.get(":error-message")}
            yield "error", json.dumps({"type": "error", "error": {"type": failure, **message}}, ensure_ascii=False)
        elif headers:
            yield as_text(headers.get(":event-type")), json.dumps(data, ensure_ascii=False)


SPLIT_AT_ONCE = 64 * 1024
"""`_line_blocks` splits about this many characters in one call of `str.split`."""


def events(
    text: str, merge: Callable[[list[str]], list[str]] = lambda lines: lines
) -> Iterator[tuple[str | None, str]]:
    """Yield each event of a stream: its name or None, and its data. `merge` may shorten the lines of the stream."""
    if text.startswith(LINE_BEGINS):
        yield from frame_events(text)
        return
    name: str | None = None
    data: list[str] = []
    let_others_run = current_yield.get()
    for line in chain.from_iterable(map(merge, _line_blocks(text.removeprefix("\ufeff")))):
        if line.startswith("data:"):
            data.append(line[6:] if line.startswith(" ", 5) else line[5:])
        elif line.startswith("event:"):
            name = line[6:].removeprefix(" ") or None
        elif line == "data":
            data.append("")
        elif not line:
            if data:
                if let_others_run is not None:
                    let_others_run()
                yield name, data[0] if len(data) == 1 else "\n".join(data)
            name, data = None, []
    if data:
        yield name, "\n".join(data)


def json_lines(text: str) -> Iterator[str]:
    """Yield each line of a stream of JSON lines (NDJSON) that is not blank."""
    for line in chain.from_iterable(_line_blocks(text.removeprefix("\ufeff"))):
        if line.strip():
            yield_to_others()
            yield line


def unstreamed(text: str) -> JoinedStream:
    """Read an answer that is one JSON body instead of a stream, such as an error. The text may be empty."""
    body = json_value(text)
    if body is None:
        return JoinedStream(body={}, ended=False, events=0)
    return JoinedStream(body=body, ended=True, events=0, error=as_dict(body).get("error"))


def _line_blocks(text: str) -> Iterator[list[str]]:
    """Split at LF, CR and CRLF only. `str.splitlines` also splits at U+2028, which JSON strings may contain.

    The lines are yielded in blocks. Other threads cannot run during a call of `str.split`, so each call must be short.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    begin = 0
    while (end := text.find("\n", begin + SPLIT_AT_ONCE)) >= 0:
        yield text[begin:end].split("\n")
        begin = end + 1
    yield text[begin:].split("\n")
