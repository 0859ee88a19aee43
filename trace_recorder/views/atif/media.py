"""Images and sounds of an ATIF document: files in a directory, to which the messages of its steps refer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.values.content_parts import Image, Other, Part, Text, parts_of
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.views.content.audio import FILE_ENDINGS as _AUDIO_ENDINGS
from trace_recorder.views.content.audio import Audio, audio_of
from trace_recorder.views.left_out import other_part_as_text
from trace_recorder.views.view import LeftOut

_IMAGE_ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
_ENDINGS = {**_IMAGE_ENDINGS, **_AUDIO_ENDINGS}
"""The media types that ATIF knows."""


@dataclass(frozen=True, slots=True)
class Media:
    """Writes media into a directory, each once, named after its content. Without a directory they are left out."""

    directory: Path | None
    left_out: LeftOut

    def content(self, message: Message) -> str | list[Payload]:
        """Return a message's content in ATIF's form: a text, or parts if there are images or sounds."""
        parts = [self._part(part) for part in parts_of(message)]
        if all(part["type"] == "text" for part in parts):
            between = "\n" if message.role == "tool" else ""
            return between.join(part["text"] for part in parts)
        return parts

    def _part(self, part: Part) -> dict[str, Payload]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Image):
            return self._reference("image", part, part.media_type if part.media_type in _IMAGE_ENDINGS else None)
        audio = audio_of(part.raw) if isinstance(part, Other) else None
        if audio is not None:
            kind = audio.media_type if audio.media_type in _AUDIO_ENDINGS else None
            return self._reference("audio", audio, kind, duration_sec=audio.duration_seconds)
        return other_part_as_text(part, self.left_out)

    def _reference(
        self, what: str, media: Image | Audio, kind: str | None, *, duration_sec: float | None = None
    ) -> dict[str, Payload]:
        """Return a reference to media, or a text if they are left out or ATIF does not know their type."""
        path = media.url or self._written(media)
        kind = kind or (_image_type_of(path or "") if what == "image" else None)
        if path and kind:
            source = {"media_type": kind, "path": path}
            return {"type": what, "source": source | without_none(duration_sec=duration_sec)}
        name = "images" if what == "image" else "sounds"
        why = f"{name}, for which no directory was given" if self.directory is None else f"{name} that are not base64"
        self.left_out.add(why, path is None)
        return {"type": "text", "text": f"[{what}: {path or media.media_type or 'of an unknown kind'}]"}

    def _written(self, media: Image | Audio) -> str | None:
        content = media.content()
        if self.directory is None or content is None:
            return None
        name = f"{hashlib.sha256(content).hexdigest()[:20]}.{_ENDINGS.get(media.media_type or '', 'bin')}"
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / name).write_bytes(content)
        return f"{self.directory.name}/{name}"


def _image_type_of(path: str) -> str | None:
    """Return the media type of an image by the end of its address."""
    end = path.partition("?")[0].rpartition(".")[2].lower()
    return next((kind for kind, ending in _IMAGE_ENDINGS.items() if end in {ending, kind.removeprefix("image/")}), None)


def has_audio(steps: Iterable[Mapping[str, Payload]]) -> bool:
    """Whether a step of a document refers to a sound."""
    return any(
        isinstance(part, dict) and part.get("type") == "audio"
        for step in steps
        for content in _contents(step)
        for part in (content if isinstance(content, list) else ())
    )


def _contents(step: Mapping[str, Payload]) -> Iterator[Payload]:
    yield step.get("message")
    for result in step.get("observation", {}).get("results", ()):
        yield result.get("content")
