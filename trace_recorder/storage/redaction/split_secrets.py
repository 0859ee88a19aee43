"""Masks secrets that are split across the events of a stream, a few letters in each.

`Part.mask` joins the texts of a part of a stream, those of one place in the events together, and masks them. The mask
is written into the event in which the secret begins, and the rest of the secret is removed from the following events.
`Part.unfinished` returns where the last events begin that may contain the beginning of a secret
(`partial_secrets.py`): these are written with the next part. The rest of an event is not changed, and a stream without
any sign of a secret is not parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.json_members import ARGUMENTS
from trace_recorder.storage.redaction.partial_secrets import LONGEST
from trace_recorder.values.json_text import STRING, parse_leniently
from trace_recorder.values.messages import Payload

PIECES = (
    *("content", "text", "arguments", "partial_json", "thinking", "delta", "reasoning", "reasoning_content"),
    *("refusal", "response", "transcript", "signature_text", "input", "outputText", "generation"),
)
"""The members that hold what a model says, piece by piece."""
_NAME = re.compile(rf'"(?:{"|".join(PIECES)})"[ ]?:[ ]?"')
_LONGEST_NAME = 64
_INSIDE = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PIECE = re.compile(rf'{_NAME.pattern}({_INSIDE.pattern})"', re.DOTALL)
_TELLING = ("index", "output_index", "content_index", "summary_index", "item_id", "contentBlockIndex")
"""The members that distinguish the texts of one place in the events."""
_INDEX = re.compile(r'[iI]ndex"[ ]?:[ ]?(\d+)')
_LONGEST_ESCAPE = len("\\ud83d\\ude00")
_STEP = 64
"""Other threads may run after this many lines, or strings of one line."""
_MAX_ROUNDS = 32
"""An earlier place for the cut is searched for this often. Eight answers at once, or a name that a model repeats, may
have no place where nothing waits; without a limit the whole stream would wait."""
_JSON_BEGIN = re.compile(r"[{\[]")

T = TypeVar("T")
Mask = Callable[[str], str]
Sees = Callable[[str], bool]
Waits = Callable[[str], int]


@dataclass(slots=True)
class _Piece:
    """A string of an event: its line, its position in that line, and its decoded text."""

    line: int
    start: int
    end: int
    text: str


def lines_of(text: str) -> list[str]:
    """Split a text into its lines, with their ends. The same as a pattern finds, in less time."""
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest] if rest else lines


class Part:
    """A part of a stream's text, whole lines of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = lines_of(text)
        self._said = _said(self._lines)
        self.masked_lines: frozenset[int] | None = None
        """The numbers of the lines whose pieces `mask` has searched; None if it found no sign of a secret in any."""

    def mask(self, sees: Sees, mask: Mask, mask_arguments: Mask) -> tuple[str, list[tuple[str, str]]]:
        """Mask the secrets in its joined texts; return the part, and each text that changed, before and after.

        `mask_arguments` masks the arguments of tools: parts of JSON, in which names of members count.
        """
        if not any(map(sees, self._said)):
            return self.text, []
        lines = self._lines[:]
        changed: dict[int, list[tuple[int, int, str]]] = {}
        texts_masked: list[tuple[str, str]] = []
        texts = _texts(lines)
        self.masked_lines = frozenset(piece.line for pieces in texts.values() for piece in pieces)
        for place, pieces in texts.items():
            are_arguments = _are_arguments(place)
            said = "".join(piece.text for piece in pieces)
            masked = said if not sees(said) else mask_arguments(said) if are_arguments else mask(said)
            if masked != said:
                texts_masked.append((said, masked))
                for piece, left in _spread(pieces, said, masked):
                    changed.setdefault(piece.line, []).append((piece.start, piece.end, left))
        for number, changes in changed.items():
            for start, end, left in sorted(changes, reverse=True):
                lines[number] = f"{lines[number][:start]}{json.dumps(left)}{lines[number][end:]}"
        return "".join(lines), texts_masked

    def unfinished(self, waits: Waits) -> int:
        """Return how many characters at its end are to wait: from the event on in which what `waits` begins."""
        if not any(waits(_decoded(_ending(said))[-LONGEST:]) for said in self._said):
            return 0
        texts = list(_texts(self._lines).values())
        first, end = len(self._lines), -1
        for _ in range(_MAX_ROUNDS):  # what waits in one text may cut another one, or the value before it
            if first == end:
                break
            end = first
            for pieces in texts:
                shown = [piece for piece in pieces if piece.line < end]
                letters = waits("".join(piece.text for piece in shown)[-LONGEST:])
                if letters:
                    first = min(first, _holding(shown, letters).line)
        return sum(map(len, self._lines[first:]))


