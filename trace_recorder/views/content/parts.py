"""What a message's content is made of: texts, images, and parts that are neither, whichever dialect it came in.

Every view that has a place for images uses this module. Nothing is lost: what is not known to be a text or an image is
returned as it is. Whether a format has a place for it is decided by the view.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trace_recorder.dialects.blocks import Blocks, is_reference
from trace_recorder.dialects.json_access import map_inside
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.structs import replace

_DATA_URI = re.compile(r"data:([^;,]*)(;[^,]*)?,", re.ASCII)
_STANDARD = str.maketrans("-_", "+/", " \t\r\n")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)
_SIGNATURES = (("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"))
"""How base64 texts of images begin; Ollama does not say what its images are."""


@dataclass(frozen=True, slots=True)
class Text:
    """A part that is text."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A part that is an image: its bytes in standard base64, or where it is."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None

    @property
    def address(self) -> str:
        """Where it is; of an image that is here, a data URI."""
        return self.url or f"data:{self.media_type or 'application/octet-stream'};base64,{self.data or ''}"

    def content(self) -> bytes | None:
        """Its bytes; None where they are not here, or are no base64."""
        try:
            return None if self.data is None else base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Other:
    """Any other part, as it was sent."""

    raw: Payload


Part = Text | Image | Other


def standard_base64(data: str) -> str:
    """Write base64 in the standard alphabet, padded and on one line; what is no base64 is given as it is.

    google-genai sends the URL-safe alphabet, which decoders and data URIs do not take; others leave out the padding.
    """
    if len(data) % 4 == 0 and _BASE64.fullmatch(data):
        return data
    digits = data.translate(_STANDARD).rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    return padded if len(digits) % 4 != 1 and _BASE64.fullmatch(padded) else data


def parts_of(message: Message) -> list[Part]:
    """Return the parts of a message's content, in order; the images that some have next to the text come last."""
    content = message.content
    listed = [] if content is None else content if isinstance(content, list) else [content]
    parts = [part_of(part) for part in listed]
    images = message.extra.get("images") if isinstance(message.extra, dict) else None
    listed = images if isinstance(images, list) else []
    return parts + [_of_base64(one) if isinstance(one, str) else part_of(one) for one in listed]


def utf8_text(text: str) -> str:
    """Return a text with U+FFFD in the place of each half of a surrogate pair, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_of(message: Message) -> str:
    """Return the texts of a message as one text, with a blank line where another part is between two of them."""
    return text_of_parts(parts_of(message))


def text_of_parts(parts: Iterable[Part]) -> str:
    """Return the texts of parts as one, by the rule that all dialects share."""
    said = Blocks()
    for part in parts:
        if isinstance(part, Text):
            said.add_text(part.text)
        elif not (isinstance(part, Other) and is_reference(part.raw)):
            said.add_other()
    return said.all_text() or ""


def lines_of(message: Message) -> str:
    """Return what a message says, each of its texts on a line of its own: so are a tool's answers shown."""
    return "\n".join(part.text for part in parts_of(message) if isinstance(part, Text))


def text_of_message(message: Message) -> str:
    """Return a tool message as text: its texts, or all of it as JSON where it has other parts."""
    if isinstance(message.content, list) and len([*parts_of(message)]) != len(_text_parts(message)):
        return json.dumps(message.content, ensure_ascii=False)
    return "\n".join(_text_parts(message))


def _text_parts(message: Message) -> list[str]:
    """Return the texts of a message, part by part."""
    return [text_of(replace(message, content=[part], extra={})) for part in _listed(message) if _is_text(part)]


def _listed(message: Message) -> list[Payload]:
    if message.content is None:
        return []
    return message.content if isinstance(message.content, list) else [message.content]


def _is_text(part: Payload) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))


def part_of(part: Payload) -> Part:
    """Read one part, in any dialect's words."""
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, dict):
        return Other(part)
    if isinstance(part.get("text"), str) and part.get("type") in (None, "text", "input_text", "output_text"):
        return Text(part["text"])
    return _image(part) or Other(part)


def _image(part: dict[str, Payload]) -> Image | None:
    """Read an image as OpenAI, Anthropic and Google have it; None where it is none."""
    kind = part.get("type")
    if kind in ("image_url", "input_image"):
        held = part.get("image_url")
        address = held.get("url") if isinstance(held, dict) else held
        return _of_address(address) if isinstance(address, str) else None
    if kind == "image":
        source = part.get("source") if isinstance(part.get("source"), dict) else part
        return _of_source(source)
    for name in ("inlineData", "inline_data", "fileData", "file_data"):
        if isinstance(part.get(name), dict):
            return _of_source(part[name])
    return None


def _of_source(source: Payload) -> Image | None:
    """Read an image's source: what kind, and its bytes or its address, under any of their names."""
    kind = _first_text(source, "media_type", "mimeType", "mime_type")
    url = _first_text(source, "url", "uri", "fileUri", "file_uri", "path")
    data = source.get("data")
    if kind is not None and not kind.startswith("image/"):
        return None
    if isinstance(data, str):
        return _of_base64(data, kind)
    return _of_address(url, kind) if url else None


def _first_text(members: Mapping[str, Payload], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := members.get(name), str)), None)


def _of_address(address: str, kind: str | None = None) -> Image:
    found = _DATA_URI.match(address)
    if found and "base64" in (found[2] or ""):
        return _of_base64(address[found.end() :], found[1] or kind)
    return Image(kind, url=address)


def _of_base64(data: str, kind: str | None = None) -> Image:
    standard = standard_base64(data)
    return Image(kind or _guessed(standard), standard)


def _guessed(data: str) -> str | None:
    return next((kind for begin, kind in _SIGNATURES if data.startswith(begin)), None)


def chat_part(part: Part) -> Payload:
    """Return a part as OpenAI's chat API has it; one that is neither text nor image as it was sent."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.address}} if isinstance(part, Image) else part.raw


def described(part: Part, limit: int) -> tuple[str, bool]:
    """Write a part that is no text as JSON; return it, and whether strings in it were longer than `limit` and cut."""
    if isinstance(part, Text):
        return '""', False
    raw = {"type": "image", "url": part.address} if isinstance(part, Image) else part.raw
    cut: list[int] = []

    def short(value: Payload) -> Payload:
        if isinstance(value, str) and len(value) > limit:
            cut.append(len(value))
            return f"{value[:80]}... ({len(value) - 80} more characters)"
        return map_inside(short, value)

    return json.dumps(short(raw), ensure_ascii=False), bool(cut)
