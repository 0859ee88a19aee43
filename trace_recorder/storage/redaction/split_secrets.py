"""Masks secrets that are split across the events of a stream, a few letters in each.

A `Part` is a part of a stream, and each of its texts is searched once. Events that differ from an earlier event only in
the model's text are read in runs (`dialects/event_forms.py`), and `searched_texts` yields their common text once.
`hold_back` leaves out the events at the end that may contain the beginning of a secret (`partial_secrets.py`). These
events are written with the next part. A place is a path of members in an event, such as the arguments of the second
tool call. `mask` joins the texts of all events at one place, and masks the joined text. The mask is written into the
event in which the secret begins, and the rest of the secret is removed from the following events. Nothing else in an
event is changed. `redactor.py` calls `hold_back`, `searched_texts` and `mask`, in this order, and masks the secrets
that are within one line.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TypeVar

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.dialects.event_forms import PIECES, TELLING, EventForm, EventRun
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.json_members import ARGUMENTS
from trace_recorder.storage.redaction.partial_secrets import LONGEST
from trace_recorder.values.json_text import STRING, parse_leniently
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

_NAME = re.compile(rf'"(?:{"|".join(PIECES)})"')
_LONGEST_NAME = 64
_MOST_FORMS = 8
"""An event is compared with at most this many earlier forms. A stream may alternate between several texts."""
_STEP = 64
"""Other threads may run after this many lines, or after this many strings of one line."""
_MAX_ROUNDS = 32
"""`hold_back` searches at most this many times for an earlier line at which the part can be cut.

