"""Finds runs of neighbouring events that have the same form, and reads a run without parsing each event.

Two neighbouring events often have the same characters, except for a piece of the model's text in one string. Such
events have the same form. Two other values may differ: a counter before the piece, such as `sequence_number` or an
`event_id`, and the filler. The filler is the last string of the event after the piece, such as OpenAI's `obfuscation`.
`EventForm.read_run` reads a run. `storage/redaction/split_secrets.py` joins the pieces of a run and masks the secrets
in the joined text. `MergedRuns` replaces most events of a run by one event, so that a dialect reads fewer events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.dialects.json_access import json_value
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.json_text import STRING
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

PIECES = (
    *("content", "text", "arguments", "partial_json", "thinking", "delta", "reasoning", "reasoning_content"),
    *("refusal", "response", "transcript", "signature_text", "input", "outputText", "generation"),
)
"""The names of the members that contain the pieces of the model's text."""
TELLING = ("index", "output_index", "content_index", "summary_index", "item_id", "contentBlockIndex")
"""The names of the members whose values distinguish the texts of a stream.

Several texts may be in members of the same name.
"""
PIECE = "@piece"
"""`MergedRuns` passes an event to `can_join` with this text instead of the event's piece."""
_PIECE_BEGIN = lazy_pattern(rf'"(?:{"|".join(PIECES)})": ?(?="[^"])')
_COUNTER = lazy_pattern(r'"(?:sequence_number": ?(?=\d)|created_at": ?"?(?=\d)|event_id": ?"event_(?=\w))')
_COUNTED = lazy_pattern(r"\w[0-9A-Za-z_:.+-]{0,40}", re.ASCII)
"""The value of a counter: a number, a time, or the id of an event."""
_FILLER = lazy_pattern(r'"(\w{1,40})": ?"\Z')
_NOT_PLAIN = lazy_pattern(r'[\x00-\x1f"\\]')
_INSIDE_STRING = lazy_pattern(r'(?:[^\x00-\x1f"\\]++|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))*')
"""Matches the characters between the quotes of a JSON string that has no surrogates."""
_NAME_OF_EVENT = lazy_pattern(r"event: ?[\w.]+")
_DATA = "data: "
_MOST_LINES = 3
"""An event has at most this many lines: its name, its data, and a blank line."""
_FEW_EVENTS, _MOST_EVENTS = 16, 128
"""`read_run` reads few events at first, because a run may be short.

Then `read_run` reads up to `_MOST_EVENTS` events together.
"""
_MIN_EVENTS = 4
"""`EventForm` reads fewer events than this one by one."""
_MOST_MISSES = 63
"""`MergedRuns` skips at most this many events after an event that does not begin a run of `_FEW_EVENTS` events."""

Segment = tuple[str, str, str]
"""The three values in which events of one form differ: the counter, the piece and the filler.

The values are escaped as in the JSON.
"""


class EventRun(Struct, frozen=True, gc=False):
    """Neighbouring events of one form."""

    segments: list[Segment]
    between: list[str]

    @property
    def lines(self) -> int:
        """How many lines the run has, from its first event to its last."""
        return 1 + (len(self.segments) - 1) * (len(self.between) + 1)


