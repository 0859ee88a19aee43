"""Takes the texts out of a part of a stream, and keeps its events: their number, types, ids, counts and chunks.

A piece of a text is left out, and no digest takes its place: a stream has thousands of pieces of a few letters, and
their digests would be a cipher. The assembled response, at the end of the stream, has the digests of the whole texts.
Each line stays a line, so that the chunks of the stream stay as they are. A line that is neither the JSON of an event
nor a field of one becomes empty.

Messages of a websocket outside of responses have whole texts, and no other record has them. So they have digests.
"""

from __future__ import annotations

from trace_recorder.background_work import yield_to_others
from trace_recorder.dialects.event_forms import PIECES, EventForm
from trace_recorder.dialects.json_access import as_dict, json_value
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.content_tiers.structure import Structure
from trace_recorder.storage.content_tiers.text_digests import TextDigests
from trace_recorder.values.json_text import STRING, make_json_writer

_DATA = lazy_pattern(r"(?:data: ?|[<>] )?(?=[{\[])")
_MARKS = ("< ", "> ")
"""The beginnings of a message of a websocket (`storage/websocket_frames.py`)."""
_DELTA = ".delta"
"""The end of the type of each message that has a piece of a text."""
_FIELD = lazy_pattern(r"event: ?[A-Za-z][\w.-]{0,80}|data: ?\[DONE\]")
_PIECE = lazy_pattern(rf'"(?:{"|".join(PIECES)})": ?(?="[^"])')
_MOST_FORMS = 4
_dump = make_json_writer(",", ":")


class TextlessStream:
    """Takes the texts out of the parts of streams. It has no state of a stream, so any thread may call it."""

    def __init__(self, digests: TextDigests) -> None:
        self._structure = Structure(digests, leaves_out=True)
        self._whole = Structure(digests)

    def __call__(self, data: bytes) -> bytes:
        """Return the text of a part without the model's texts."""
        lines = data.decode("utf-8", "replace").split("\n")
        textless: list[str] = []
        forms: list[tuple[EventForm, str]] = []
        number = 0
        while number < len(lines):
            if number % 64 == 0:
                yield_to_others()
            line = lines[number]
            for form, event in forms:
                run = form.read_run(lines, number) if line else None
                if run is not None:
                    lead = [self._line(between) for between in run.between]
                    textless += [event, *[*lead, event] * (len(run.segments) - 1)]
                    number += run.lines
                    break
            else:
                event = self._line(line)
                textless.append(event)
                new_form = _form_of(line)
                if new_form is not None:
                    forms = [(new_form, event), *forms[: _MOST_FORMS - 1]]
                number += 1
        return "\n".join(textless).encode()

    def _line(self, line: str) -> str:
        """Return a line without its texts. The end of a line that ends with CR is kept."""
        text = line.removesuffix("\r")
        end = line[len(text) :]
        if not text or _FIELD.fullmatch(text):
            return line
        begin = _DATA.match(text)
        if begin is None:
            return end
        event = json_value(text[begin.end() :])
        if not isinstance(event, dict | list):
            return end
        structure = self._structure
        if begin[0] in _MARKS and not str(as_dict(event).get("type")).endswith(_DELTA):
            structure = self._whole
        return f"{begin[0]}{_dump(structure.body(event))}{end}"


def _form_of(line: str) -> EventForm | None:
    """Return the form of an event with one piece of a text, whose other members are the same in the next events."""
    begin = _PIECE.search(line)
    if begin is None or not line.startswith(("data: ", "{", *_MARKS)):
        return None
    literal = STRING.match(line, begin.end())
    if literal is None or _PIECE.search(line, literal.end()):
        return None
    return EventForm(line, literal.start(), literal.end())