def _ending(said: str) -> str:
    """Return the end of joined pieces, long enough to have `LONGEST` characters when it is decoded."""
    start = len(said) - LONGEST * _LONGEST_ESCAPE
    if start <= 0:
        return said
    if (start - len(said[:start].rstrip("\\"))) % 2:
        start += 1  # not in the middle of an escape
    return said[start:]


def _decoded(said: str) -> str:
    """Return the decoded text of the joined pieces of JSON's strings; as they are written if they cannot be decoded."""
    try:
        return str(json.loads(f'"{said}"'))
    except ours(ValueError):
        return said


def _said(lines: list[str]) -> list[str]:
    """Return the joined pieces of the events, separated by the indices in their lines alone, for a first look."""
    groups: dict[tuple[str, ...], list[str]] = {}
    group: list[str] = []
    form: _Form | None = None
    for number, line in enumerate(lines, 1):
        if '"' not in line:
            continue
        if number % _STEP == 0:
            yield_to_others()
        piece = form.piece_of(line) if form else None
        if piece is not None:
            group.append(piece)
            continue
        found = _spans(line)
        if found:
            group = groups.setdefault(tuple(_INDEX.findall(line)), [])
            group += [line[start:end] for start, end in found]
            form = _Form(line, *found[0]) if len(found) == 1 else None
    return list(map("".join, groups.values()))


def _spans(line: str) -> list[tuple[int, int]]:
    """Return where the pieces of an event begin and end. A long line is searched step by step."""
    if len(line) <= MAX_UNINTERRUPTED_CHARS:
        return [piece.span(1) for piece in _PIECE.finditer(line)]
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(line):
        yield_to_others()
        name = _NAME.search(line, at, at + MAX_UNINTERRUPTED_CHARS + _LONGEST_NAME)
        if name is None:
            at += MAX_UNINTERRUPTED_CHARS
            continue
        end = _end_of_string(line, name.end())
        if end < 0:  # no string ends behind it, so neither does a name
            break
        spans.append((name.end(), end))
        at = end + 1
    return spans


def _end_of_string(line: str, at: int) -> int:
    """Return where the string ends that goes on at a position; -1 if it does not end."""
    while True:
        inside = _INSIDE.match(line, at, at + MAX_UNINTERRUPTED_CHARS)
        end = inside.end() if inside else at
        if line[end : end + 1] == '"':
            return end
        if end == at:
            return -1
        at = end
        yield_to_others()


class _Form:
    """The form of an event with one piece, which most of the following events have too.

    `line` has its piece between `start` and `end`; the last string behind it, which is none, is filler and may differ.
    """

    __slots__ = ("_head", "_middle", "_open", "_tail")

    def __init__(self, line: str, start: int, end: int) -> None:
        behind = line[end:]
        closing = behind.rfind('"')
        opening = behind.rfind(':"', 0, closing) + 2
        self._open = opening > 1 and '"' not in behind[opening:closing]
        self._head = line[:start]
        self._middle = behind[:opening] if self._open else behind
        self._tail = behind[closing:] if self._open else ""

    def piece_of(self, line: str) -> str | None:
        """Return the piece of a line that has this form; None for a line that may have another."""
        if not line.startswith(self._head):
            return None
        start = len(self._head)
        end = line.find('"', start)
        if line[end - 1] == "\\" or not line.startswith(self._middle, end) or not line.endswith(self._tail):
            return None
        filler = line[end + len(self._middle) : len(line) - len(self._tail)]
        if filler and (not self._open or '"' in filler or filler[-1] == "\\"):
            return None
        return line[start:end]


