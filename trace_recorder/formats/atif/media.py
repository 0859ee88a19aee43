"""Images and sounds of an ATIF document: files in a directory, to which the messages of its steps refer.

Sounds are read from parts in OpenAI's, Google's and ATIF's own form. No other view knows sounds: for the other views, a
sound is a part that is neither text nor image (`content/chat_form.py`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.formats.format_writer import LeftOut
from trace_recorder.formats.left_out import other_part_as_text
from trace_recorder.values.content_parts import Image, Other, Part, Text, parts_of, standard_base64
from trace_recorder.values.messages import Message, Payload, without_none

AUDIO_ENDINGS = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/webm": "webm",
    "audio/aiff": "aiff",
}
"""Maps the common registered media types of sounds to the extensions of their files."""
_OTHER_NAMES = {
    **{f"audio/{ending}": kind for kind, ending in AUDIO_ENDINGS.items()},
    **dict.fromkeys(("audio/mpga", "audio/x-mpeg"), "audio/mpeg"),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"),
    "audio/x-m4a": "audio/mp4",
    **{f"audio/x-{name}": f"audio/{name}" for name in ("aac", "flac", "aiff")},
}
"""Maps names that providers and programs use for media types to the registered names."""

_GOOGLE = ("inlineData", "inline_data", "fileData", "file_data")
"""The members in which a part of Google's API may have media."""