If a stream has eight answers at once, or a name that the model repeats, every place may be inside a possible secret.
Without a limit, the whole stream would then wait.
"""
_JSON_BEGIN = re.compile(r"[{\[]")

T = TypeVar("T")
Mask = Callable[[str], str]
"""A function that returns a text with its secrets masked."""
HasSecrets = Callable[[str], bool]
"""A function that returns whether a text may contain a secret. It is quicker than a `Mask`."""
UnfinishedLength = Callable[[str], int]
"""A function that returns how many characters at the end of a text may be the beginning of a secret."""
Place = tuple[Payload, ...]
"""The path of a string in an event: names, positions in lists, and pairs of a member in `TELLING` and its value."""


class _Piece(Struct, frozen=True, gc=False):
    """A string of an event: its line, its position in that line with its quotes, and its decoded text."""

    line: int
    start: int
    end: int
    text: str


def lines_of(text: str) -> list[str]:
    """Split a text at LF into its lines, with their ends."""
    lines = text.splitlines(keepends=True)
    if len(lines) == text.count("\n") + (not text.endswith("\n")):
        return lines  # `splitlines` has split at LF only
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest] if rest else lines


class Part:
    """A part of a stream's text. It consists of whole lines.

    `text` is the part without the events that `hold_back` has left out.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._texts: dict[Place, list[_Piece]] = {}
        self._others: dict[str, None] = {}
        """The lines that do not have the form of an earlier line, and all lines without a string."""
        self._alone: list[str] = []
        """The strings that differ in lines of the same form: the counter, the model's text and the filler."""
        self._long_lines: list[int] = []
        self.masked_lines: frozenset[int] | None = None
        """The numbers of the lines whose pieces `mask` has searched, or None if no text may have a secret."""
        self._read()

    def _read(self) -> None:
        """Read the pieces and the other strings of each line."""
        forms: list[tuple[EventForm, list[_Piece]]] = []
        number = 0
        while number < len(self._lines):
            if number % _STEP == 0:
                yield_to_others()
            line = self._lines[number]
            for form, pieces in forms if line else ():
                if (run := form.read_run(self._lines, number)) is not None:
                    self._add_run(run, form.piece_start, number, pieces)
                    number += run.lines
                    break
            else:
                self._others[line] = None
                if len(line) > MAX_UNINTERRUPTED_CHARS:
                    self._long_lines.append(number)
                elif '"' in line and (new := self._read_event(number)):
                    forms = [new, *forms[: _MOST_FORMS - 1]]
                number += 1

    def _add_run(self, run: EventRun, piece_start: int, number: int, pieces: list[_Piece]) -> None:
        """Add the pieces and the other strings of a run of events that begins with this line."""
        for segment in run.segments:
            counter, spelled, _ = segment
            if spelled:
                start = piece_start + len(counter)
                text = spelled if "\\" not in spelled else json.loads(f'"{spelled}"')
                pieces.append(_Piece(number, start - 1, start + len(spelled) + 1, text))
            self._alone += filter(None, segment)
            number += len(run.between) + 1
        if run.between:
            self._others |= dict.fromkeys(run.between)

    def _read_event(self, number: int) -> tuple[EventForm, list[_Piece]] | None:
        """Parse a line.

        If exactly one of its strings is a piece of the model's text, return the form of the line and the list of all
        pieces at that place. Otherwise return None.
        """
        line = self._lines[number]
        begin = _JSON_BEGIN.search(line) if _NAME.search(line) or "\\u" in line else None
        pieces = list(_pieces(line, begin.start(), number)) if begin else []
        for place, piece in pieces:
            self._texts.setdefault(place, []).append(piece)
        if len(pieces) != 1:
            return None
        [(place, piece)] = pieces
        return EventForm(line, piece.start, piece.end), self._texts[place]

    def _read_long_lines(self) -> None:
        """Read the long lines too. A line of a megabyte is parsed only if its pieces are needed."""
        for number in self._long_lines:
            if _has_piece(self._lines[number]):
                self._read_event(number)
        if self._long_lines:
            self._long_lines = []
            for pieces in self._texts.values():
                pieces.sort(key=lambda piece: (piece.line, piece.start))

    def searched_texts(self) -> Iterator[str]:
        """Yield texts to search.

        Together they contain every text of the part: the model's text at each place, joined, then the other lines, and
        the other strings that change from event to event.
        """
        for pieces in self._texts.values():
            yield "".join([piece.text for piece in pieces])
        yield "\n".join(self._others) + '"' + '"\n"'.join(self._alone) + '"'

    def mask(self, has_secrets: HasSecrets, mask: Mask, mask_arguments: Mask) -> tuple[str, list[tuple[str, str]]]:
        """Mask the secrets in the joined texts. Return the part, and each changed text, before and after.

        `mask_arguments` masks the arguments of tools. These are parts of JSON, so it judges the names of members too.
        """
        self._read_long_lines()
        joined = {place: "".join([piece.text for piece in pieces]) for place, pieces in self._texts.items()}
        seen = {place for place, text in joined.items() if has_secrets(text)}
        if not seen:
            return self.text, []
        lines = self._lines[:]
        changed: dict[int, list[tuple[int, int, str]]] = {}
        texts_masked: list[tuple[str, str]] = []
        self.masked_lines = frozenset(piece.line for pieces in self._texts.values() for piece in pieces)
        for place, text in joined.items():
            masked = text if place not in seen else (mask_arguments if _are_arguments(place) else mask)(text)
            if masked != text:
                texts_masked.append((text, masked))
                for piece, new in _spread(self._texts[place], text, masked):
                    changed.setdefault(piece.line, []).append((piece.start, piece.end, new))
        for number, changes in changed.items():
            for start, end, new in sorted(changes, reverse=True):
                lines[number] = f"{lines[number][:start]}{json.dumps(new)}{lines[number][end:]}"
        return "\n".join(lines), texts_masked

    def hold_back(self, unfinished_length: UnfinishedLength) -> None:
        """Remove the events at the end of `text` that must wait, from the event in which a possible secret begins."""
        self._read_long_lines()
        texts = [_Joined(pieces) for pieces in self._texts.values()]
        first, end = len(self._lines), -1
        for _ in range(_MAX_ROUNDS):  # a new cut for one text may cut another text, or the value before it
            if first == end:
                break
            end = first
            first = min([first, *(text.waiting_line(end, unfinished_length) for text in texts)])
        if first < len(self._lines):
            self._lines[first:] = [""]
            self.text = "\n".join(self._lines)
            for pieces in self._texts.values():
                del pieces[bisect_left(pieces, first, key=_line_of) :]


