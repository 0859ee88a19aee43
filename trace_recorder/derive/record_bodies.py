"""Reads the body of a request or a response from the data of its record.

A body that is JSON is stored as JSON (`body`). Any other body is stored as text (`text`) or, if it is not UTF-8, as
bytes (`base64`). `storage/items/table.py` reads request bodies that were taken apart into items.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping

from trace_recorder.dialects.json_access import as_text, json_value
from trace_recorder.values.json_text import NotJsonError, parse, replace_lone_surrogates
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload

_MEDIA = re.compile(r"\s*(?:audio|image|video)/|\s*application/octet-stream", re.IGNORECASE)


def raw_body(data: Mapping[str, Payload]) -> Payload:
    """Return a body that was not taken apart into items: its JSON, or else its text."""
    return data["body"] if "body" in data else _body(data, lambda text: text)


def read_body(data: Mapping[str, Payload]) -> Payload:
    """Return a body for a dialect's reader. JSON that is not strict is repaired as far as possible."""
    return data["body"] if "body" in data else _body(data, _strict_json)


def media_body(data: Mapping[str, Payload]) -> Payload:
    """Return a response that is neither JSON nor a text, such as a sound: its content type, and its bytes as `base64`.

    Return None for any other response. The headers tell a sound, because its bytes may look like a text.
    """
    headers = data.get("headers")
    content_type = as_text(headers.get("content-type")) if isinstance(headers, dict) else None
    if not _MEDIA.match(content_type or ""):
        return None
    encoded = data.get("base64")
    if encoded is None and isinstance(data.get("text"), str):
        encoded = base64.b64encode(data["text"].encode("utf-8", "surrogatepass")).decode()
    return None if encoded is None else {"content_type": content_type, "base64": encoded}


def _body(data: Mapping[str, Payload], fallback: Callable[[str], Payload]) -> Payload:
    text = data.get("text")
    if text is None and "base64" in data:
        text = base64.b64decode(data["base64"]).decode("utf-8", "replace")
    if not text:
        return None
    try:
        return parse(text)
    except NotJsonError:
        return fallback(text)


def _strict_json(text: str) -> Payload:
    """Read JSON that strict parsers refuse.

    A lone surrogate becomes U+FFFD, and NaN and infinities become descriptions.
    """
    value = json_value(replace_lone_surrogates(text))
    return text if value is None else to_jsonable(value)