class EventForm:
    """The form of the event in a line. The piece of the event, with its quotes, is `line[start:end]`."""

    __slots__ = ("_after_counter", "_head", "_middle", "_tail")

    def __init__(self, line: str, start: int, end: int) -> None:
        head, rest = line[: start + 1], line[end - 1 :]
        self._head, self._after_counter = head, ""
        counter = _COUNTER.search(head)
        if counter is not None:
            self._head = head[: counter.end()]
            counted = _COUNTED.match(head, counter.end())
            if counted is not None:
                self._after_counter = head[counted.end() :]
        closing = rest.rfind('"')
        opening = rest.rfind('"', 0, closing) + 1
        name = _FILLER.search(rest[:opening])
        self._middle, self._tail = "", rest
        if name is not None and name[1] not in (*TELLING, *PIECES, "type"):  # the event has a filler
            self._middle, self._tail = rest[:opening], rest[closing:]

    def line(self, segment: Segment) -> str:
        """Return the line of the event that has this form and the values of `segment`."""
        counter, piece, filler = segment
        return "".join((self._head, counter, self._after_counter, piece, self._middle, filler, self._tail))

    @property
    def piece_start(self) -> int:
        """The index of the first character after the piece's opening quote.

        The index is valid for the line that `line` returns if the counter is the empty string.
        """
        return len(self._head) + len(self._after_counter)

    def read_run(self, lines: list[str], number: int) -> EventRun | None:
        """Read the event in the line with this number, and the events of this form after that event.

        Return None if the line has a different form.
        """
        segment = self._segment(lines[number])
        if segment is None:
            return None
        between = self._between(lines, number)
        if between is None:
            return EventRun([segment], [])
        segments, step, next_line = [segment], len(between) + 1, number + 1
        most = max(1, MAX_UNINTERRUPTED_CHARS // len(lines[number]))
        for events in chain((min(_FEW_EVENTS, most),), repeat(min(_MOST_EVENTS, most))):
            yield_to_others()
            more = self._segments(lines[next_line : next_line + events * step], between)
            segments += more
            next_line += len(more) * step
            if len(more) < events:
                break
        return EventRun(segments, between)

    def _between(self, lines: list[str], number: int) -> list[str] | None:
        """Return the lines between an event and the next event, or None if the next event has a different form."""
        for begin in range(number + 1, min(number + 1 + _MOST_LINES, len(lines))):
            if lines[begin].startswith(self._head):
                between = lines[number + 1 : begin]
                if all(not line or _NAME_OF_EVENT.fullmatch(line) for line in between):
                    return between
                return None
        return None

    def _segments(self, lines: list[str], between: list[str]) -> list[Segment]:
        """Return the segments of the events before the first one that has a different form.

        The lines `between` come before each event.
        """
        step = len(between) + 1
        events = lines[step - 1 :: step]
        for number, event in enumerate(events):  # no function is called for each event, to be quick
            if not event.startswith(self._head):
                del events[number:]
                break
        if len(events) >= _MIN_EVENTS:
            begin, end = len(self._head), -len(self._tail)
            varying = [event[begin:end] for event in events]
            lead = "\n".join([*between, self._head])
            again = f"{self._tail}\n{lead}".join(varying)
            if f"{lead}{again}{self._tail}" == "\n".join(lines[: len(events) * step]):
                segments = self._parts(varying)
                if segments is not None:
                    return segments
        segments = []
        for number, event in enumerate(events):
            yield_to_others()
            segment = self._segment(event)
            if segment is None or lines[number * step : (number + 1) * step - 1] != between:
                break
            segments.append(segment)
        return segments

    def _segment(self, line: str) -> Segment | None:
        """Return the segment of a line, or None if the line has a different form."""
        begin, end = len(self._head), len(line) - len(self._tail)
        if begin > end or not line.startswith(self._head) or not line.endswith(self._tail):
            return None
        counter, piece, filler = "", line[begin:end], ""
        if self._after_counter:
            counter, mark, piece = piece.partition(self._after_counter)
            if not mark or not _COUNTED.fullmatch(counter):
                return None
        if self._middle:
            piece, mark, filler = piece.partition(self._middle)
            if not mark or _NOT_PLAIN.search(filler):
                return None
        if _NOT_PLAIN.search(piece) and not _INSIDE_STRING.fullmatch(piece):
            return None
        return counter, piece, filler

    def _parts(self, varying: Sequence[str]) -> list[Segment] | None:
        """Return the segments of many lines, or None if a line has a different form.

        `varying` has the text of each line between the head and the tail of this form.
        """
        pieces: Sequence[str] = varying
        counters: Sequence[str] = [""] * len(varying)
        fillers = counters
        if self._after_counter:
            counters, marks, pieces = zip(*[text.partition(self._after_counter) for text in varying], strict=True)
            if not all(marks) or not all(map(_COUNTED.fullmatch, counters)):
                return None
        if self._middle:
            pieces, marks, fillers = zip(*[text.partition(self._middle) for text in pieces], strict=True)
            if not all(marks) or _NOT_PLAIN.search("".join(fillers)):
                return None
        joined = " ".join(pieces)  # no escape has a space, so a piece that ends inside an escape does not match
        if _NOT_PLAIN.search(joined) and not _INSIDE_STRING.fullmatch(joined):
            return None
        return [*zip(counters, pieces, fillers, strict=True)]


class _ReadEvent(NamedTuple):
    """An event with its form and its run. `event` is its JSON, with `PIECE` as its piece."""

    form: EventForm
    event: str
    run: EventRun


class MergedRuns:
    """Merges neighbouring events that only add to a text. `merged` is the number of events that merging removed.

    `can_join` gets the JSON of an event, with `PIECE` as its piece. `can_join` returns whether joining many such events
    has the same result as joining one event with all their pieces. The first and the last event of a run are never
    merged, because another line of the stream may belong to them. The merged event has the last filler that is not
    empty. The first and the last event keep their own fillers. So every other member has the same last value as without
    merging.
    """

    def __init__(self, can_join: Callable[[Payload], bool]) -> None:
        self.merged = 0
        self._can_join = can_join
        self._passed = self._misses = 0

    def __call__(self, lines: list[str]) -> list[str]:
        """Return lines of a stream, with the events of each run merged."""
        parts: list[str] = []
        done = number = 0
        while number < len(lines):
            read = self._read(lines, number)
            if read is None:
                number += 1
                continue
            form, event, run = read
            first_to_merge, last = number + len(run.between) + 1, number + run.lines - 1
            merged = run.segments[1:-1]
            if len(merged) > 1 and run.between and not run.between[0] and self._can_join(json_value(event)):
                counter, _, filler = next((segment for segment in reversed(merged) if segment[2]), merged[-1])
                whole = form.line((counter, "".join([piece for _, piece, _ in merged]), filler))
                parts += (*lines[done:first_to_merge], whole, *run.between)
                done = last
                self.merged += len(merged) - 1
            number = last + 1
        return [*parts, *lines[done:]]

    def _read(self, lines: list[str], number: int) -> _ReadEvent | None:
        """Read the event in a line, and its run. Return None if the line has no such event, or is skipped."""
        line = lines[number]
        if not line.startswith(_DATA) or len(line) > MAX_UNINTERRUPTED_CHARS:
            return None
        if self._passed < self._misses:
            self._passed += 1
            return None
        self._passed, self._misses = 0, min(2 * self._misses + 1, _MOST_MISSES)
        begin = _PIECE_BEGIN.search(line)
        if begin is None:
            return None
        literal = STRING.match(line, begin.end())
        if literal is None:
            return None
        start, end = literal.span()
        form = EventForm(line, start, end)
        run = form.read_run(lines, number)
        if run is None:
            return None
        if len(run.segments) >= _FEW_EVENTS:
            self._misses = 0
        return _ReadEvent(form, f'{line[len(_DATA) : start]}"{PIECE}"{line[end:]}', run)
