"""Masks secrets that are split across the events of a stream, a few letters in each.

A stream carries the model's text in pieces: one string of an event has a few letters. A `Part` consists of whole lines
of a stream. A `Part` joins the pieces that its events have at one path of members, such as the arguments of the second
tool call, and masks the joined text. The mask is written into the event in which the secret begins, and the rest of the
secret is removed from the following events. Nothing else in an event is changed. Many events differ only in their
piece. These events are read together (`dialects/event_forms.py`), and the text that they have in common is searched
once. `redactor.py` calls `hold_back`, `searched_texts` and `mask`, in this order, and then masks the secrets that are
within one line.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from json.decoder import scanstring  # type: ignore[attr-defined]  # its stubs lack it
from operator import attrgetter
from typing import TypeVar

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.dialects.event_forms import PIECES, TELLING, EventForm, EventRun
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.json_members import ARGUMENTS
from trace_recorder.storage.redaction.partial_secrets import LONGEST
from trace_recorder.values.json_text import STRING
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

_NAME = lazy_pattern(rf'"(?:{"|".join(PIECES)})"')
_LONGEST_NAME = 64
_MOST_FORMS = 8
"""A line is compared with the `EventForm` of at most this many earlier lines.

A stream may alternate between several texts.
"""
_STEP = 64
"""A search lets other threads run after this many lines, or after this many strings of one line."""
_MAX_ROUNDS = 32
"""`hold_back` moves the end of the part to an earlier line at most this many times.

If a stream has eight answers at once, or the model repeats the name of a secret, every line may be inside a possible
secret. Without a limit, the whole stream would then wait.
"""
_JSON_BEGIN = lazy_pattern(r"[{\[]")

T = TypeVar("T")
Mask = Callable[[str], str]
"""A function that returns a text with its secrets masked."""
PossibleSecrets = Callable[[str], list[int]]
"""A function that returns the positions at which a text may contain a secret. It is quicker than a `Mask`."""
UnfinishedLength = Callable[[str], int]
"""A function that returns how many characters at the end of a text may be the beginning of a secret."""
StringPath = tuple[Payload, ...]
"""The path of a string in an event.

