"""Reads the content of messages of any dialect as a list of parts: texts, images, and other parts.

Nothing is lost: a part that is not recognised as a text or an image is returned unchanged. `plain_text` converts any
recorded value to a text for people and for searches.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from functools import partial

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload
from trace_recorder.values.structs import Struct

_DATA_URI = lazy_pattern(r"data:([^;,]*)(;[^,]*)?,", re.ASCII)
_STANDARD = str.maketrans("-_", "+/", " \t\r\n")
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)
MEDIA_NOTE = "[media: "
"""The beginning of the note in the place of media that were not recorded (`storage/websocket_frames.py`).

A part with such a note is no image.
"""
_SIGNATURES = (("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"))
"""The beginnings of images in base64, each with the type of the image. Ollama does not state the types of images."""


class Text(Struct, frozen=True, gc=False):
    """A part of a message's content that is a text."""

    text: str


class Image(Struct, frozen=True, gc=False):
    """A part of a message's content that is an image. It has either `data`, the bytes in standard base64, or `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None

    @property
    def address(self) -> str:
        """The URL of the image. If the part has the bytes, this is a data URI."""
        return self.url or f"data:{self.media_type or 'application/octet-stream'};base64,{self.data or ''}"

    def content(self) -> bytes | None:
        """Return the bytes of the image. Return None if the part has only an address, or if the data is not base64."""
        if self.data is None:
            return None
        try:
            return base64.b64decode(self.data, validate=True)
        except ours(ValueError):
            return None


class Other(Struct, frozen=True, gc=False):
    """A part of a message's content that is neither a text nor an image. `raw` is the part as it was sent."""

    raw: Payload


Part = Text | Image | Other


def standard_base64(data: str) -> str:
    """Convert base64 to the standard alphabet, padded and on one line. Return text that is not base64 unchanged.

    google-genai sends the URL-safe alphabet, which decoders and data URIs do not accept. Other SDKs leave out the
    padding.
    """
    if len(data) % 4 == 0 and _BASE64.fullmatch(data):
        return data
    digits = data.translate(_STANDARD).rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    if len(digits) % 4 == 1 or not _BASE64.fullmatch(padded):
        return data
    return padded


def parts_of(message: Message) -> list[Part]:
    """Return the parts of a message's content, in order.

    Images in a separate member of the message, as Ollama has them, come last.
    """
    content = message.content
    parts: list[Part] = []
    if isinstance(content, list):
        parts += map(part_of, content)
    elif content is not None:
        parts.append(part_of(content))
    if message.extra:  # most messages have none
        parts += images_of(message)
    return parts


def images_of(source: Message | LLMResponse | Choice) -> list[Part]:
    """Return the images in a member `images` of a message or an answer, such as the images that a model made."""
    images = source.extra.get("images") if isinstance(source.extra, dict) else None
    if not isinstance(images, list):
        return []
    parts: list[Part] = []
    for image in images:
        if isinstance(image, str):
            parts.append(_of_base64(image))
        else:
            parts.append(part_of(image))
    return parts


def part_of(part: Payload) -> Part:
    """Read one part of a message's content. It may have the form of any dialect."""
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, dict):
        return Other(part)
    if isinstance(part.get("text"), str) and part.get("type") in (None, "text", "input_text", "output_text"):
        return Text(part["text"])
    return _image(part) or Other(part)


def _image(part: dict[str, Payload]) -> Image | None:
    """Read an image in the form of OpenAI, Anthropic or Google. Return None if the part is not an image."""
    kind = part.get("type")
    if kind in ("image_url", "input_image"):
        address = part.get("image_url")
        if isinstance(address, dict):
            address = address.get("url")
        return _of_address(address) if isinstance(address, str) else None
    if kind == "image":
        source = part.get("source")
        return _of_source(source if isinstance(source, dict) else part)
    for name in ("inlineData", "inline_data", "fileData", "file_data"):
        if isinstance(part.get(name), dict):
            return _of_source(part[name])
    return None


def _of_source(source: Payload) -> Image | None:
    """Read an image from an object with a media type, and with bytes or an address.

    Each provider names these members in its own way.
    """
    kind = _first_text(source, "media_type", "mimeType", "mime_type")
    url = _first_text(source, "url", "uri", "fileUri", "file_uri", "path")
    data = source.get("data")
    if kind is not None and not kind.startswith("image/"):
        return None
    if isinstance(data, str):
        return _of_base64(data, kind)
    if url:
        return _of_address(url, kind)
    return None


def _first_text(members: Mapping[str, Payload], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := members.get(name), str)), None)


def _of_address(address: str, kind: str | None = None) -> Image | None:
    match = _DATA_URI.match(address)
    if match and address.startswith(MEDIA_NOTE, match.end()):
        return None
    if match and "base64" in (match[2] or ""):
        return _of_base64(address[match.end() :], match[1] or kind)
    return Image(kind, url=address)


def _of_base64(data: str, kind: str | None = None) -> Image:
    standard = standard_base64(data)
    guess = next((media_type for begin, media_type in _SIGNATURES if standard.startswith(begin)), None)
    return Image(kind or guess, standard)


_json_text = partial(json.dumps, ensure_ascii=False)


def plain_text(value: Payload, to_json: Callable[[Payload], str] = _json_text) -> str:
    """Return any recorded value as text, such as the content of a message or the result of a tool.

    A text is unchanged, a list becomes the texts of its elements, and any other value becomes JSON. A text part becomes
    its text, and the description of an object (`jsonable.py`) becomes the object's `repr`.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(plain_text(element, to_json) for element in value)
    if isinstance(value, dict):
        text = None
        if value.get("type") == "text":
            text = value.get("text")
        elif "__type__" in value:
            text = value.get("repr")
        if isinstance(text, str):
            return text
    return to_json(value)
