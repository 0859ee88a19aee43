"""The sounds in a message's content, whichever dialect they came in: OpenAI's, Google's and ATIF's own parts.

Most formats have no place for sounds. Those formats treat a sound as any other part (`parts.py`).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.values.content_parts import standard_base64
from trace_recorder.values.messages import Payload

FILE_ENDINGS = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/webm": "webm",
    "audio/aiff": "aiff",
}
"""The registered media types that are common, with the ending of a file."""
_OTHER_NAMES = {
    **{f"audio/{ending}": kind for kind, ending in FILE_ENDINGS.items()},
    **dict.fromkeys(("audio/mpga", "audio/x-mpeg"), "audio/mpeg"),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"),
    "audio/x-m4a": "audio/mp4",
    **{f"audio/x-{name}": f"audio/{name}" for name in ("aac", "flac", "aiff")},
}
"""Names that providers and programs use instead of a registered name."""

_GOOGLE = ("inlineData", "inline_data", "fileData", "file_data")
"""The names under which Google's parts have media."""


@dataclass(frozen=True, slots=True)
class Audio:
    """A part that is a sound: its bytes in standard base64, or its address.

    `duration_seconds` is the stated duration.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    duration_seconds: float | None = None

    def content(self) -> bytes | None:
        """The bytes of the sound, or None if the part has none or they are not base64."""
        try:
            return None if self.data is None else base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return None


def audio_of(part: Payload) -> Audio | None:
    """Read a part as a sound. Returns None if it is not a sound."""
    members = as_dict(part)
    kind = members.get("type")
    if kind == "input_audio":
        source = as_dict(members.get("input_audio")) or members
        data, format_ = as_text(source.get("data")), as_text(source.get("format"))
        return None if data is None else Audio(_media_type(f"audio/{format_ or 'wav'}"), standard_base64(data))
    if kind == "audio_url":
        source = as_dict(members.get("audio_url"))
        return _of_address(as_text(source.get("url")) or as_text(members.get("audio_url")), None, None)
    if kind == "audio":
        return _of_source(as_dict(members.get("source")) or members)
    source = next((as_dict(members[name]) for name in _GOOGLE if isinstance(members.get(name), dict)), {})
    media_type = as_text(source.get("mimeType")) or as_text(source.get("mime_type")) or ""
    return _of_source(source) if media_type.startswith("audio/") else None


def _of_source(source: dict[str, Payload]) -> Audio | None:
    named = (as_text(source.get(name)) for name in ("media_type", "mimeType", "mime_type"))
    kind = next((_media_type(one) for one in named if one), None)
    data, duration = as_text(source.get("data")), as_number(source.get("duration_sec"))
    if data is not None:
        return Audio(kind, standard_base64(data), None, duration)
    places = (as_text(source.get(name)) for name in ("path", "url", "uri", "fileUri", "file_uri"))
    return _of_address(next((place for place in places if place), None), kind, duration)


def _of_address(address: str | None, kind: str | None, duration: float | None) -> Audio | None:
    if address is None:
        return None
    header, comma, data = address.partition(",")
    if comma and header.startswith("data:") and header.endswith(";base64"):
        media_type = header.removeprefix("data:").partition(";")[0]
        return Audio(kind or _media_type(media_type), standard_base64(data), None, duration)
    return Audio(kind or _of_ending(address), None, address, duration)


def _media_type(name: str) -> str:
    """Return the registered name of a media type, without parameters."""
    plain = name.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(plain, plain)


def _of_ending(address: str) -> str | None:
    end = address.partition("?")[0].rpartition(".")[2].lower()
    return next((kind for kind, ending in FILE_ENDINGS.items() if ending == end), None)
