"""Multipart forms (RFC 7578) as JSON: the bodies with which images and sounds are sent.

On file, a form is an object with its fields in order, so it is masked, stored and compared like a request in JSON. A
field that is given several times is a list. A text is a string. A file is an object: its `filename`, its
`content_type`, and its bytes as `base64`, or as `text` if they are UTF-8, because secrets in a text are masked. The
boundary, which is different in each request, is left out.
"""

from __future__ import annotations

import base64
import json
import re
from codecs import utf_8_decode
from collections.abc import Iterator
from urllib.parse import unquote

from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.json_access import as_text
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload, without_none

MEDIA_TYPE = b"multipart/form-data"
_CONTENT_TYPE = b"content-type"
_BOUNDARY = lazy_pattern(rb';\s*boundary=(?:"([^"]*)"|([^\s;]*))', re.IGNORECASE)
_PARAMETER = lazy_pattern(r';\s*(name|filename)(?:="((?:[^"\\]|\\.)*)"|\*=[\w-]*\'\'([^;\s]+))', re.IGNORECASE)
_STEP = 3 * 256 * 1024
"""Base64 is made of so many bytes at once: a multiple of three, so that the texts can be joined."""


Headers = list[tuple[bytes, bytes]]


def is_form(headers: Headers) -> bool:
    """Whether a request has a multipart form."""
    return content_type_of(headers).lower().startswith(MEDIA_TYPE)


def content_type_of(headers: Headers) -> bytes:
    """Return the content type of a request, or b"" if it has none."""
    return next((value for name, value in headers if name.lower() == _CONTENT_TYPE), b"")


def without_boundary(headers: Headers) -> Headers:
    """Return the headers of a form. The content type has no boundary, which is different in each request."""
    kept = []
    for name, value in headers:
        if name.lower() == _CONTENT_TYPE:
            kept.append((name, MEDIA_TYPE))
        else:
            kept.append((name, value))
    return kept


def form_as_json(content_type: bytes, body: bytes) -> bytes | None:
    """Return a form as a JSON object, or None if the body is not a form.

    A form that was cut off has the fields, and the part of the last field, that were seen.
    """
    match = _BOUNDARY.search(content_type)
    if match is None or not content_type.lower().startswith(MEDIA_TYPE):
        return None
    boundary = match[1] or match[2]
    if not boundary:
        return None
    fields: dict[str, list[list[bytes]]] = {}
    for head, content in _parts(body, b"--" + boundary):
        name, value = _field(head.decode("utf-8", "replace"), content)
        fields.setdefault(name, []).append(value)
    if not fields:
        return None
    members = [piece for name, values in fields.items() for piece in (b",", _dump(name), b":", *_joined(values))]
    return b"".join((b"{", *members[1:], b"}"))


def _parts(body: bytes, delimiter: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the headers and the content of each part of a form. The content is not copied."""
    whole, between = memoryview(body), b"\r\n" + delimiter
    start = 0
    if not body.startswith(delimiter):
        start = body.find(between) + len(b"\r\n")
    while body.startswith(delimiter, start) and not body.startswith(b"--", start + len(delimiter)):
        start += len(delimiter)
        end = body.find(between, start)
        yield_to_others()
        if end < 0:
            end = len(body)
        head_end = body.find(b"\r\n\r\n", start, end)
        if head_end >= 0:
            yield body[start:head_end], whole[head_end + 4 : end]
        start = end + len(b"\r\n")


def _field(head: str, content: memoryview) -> tuple[str, list[bytes]]:
    """Return the name of a field, and the pieces of its value as JSON."""
    headers = dict(line.split(":", 1) for line in head.split("\r\n") if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in headers.items()}
    found = _PARAMETER.findall(headers.get("content-disposition", ""))
    parameters = {name.lower(): quoted or unquote(encoded) for name, quoted, encoded in found}
    name, filename = parameters.get("name", ""), parameters.get("filename")
    described = without_none(filename=filename, content_type=headers.get("content-type"))
    try:
        utf_8_decode(content[:_STEP], "strict", False)  # noqa: FBT003 - it takes no names; False allows half a character
        text = str(content, "utf-8")
    except ours(UnicodeDecodeError):
        # the pieces are joined here, not encoded, because encoding megabytes as JSON would stop all threads
        before = _dump(described).removesuffix(b"}")
        if described:
            before += b","
        return name, [before, b'"base64":"', *_base64(content), b'"}']
    if filename is None:
        return name, [_dump(text)]
    return name, [_dump({**described, "text": text})]


def _base64(data: memoryview) -> Iterator[bytes]:
    for start in range(0, len(data), _STEP):
        yield base64.b64encode(data[start : start + _STEP])
        yield_to_others()


def _joined(values: list[list[bytes]]) -> Iterator[bytes]:
    """Yield the pieces of a field, which is a list if it was given several times."""
    if len(values) == 1:
        yield from values[0]
        return
    for number, value in enumerate(values):
        yield b"," if number else b"["
        yield from value
    yield b"]"


def _dump(value: Payload) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def media_part(value: Payload, kind: str) -> Payload:
    """Return a file of a form as a part of a message, of the kind `image` or `audio`.

    A file that is a text, and any value that is not a file, are returned unchanged.
    """
    if not isinstance(value, dict) or "base64" not in value:
        return value
    source = {"type": "base64", **without_none(media_type=as_text(value.get("content_type"))), "data": value["base64"]}
    return {"type": kind, "source": source, **without_none(filename=value.get("filename"))}
