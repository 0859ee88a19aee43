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
from urllib.parse import unquote

from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.json_access import as_text
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload, without_none

MEDIA_TYPE = b"multipart/form-data"
_BOUNDARY = re.compile(rb';\s*boundary=(?:"([^"]*)"|([^\s;]*))', re.IGNORECASE)
_PARAMETER = re.compile(r';\s*(name|filename)(?:="((?:[^"\\]|\\.)*)"|\*=[\w-]*\'\'([^;\s]+))', re.IGNORECASE)
_STEP = 3 * 256 * 1024
"""Base64 is made of so many bytes at once: a multiple of three, so that the texts can be joined."""


def form_as_json(content_type: bytes, body: bytes) -> bytes | None:
    """Return a form as a JSON object, or None if the body is not a form.

    A form that was cut off has the fields, and the part of the last field, that were seen.
    """
    match = _BOUNDARY.search(content_type)
    boundary = (match[1] or match[2]) if match and content_type.lower().startswith(MEDIA_TYPE) else b""
    if not boundary:
        return None
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary)
    fields: dict[str, list[bytes]] = {}
    for part in parts:
        head, is_whole, content = part.partition(b"\r\n\r\n")
        if part.startswith(b"--"):
            break
        if is_whole:
            name, value = _field(head.decode("utf-8", "replace"), content)
            fields.setdefault(name, []).append(value)
    if not fields:
        return None
    members = [b"%s:%s" % (_dump(name), _joined(values)) for name, values in fields.items()]
    return b"{%s}" % b",".join(members)


def _field(head: str, content: bytes) -> tuple[str, bytes]:
    """Return the name of a field, and its value as JSON."""
    headers = dict(line.split(":", 1) for line in head.split("\r\n") if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in headers.items()}
    found = _PARAMETER.findall(headers.get("content-disposition", ""))
    parameters = {name.lower(): quoted or unquote(encoded) for name, quoted, encoded in found}
    name, filename = parameters.get("name", ""), parameters.get("filename")
    try:
        text = content.decode()
    except ours(UnicodeDecodeError):
        members = without_none(filename=filename, content_type=headers.get("content-type"))
        # the text is joined here, not encoded, because encoding megabytes as JSON would stop all threads
        before = _dump(members)[:-1] + (b"," if members else b"")
        return name, b'%s"base64":"%s"}' % (before, _base64(content))
    if filename is None:
        return name, _dump(text)
    return name, _dump(without_none(filename=filename, content_type=headers.get("content-type"), text=text))


def _base64(data: bytes) -> bytes:
    pieces = []
    for start in range(0, len(data), _STEP):
        pieces.append(base64.b64encode(data[start : start + _STEP]))
        yield_to_others()
    return b"".join(pieces)


def _joined(values: list[bytes]) -> bytes:
    return values[0] if len(values) == 1 else b"[%s]" % b",".join(values)


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