A path has names of members, positions in lists, and pairs of a member in `TELLING` and its value.
"""


class StreamPiece(Struct, frozen=True, gc=False):
    """A piece of the model's text.

    `line` is the number of its line in the part. `start` and `end` are its span in this line, with its quotes. `text`
    is its decoded text.
    """

    line: int
    start: int
    end: int
    text: str


def lines_with_ends(text: str) -> list[str]:
    """Split a text after each LF, and return its lines."""
    lines = text.splitlines(keepends=True)
    if len(lines) == text.count("\n") + (not text.endswith("\n")):
        return lines  # `splitlines` has split at LF only
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    if rest:
        lines.append(rest)
    return lines


class Part:
    """Whole lines of a stream. `text` has these lines, without the events that `hold_back` has left out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._pieces_at: dict[StringPath, list[StreamPiece]] = {}
        self._other_lines: dict[str, None] = {}
        """The lines that no `EventForm` of an earlier line has read, and the lines between two events."""
        self._varying: list[str] = []
        """The strings in which the lines of one `EventForm` differ: the counter, the piece and the filler."""
        self._long_lines: list[int] = []
        self.masked_lines: frozenset[int] | None = None
        """After `mask`, the numbers of the lines whose pieces were searched.

        None if no joined text may have a secret.
        """
        self._read()

    def _read(self) -> None:
        """Find the pieces of all lines except long lines, and the strings to search besides the pieces."""
        forms: list[tuple[EventForm, list[StreamPiece]]] = []
        number = 0
        while number < len(self._lines):
            if number % _STEP == 0:
                yield_to_others()
            line = self._lines[number]
            for form, pieces in forms:
                if line and (run := form.read_run(self._lines, number)) is not None:
                    self._add_run(run, form.piece_start, number, pieces)
                    number += run.lines
                    break
            else:
                self._other_lines[line] = None
                if len(line) > MAX_UNINTERRUPTED_CHARS:
                    self._long_lines.append(number)
                elif '"' in line and (new := self._read_event(number)):
                    forms = [new, *forms[: _MOST_FORMS - 1]]
                number += 1

    def _add_run(self, run: EventRun, piece_start: int, number: int, pieces: list[StreamPiece]) -> None:
        """Add the pieces and the other varying strings of a run of events, which begins with the line `number`."""
        step = len(run.between) + 1
        for counter, spelled, _ in run.segments:
            if spelled:
                start = piece_start + len(counter)
                text = spelled
                if "\\" in spelled:
                    text, _ = scanstring(f'{spelled}"', 0)
                pieces.append(StreamPiece(number, start - 1, start + len(spelled) + 1, text))
            number += step
        self._varying += filter(None, chain.from_iterable(run.segments))
        if run.between:
            self._other_lines |= dict.fromkeys(run.between)

    def _read_event(self, number: int) -> tuple[EventForm, list[StreamPiece]] | None:
        """Parse a line, and add its pieces.

        If the line has exactly one piece, return the line's `EventForm`, and the list of all pieces that have the same
        path. Otherwise return None.
        """
        line = self._lines[number]
        pieces: list[tuple[StringPath, StreamPiece]] = []
        begin = _JSON_BEGIN.search(line)
        if begin is not None and (_NAME.search(line) or "\\u" in line):
            pieces += _pieces(line, begin.start(), number)
        for path, piece in pieces:
            self._pieces_at.setdefault(path, []).append(piece)
        if len(pieces) != 1:
            return None
        [(path, piece)] = pieces
        return EventForm(line, piece.start, piece.end), self._pieces_at[path]

    def _read_long_lines(self) -> None:
        """Find the pieces of the long lines too.

        Parsing a long line takes long. Therefore these lines are parsed only if the part must be masked or shortened.
        """
        for number in self._long_lines:
            if _has_piece(self._lines[number]):
                self._read_event(number)
        if self._long_lines:
            self._long_lines = []
            for pieces in self._pieces_at.values():
                pieces.sort(key=lambda piece: (piece.line, piece.start))

    def searched_texts(self) -> Iterator[str]:
        """Yield the texts in which secrets must be searched.

        The first texts are the joined pieces, one text for each path. The last text has every other string of the part.
        """
        for pieces in self._pieces_at.values():
            yield "".join([piece.text for piece in pieces])
        yield "\n".join(self._other_lines) + '"' + '"\n"'.join(self._varying) + '"'

    def pieces(self) -> Mapping[StringPath, Sequence[StreamPiece]]:
        """Return the pieces of all lines, by the path of their text."""
        self._read_long_lines()
        return self._pieces_at

    def other_lines(self) -> Collection[str]:
        """Return the lines that no `EventForm` of an earlier line has read, each once."""
        return self._other_lines.keys()

    def varying_strings(self) -> set[str]:
        """Return the strings in which lines of one form differ, as they are spelled. Pieces are among them."""
        return {*self._varying}

    def mask(
        self, possible_secrets: PossibleSecrets, mask: Mask, mask_arguments: Mask
    ) -> tuple[str, list[tuple[str, str]]]:
        """Mask the joined pieces of each path.

        Return the text of the part. Also return each joined text that masking has changed, as a pair: before and after
        masking. `mask_arguments` masks the arguments of tools. Arguments are JSON, so `mask_arguments` also recognises
        secrets by the names of their members.
        """
        self._read_long_lines()
        joined = {path: "".join([piece.text for piece in pieces]) for path, pieces in self._pieces_at.items()}
        seen = {path for path, text in joined.items() if possible_secrets(text)}
        if not seen:
            return self.text, []
        lines = self._lines[:]
        changed: dict[int, list[tuple[int, int, str]]] = {}
        texts_masked: list[tuple[str, str]] = []
        self.masked_lines = frozenset(piece.line for pieces in self._pieces_at.values() for piece in pieces)
        for path, text in joined.items():
            if path not in seen:
                continue
            masked = mask_arguments(text) if _is_of_arguments(path) else mask(text)
            if masked != text:
                texts_masked.append((text, masked))
                for piece, new in _changed_pieces(self._pieces_at[path], text, masked):
                    changed.setdefault(piece.line, []).append((piece.start, piece.end, new))
        for number, changes in changed.items():
            for start, end, new in sorted(changes, reverse=True):
                lines[number] = f"{lines[number][:start]}{json.dumps(new)}{lines[number][end:]}"
        return "\n".join(lines), texts_masked

    def hold_back(self, unfinished_length: UnfinishedLength) -> None:
        """Remove the events at the end of `text` in which a secret may begin. These events wait for the next part."""
        self._read_long_lines()
        texts = [_JoinedText(pieces) for pieces in self._pieces_at.values()]
        first, end = len(self._lines), -1
        # If the part ends earlier for one text, a possible secret in another text may be cut.
        for _ in range(_MAX_ROUNDS):
            if first == end:
                break
            end = first
            first = min([first, *(text.waiting_line(end, unfinished_length) for text in texts)])
        if first < len(self._lines):
            self._lines[first:] = [""]
            self.text = "\n".join(self._lines)
            for pieces in self._pieces_at.values():
                del pieces[bisect_left(pieces, first, key=attrgetter("line")) :]