def _line_of(piece: _Piece) -> int:
    return piece.line


class _Joined:
    """The text of one place, and where each of its pieces ends."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self._lines = [piece.line for piece in pieces]
        self._text = "".join([piece.text for piece in pieces])
        self._ends = list(accumulate([len(piece.text) for piece in pieces]))
        self._shown = -1

    def waiting_line(self, end: int, unfinished_length: UnfinishedLength) -> int:
        """Return the first line in which text must wait, or `end` if no text before `end` must wait."""
        shown = bisect_left(self._lines, end)
        if shown in (0, self._shown):  # nothing of this text was left out since the last call
            return end
        self._shown = shown
        last = self._ends[shown - 1]
        if self._text[last : last + 1].isspace():  # the following text is known, so the word before it is finished
            last += 1
        begin = last - unfinished_length(self._text[max(0, last - LONGEST) : last])
        return min(end, self._lines[bisect_right(self._ends, begin)]) if begin < last else end


def _has_piece(line: str) -> bool:
    """Return whether a long line has a member with the model's text. The line is searched step by step."""
    for start in range(0, len(line), MAX_UNINTERRUPTED_CHARS):
        yield_to_others()
        if _NAME.search(line, start, start + MAX_UNINTERRUPTED_CHARS + _LONGEST_NAME):
            return True
    return False


def _are_arguments(place: Place) -> bool:
    """Return whether the text of a place is the arguments of a tool, by its member or by the type of its events."""
    members = [part for part in place if isinstance(part, tuple)]
    return place[-1] in ARGUMENTS or any(name == "type" and "arguments" in value for name, value in members)


def _pieces(line: str, begin: int, number: int) -> Iterator[tuple[Place, _Piece]]:
    try:
        event = parse_leniently(line[begin:])
    except ours(ValueError, RecursionError):
        return
    texts: dict[int, tuple[Place, str]] = {}
    strings = literals = 0
    for strings, (place, text) in enumerate(_in_steps(_strings(event, ())), 1):
        if place and place[-1] in PIECES and text:
            texts[strings] = place, text
    pieces: list[tuple[Place, _Piece]] = []
    for literals, literal in enumerate(_in_steps(STRING.finditer(line, begin)), 1):
        if literals in texts:
            place, text = texts[literals]
            pieces.append((place, _Piece(number, literal.start(), literal.end(), text)))
    if literals == strings:  # of several members with one name, only the last is kept
        yield from pieces


def _in_steps(elements: Iterable[T]) -> Iterator[T]:
    """Yield the same elements, and let other threads run now and then."""
    for number, element in enumerate(elements, 1):
        if number % _STEP == 0:
            yield_to_others()
        yield element


def _strings(value: Payload, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield every string of an event with its place, in the order of the JSON text. Names have an empty place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        telling = TELLING if place else ("type", *TELLING)
        here = (*place, *((name, str(value[name])) for name in telling if isinstance(value.get(name), str | int)))
        for name, element in value.items():
            yield (), name
            yield from _strings(element, (*here, name))
    elif isinstance(value, list):
        several = len(value) > 1
        for at, element in enumerate(value):
            yield from _strings(element, (*place, at) if several else place)


def _spread(pieces: list[_Piece], text: str, masked: str) -> Iterator[tuple[_Piece, str]]:
    """Yield the pieces that masking changes, each with its new text. The mask goes into the first of them."""
    head = _common_length(text, masked)
    head = min(head, len(text) - 1)
    tail = min(_common_length(text[head:][::-1], masked[head:][::-1]), len(text) - head - 1)
    new, at = masked[head : len(masked) - tail], 0
    for piece in pieces:
        start, at = at, at + len(piece.text)
        if at > head and start < len(text) - tail:
            before = piece.text[: max(0, head - start)]
            behind = piece.text[max(0, len(text) - tail - start) :]
            yield piece, f"{before}{new}{behind}"
            new = ""


def _common_length(text: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are the same."""
    shorter = min(len(text), len(other))
    if text[:shorter] == other[:shorter]:
        return shorter
    low, high = 0, shorter
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if text[:middle] == other[:middle] else (low, middle)
    return low
