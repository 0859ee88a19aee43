"""Reads the data of a self-contained page, in the form that docs/viewer-interface.md describes."""

from __future__ import annotations

import base64
import json
import zlib

from trace_recorder.values.messages import Payload


def unpacked(sections: dict[str, str]) -> dict[str, Payload]:
    """Return the sections as JSON values, with each reference to a text replaced by the text."""
    values = {name: json.loads(zlib.decompress(base64.b64decode(text))) for name, text in sections.items()}
    texts = values.pop("texts")
    return {name: _with_texts(value, texts) for name, value in values.items()}


def _with_texts(value: Payload, texts: list[str]) -> Payload:
    if isinstance(value, dict):
        return {name: _with_texts(one, texts) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_texts(one, texts) for one in value]
    return texts[int(value[1:])] if isinstance(value, str) and value.startswith("\u0001") else value