class _JoinedText:
    """The model's text at one path, joined from its pieces."""

    def __init__(self, pieces: list[StreamPiece]) -> None:
        self._lines = [piece.line for piece in pieces]
        self._text = "".join([piece.text for piece in pieces])
        self._ends = list(accumulate([len(piece.text) for piece in pieces]))
        self._examined = -1

    def waiting_line(self, end: int, unfinished_length: UnfinishedLength) -> int:
        """Return the number of the first line that must wait for the next part.

        `end` is the first line that must wait for another reason. Return `end` if no line before it must wait.
        """
        examined = bisect_left(self._lines, end)
        if examined in (0, self._examined):  # no pieces to examine, or the same pieces as before
            return end
        self._examined = examined
        last = self._ends[examined - 1]
        if self._text[
            last : last + 1
        ].isspace():  # a space follows in a line that waits, so the word before it is complete
            last += 1
        begin = last - unfinished_length(self._text[max(0, last - LONGEST) : last])
        if begin == last:
            return end
        return min(end, self._lines[bisect_right(self._ends, begin)])


def _has_piece(line: str) -> bool:
    """Return whether a long line may have a piece.

    The line is searched in short steps, between which other threads may run.
    """
    for start in range(0, len(line), MAX_UNINTERRUPTED_CHARS):
        yield_to_others()
        if _NAME.search(line, start, start + MAX_UNINTERRUPTED_CHARS + _LONGEST_NAME):
            return True
    return False


def _is_of_arguments(path: StringPath) -> bool:
    """Return whether the text at a path is the arguments of a tool.

    This is known from the name of the member, or from the type of the event.
    """
    members = [part for part in path if isinstance(part, tuple)]
    return path[-1] in ARGUMENTS or any(name == "type" and "arguments" in value for name, value in members)


def _pieces(line: str, begin: int, number: int) -> Iterator[tuple[StringPath, StreamPiece]]:
    try:
        event = json.loads(line[begin:])
    except ours(ValueError, RecursionError):
        return
    texts: dict[int, tuple[StringPath, str]] = {}
    strings = literals = 0
    for strings, (path, text) in enumerate(_in_steps(strings_of_event(event)), 1):
        if path and path[-1] in PIECES and text:
            texts[strings] = path, text
    pieces: list[tuple[StringPath, StreamPiece]] = []
    for literals, literal in enumerate(_in_steps(STRING.finditer(line, begin)), 1):
        if literals in texts:
            path, text = texts[literals]
            pieces.append((path, StreamPiece(number, literal.start(), literal.end(), text)))
    if (
        literals == strings
    ):  # they differ if an object has two members with one name: the parser keeps the last one only
        yield from pieces


def _in_steps(elements: Iterable[T]) -> Iterator[T]:
    """Yield the same elements, and let other threads run after every `_STEP` elements."""
    for number, element in enumerate(elements, 1):
        if number % _STEP == 0:
            yield_to_others()
        yield element


def strings_of_event(value: Payload, path: StringPath = ()) -> Iterator[tuple[StringPath, str]]:
    """Yield every string of an event with its path, in the order of the JSON text.

    For the name of a member, the path is empty.
    """
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        telling = TELLING if path else ("type", *TELLING)
        here = (*path, *((name, str(value[name])) for name in telling if isinstance(value.get(name), str | int)))
        for name, element in value.items():
            yield (), name
            yield from strings_of_event(element, (*here, name))
    elif isinstance(value, list):
        several = len(value) > 1
        for at, element in enumerate(value):
            yield from strings_of_event(element, (*path, at) if several else path)


def _changed_pieces(pieces: list[StreamPiece], text: str, masked: str) -> Iterator[tuple[StreamPiece, str]]:
    """Yield each piece that masking changes, with its new text. The first of these pieces gets the mask."""
    head = common_length(text, masked)
    head = min(head, len(text) - 1)
    tail = min(common_length(text[head:][::-1], masked[head:][::-1]), len(text) - head - 1)
    new, at = masked[head : len(masked) - tail], 0
    for piece in pieces:
        start, at = at, at + len(piece.text)
        if at > head and start < len(text) - tail:
            before = piece.text[: max(0, head - start)]
            behind = piece.text[max(0, len(text) - tail - start) :]
            yield piece, f"{before}{new}{behind}"
            new = ""


def common_length(text: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are the same."""
    shorter = min(len(text), len(other))
    if text[:shorter] == other[:shorter]:
        return shorter
    low, high = 0, shorter
    while high - low > 1:
        middle = (low + high) // 2
        if text[:middle] == other[:middle]:
            low = middle
        else:
            high = middle
    return low