def _holding(pieces: list[_Piece], letters: int) -> _Piece:
    """Return the piece in which the last letters begin."""
    for piece in reversed(pieces):
        letters -= len(piece.text)
        if letters <= 0:
            return piece
    return pieces[0]


def _texts(lines: list[str]) -> dict[tuple[Payload, ...], list[_Piece]]:
    """Return the pieces of each text."""
    texts: dict[tuple[Payload, ...], list[_Piece]] = {}
    for number, line in enumerate(lines):
        begin = _JSON_BEGIN.search(line)
        if begin is None:
            continue
        for place, piece in _pieces(line, begin.start(), number):
            texts.setdefault(place, []).append(piece)
    return texts


def _are_arguments(place: tuple[Payload, ...]) -> bool:
    """Whether the text of a place is the arguments of a tool, by its member or by the type of its events."""
    members = [part for part in place if isinstance(part, tuple)]
    return place[-1] in ARGUMENTS or any(name == "type" and "arguments" in value for name, value in members)


def _pieces(line: str, begin: int, number: int) -> Iterator[tuple[tuple[Payload, ...], _Piece]]:
    try:
        event = parse_leniently(line[begin:])
    except ours(ValueError, RecursionError):
        return
    said: dict[int, tuple[tuple[Payload, ...], str]] = {}
    strings = literals = 0
    for strings, (place, text) in enumerate(_in_steps(_strings(event, ())), 1):
        if place and place[-1] in PIECES and text:
            said[strings] = place, text
    found: list[tuple[tuple[Payload, ...], _Piece]] = []
    for literals, literal in enumerate(_in_steps(STRING.finditer(line, begin)), 1):
        if literals in said:
            place, text = said[literals]
            found.append((place, _Piece(number, literal.start(), literal.end(), text)))
    if literals == strings:  # of members with one name only the last is there
        yield from found


def _in_steps(elements: Iterable[T]) -> Iterator[T]:
    """Yield the same elements, and let other threads run now and then."""
    for number, element in enumerate(elements, 1):
        if number % _STEP == 0:
            yield_to_others()
        yield element


def _strings(value: Payload, place: tuple[Payload, ...]) -> Iterator[tuple[tuple[Payload, ...], str]]:
    """Yield every string of an event in the order of its text, including names, which have no place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        telling = _TELLING if place else ("type", *_TELLING)
        here = (*place, *((name, str(value[name])) for name in telling if isinstance(value.get(name), str | int)))
        for name, element in value.items():
            yield (), name
            yield from _strings(element, (*here, name))
    elif isinstance(value, list):
        several = len(value) > 1
        for at, element in enumerate(value):
            yield from _strings(element, (*place, at) if several else place)


def _spread(pieces: list[_Piece], said: str, masked: str) -> Iterator[tuple[_Piece, str]]:
    """Yield the pieces that change, with the rest of them: new text goes to the first."""
    head = _common(said, masked)
    head = min(head, len(said) - 1)
    tail = min(_common(said[head:][::-1], masked[head:][::-1]), len(said) - head - 1)
    new, at = masked[head : len(masked) - tail], 0
    for piece in pieces:
        start, at = at, at + len(piece.text)
        if at > head and start < len(said) - tail:
            before = piece.text[: max(0, head - start)]
            behind = piece.text[max(0, len(said) - tail - start) :]
            yield piece, f"{before}{new}{behind}"
            new = ""


def _common(one: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are the same."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    low, high = 0, shorter
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low
