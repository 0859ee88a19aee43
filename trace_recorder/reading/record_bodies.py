"""Reads the body of a request or a response from its fact.

A body that is JSON is stored as JSON (`body`). Any other body is stored as text (`text`) or, if it is not UTF-8, as
bytes (`base64`). `storage/items/table.py` reads request bodies that were taken apart into items.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from trace_recorder.dialects.json_access import json_value
from trace_recorder.facts import ABSENT, LLMInteractionFact, LLMRequestFact, LLMResponseFact
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.json_text import NotJsonError, parse, replace_lone_surrogates
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload

Bodied = LLMRequestFact | LLMResponseFact | LLMInteractionFact
_MEDIA = lazy_pattern(r"\s*(?:audio|image|video)/|\s*application/octet-stream", re.IGNORECASE)


def raw_body(fact: Bodied) -> Payload:
    """Return a body that was not taken apart into items: its JSON, or else its text."""
    if fact.body is not ABSENT:
        return fact.body
    return _body_of_text(fact, lambda text: text)


def read_body(fact: Bodied) -> Payload:
    """Return a body for a dialect's reader. JSON that is not strict is repaired as far as possible."""
    if fact.body is not ABSENT:
        return fact.body
    return _body_of_text(fact, _strict_json)


def media_body(response: LLMResponseFact) -> Payload:
    """Return a response that is neither JSON nor a text, such as a sound: its content type, and its bytes as `base64`.

    Return None for any other response. The headers tell a sound, because its bytes may look like a text.
    """
    content_type = response.headers.get("content-type", "")
    if not _MEDIA.match(content_type):
        return None
    encoded = response.base64
    if encoded is None and response.text is not None:
        encoded = base64.b64encode(response.text.encode("utf-8", "surrogatepass")).decode()
    if encoded is None:
        return None
    return {"content_type": content_type, "base64": encoded}


def _body_of_text(fact: Bodied, fallback: Callable[[str], Payload]) -> Payload:
    if isinstance(fact, LLMInteractionFact):
        return None
    text = fact.text
    if text is None and fact.base64 is not None:
        text = base64.b64decode(fact.base64).decode("utf-8", "replace")
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
    if value is None:
        return text
    return to_jsonable(value)