@dataclass(frozen=True, slots=True)
class Audio:
    """A part that is a sound: its bytes in standard base64, or its address."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    duration_seconds: float | None = None

    def content(self) -> bytes | None:
        """Return the bytes of the sound, or None if the part has no data or the data is not base64."""
        if self.data is None:
            return None
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return None


def audio_of(part: Payload) -> Audio | None:
    """Read a part as a sound. Returns None if it is not a sound."""
    members = as_dict(part)
    kind = members.get("type")
    if kind == "input_audio":
        source = as_dict(members.get("input_audio")) or members
        data, format_ = as_text(source.get("data")), as_text(source.get("format"))
        if data is None:
            return None
        return Audio(_media_type(f"audio/{format_ or 'wav'}"), standard_base64(data))
    if kind == "audio_url":
        source = as_dict(members.get("audio_url"))
        return _audio_of_address(as_text(source.get("url")) or as_text(members.get("audio_url")), None, None)
    if kind == "audio":
        return _audio_of_source(as_dict(members.get("source")) or members)
    source = next((as_dict(members[name]) for name in _GOOGLE if isinstance(members.get(name), dict)), {})
    media_type = as_text(source.get("mimeType")) or as_text(source.get("mime_type")) or ""
    if media_type.startswith("audio/"):
        return _audio_of_source(source)
    return None


def _audio_of_source(source: dict[str, Payload]) -> Audio | None:
    named = (as_text(source.get(name)) for name in ("media_type", "mimeType", "mime_type"))
    kind = next((_media_type(name) for name in named if name), None)
    data, duration = as_text(source.get("data")), as_number(source.get("duration_sec"))
    if data is not None:
        return Audio(kind, standard_base64(data), None, duration)
    places = (as_text(source.get(name)) for name in ("path", "url", "uri", "fileUri", "file_uri"))
    return _audio_of_address(next((place for place in places if place), None), kind, duration)


def _audio_of_address(address: str | None, kind: str | None, duration: float | None) -> Audio | None:
    if address is None:
        return None
    header, comma, data = address.partition(",")
    if comma and header.startswith("data:") and header.endswith(";base64"):
        media_type = header.removeprefix("data:").partition(";")[0]
        return Audio(kind or _media_type(media_type), standard_base64(data), None, duration)
    return Audio(kind or _type_of_ending(address), None, address, duration)


def _media_type(name: str) -> str:
    """Return the registered name of a media type, without parameters."""
    plain = name.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(plain, plain)


def _type_of_ending(address: str) -> str | None:
    end = address.partition("?")[0].rpartition(".")[2].lower()
    return next((kind for kind, ending in AUDIO_ENDINGS.items() if ending == end), None)


_IMAGE_ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
_ENDINGS = {**_IMAGE_ENDINGS, **AUDIO_ENDINGS}
"""Maps the media types that ATIF knows to file extensions."""


@dataclass(frozen=True, slots=True)
class AtifMediaWriter:
    """Writes images and sounds into a directory.

    A file is named after a digest of its content, so equal images are one file.

    If `directory` is None, images and sounds without an address are left out, and counted in `left_out`.
    """

    directory: Path | None
    left_out: LeftOut

    def content(self, message: Message) -> str | list[Payload]:
        """Return a message's content in ATIF's form: a text, or parts if the message has images or sounds."""
        parts = [self._part(part) for part in parts_of(message)]
        if all(part["type"] == "text" for part in parts):
            between = "\n" if message.role == "tool" else ""
            return between.join(part["text"] for part in parts)
        return parts

    def _part(self, part: Part) -> dict[str, Payload]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Image):
            return self._image(part)
        if isinstance(part, Other):
            audio = audio_of(part.raw)
            if audio is not None:
                return self._audio(audio)
        return other_part_as_text(part, self.left_out)

    def _image(self, image: Image) -> dict[str, Payload]:
        """Return ATIF's part for an image: the media type, and the path or the address.

        Return a text instead if the image is left out, or if ATIF does not know the media type.
        """
        path, kind = self._path(image, "images"), image.media_type
        if kind not in _IMAGE_ENDINGS:
            kind = _image_type_of(path or "")
        if not path or kind is None:
            return _named_media("image", path, image)
        return {"type": "image", "source": {"media_type": kind, "path": path}}

    def _audio(self, audio: Audio) -> dict[str, Payload]:
        """Return ATIF's part for a sound, or a text, as for an image."""
        path, kind = self._path(audio, "sounds"), audio.media_type
        if not path or kind not in AUDIO_ENDINGS:
            return _named_media("audio", path, audio)
        source = {"media_type": kind, "path": path} | without_none(duration_sec=audio.duration_seconds)
        return {"type": "audio", "source": source}

    def _path(self, media: Image | Audio, name: str) -> str | None:
        """Return the address of media, or the path of its file. Media that has neither is counted under `name`."""
        path = media.url or self._write_file(media)
        if path is None and self.directory is None:
            self.left_out.add(f"{name}, for which no directory was given")
        elif path is None:
            self.left_out.add(f"{name} that are not base64")
        return path

    def _write_file(self, media: Image | Audio) -> str | None:
        content = media.content()
        if self.directory is None or content is None:
            return None
        name = f"{hashlib.sha256(content).hexdigest()[:20]}.{_ENDINGS.get(media.media_type or '', 'bin')}"
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / name).write_bytes(content)
        return f"{self.directory.name}/{name}"


def _named_media(what: str, path: str | None, media: Image | Audio) -> dict[str, Payload]:
    """Return the text part that stands for media without a file, or of an unknown kind."""
    return {"type": "text", "text": f"[{what}: {path or media.media_type or 'of an unknown kind'}]"}


def _image_type_of(path: str) -> str | None:
    """Return the media type of an image by the extension in its address, or None if ATIF does not know the type."""
    end = path.partition("?")[0].rpartition(".")[2].lower()
    return next((kind for kind, ending in _IMAGE_ENDINGS.items() if end in {ending, kind.removeprefix("image/")}), None)


def has_audio(steps: Iterable[Mapping[str, Payload]]) -> bool:
    """Whether a step of a document refers to a sound."""
    for step in steps:
        results = step.get("observation", {}).get("results", ())
        contents = [step.get("message"), *(result.get("content") for result in results)]
        parts = (part for content in contents if isinstance(content, list) for part in content)
        if any(isinstance(part, dict) and part.get("type") == "audio" for part in parts):
            return True
    return False
