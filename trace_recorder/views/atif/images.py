"""Images of an ATIF document: files in a directory, to which the messages of its steps refer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.values.messages import Message, Payload
from trace_recorder.views.content.parts import Image, Part, Text, parts_of
from trace_recorder.views.left_out import other_part_as_text
from trace_recorder.views.view import LeftOut

_FILE_ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
"""The media types that ATIF knows."""


@dataclass(frozen=True, slots=True)
class Images:
    """Writes images into a directory, each once, named after its content. Without a directory they are left out."""

    directory: Path | None
    left_out: LeftOut

    def content(self, message: Message) -> str | list[Payload]:
        """Return a message's content in ATIF's form: a text, or parts where there are images."""
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
        return other_part_as_text(part, self.left_out)

    def _image(self, image: Image) -> dict[str, Payload]:
        """Return a reference to an image, or a text where it is left out or ATIF does not know its media type."""
        path = image.url or self._written(image)
        kind = image.media_type if image.media_type in _FILE_ENDINGS else _media_type_of(path or "")
        if path and kind:
            return {"type": "image", "source": {"media_type": kind, "path": path}}
        why = "images, for which no directory was given" if self.directory is None else "images that are no base64"
        self.left_out.add(why, path is None)
        return {"type": "text", "text": f"[image: {path or image.media_type or 'of an unknown kind'}]"}

    def _written(self, image: Image) -> str | None:
        content = image.content()
        if self.directory is None or content is None:
            return None
        name = f"{hashlib.sha256(content).hexdigest()[:20]}.{_FILE_ENDINGS.get(image.media_type or '', 'bin')}"
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / name).write_bytes(content)
        return f"{self.directory.name}/{name}"


def _media_type_of(path: str) -> str | None:
    """Return the media type of an image by the end of its address."""
    end = path.partition("?")[0].rpartition(".")[2].lower()
    return next((kind for kind, ending in _FILE_ENDINGS.items() if end in {ending, kind.removeprefix("image/")}), None)
