"""The first look at a text: one search finds every place where a key, the name of a secret or a command may begin.

The fixed beginnings of keys (`SecretForm.literal`) and the stems of secrets' names are one Aho-Corasick automaton over
the bytes of the text in lower case. Where the library `ahocorasick_rs` cannot be imported, one regular expression finds
the same words. Other modules judge only the places that are found. Invariants: both forms find the same places. A byte
is one character, so positions in the bytes are positions in the text. Opaque parts, such as images and vectors of
numbers, are recognised by their characters, and only their ends are searched.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from operator import itemgetter, methodcaller
from threading import get_ident
from typing import NamedTuple

from trace_recorder.clocks import monotonic_seconds
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.patterns import FORMS

ENCODED = 24
"""A word in base64 is decoded only if its run has at least this many characters. A run is letters, digits, `+/_-`."""
LONGEST_ENCODED = 8192
"""Words in base64 with more characters than this are not decoded, because they are images, audio or files."""
LONGEST_NUMBERS = 4096
"""A longer list of numbers is opaque."""
KEPT = 1200
"""At least this many characters at each end of an opaque part are searched for secrets."""
STEP = 1024
"""A text is tested for an opaque part at positions that are this far apart."""

_OPAQUE = lazy_pattern(rf"[A-Za-z0-9+/]{{{LONGEST_ENCODED},}}+|[-+0-9.eE, \n]{{{LONGEST_NUMBERS},}}+")
STEMS = ("pass", "pw", "secret", "token", "key", "auth", "cred", "sig", "cookie")
"""The stems of secrets' names."""
COMMAND_WORDS = ("curl", "mysql", "sshpass", "login", "redis-cli", "cookies")
"""A word of each command that takes a secret."""
MCP = "mcp"
MARKS = (MCP, "\\u00", "\\/", *(f"%{digit}" for digit in range(2, 8)))
"""Words that other searches look for: the type of a tool, escapes of JSON, and percent-encoded letters."""
_BESIDE_RUNS = frozenset({".", "-", "|", "0.", "s.", ":A", "1/", "2/", "SK", "KEY", "$"})
"""Literals that are too short and too frequent to search for. They are searched beside long runs only."""
_ROW = "A" * 20
"""A literal of equal letters is found by a search of its own, because it is at each place of a longer row."""
_ROW_BYTES = _ROW.encode()
_ROWS = lazy_pattern(b"A{20,}+")
_BEFORE_IDS = (b"1/", b"2/")
"""The literals of a run with one or two numbers and a colon before it."""
_LONGEST_ID = 45
_HEX = lazy_pattern(rb"[0-9a-f]{32}")
_LONGEST_SALT = 80
_BEFORE_SALT = lazy_pattern(rb"(?<=[0-9])\$")
_MAY_PRECEDE_RUN = bytes((code in b".:|$\\") for code in range(256))
_BEFORE_RUN = lazy_pattern(rb"(?<=pat[a-z0-9]{14}\.)|(?<=[s0]\.)|(?<=[|$])|(?<=:)(?:a|[0-9a-f]{32})")
"""Matches a run that may follow one of the literals in `_BESIDE_RUNS`."""
_BACKSLASH, _DOT = b"\\."
_AFTER_RUN = lazy_pattern(rb"\.[a-z0-9_-]{6}(?:\.|[a-z0-9_-]{10})")
"""Matches a dot after a run if the secret goes on after the dot."""
_BETWEEN_IDS = lazy_pattern(rb"[0-9a-f]-(?=[0-9a-f]{8}-)(?<=[0-9a-f]{32}-)")
"""Matches the last digit of an id and a hyphen, if another id follows that is one secret together with the first."""
_TWO_IDS = 49
_BEFORE_HEX = lazy_pattern(rb"(?:SK|KEY)(?=[0-9a-fA-F]{32})")
"""Matches the literals of `_BESIDE_RUNS` that are in a run."""
_SHORTEST_WITH_LITERAL = 34
"""A run has at least this many characters if a literal is in it."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_IN_RUNS = bytes((code in _LETTERS) for code in range(256))
_LONG_RUN, _SIX = b"\1" * ENCODED, b"\1" * 6
_MAY_BEGIN_TEXT = bytes((code in b"CDIJKLMNOPQRSTUVWXYZabcdef") for code in range(256))
OF_TEXT = lazy_pattern(rb"(?:[CDI-Za-f][ACDEFGHQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){6}")
"""Matches six groups of four letters of base64 that encode three characters of ASCII each.

One in fifteen random groups of four letters matches, too.
"""
latin_bytes: Callable[[str], bytes] = methodcaller("encode", "latin-1", "replace")
"""Returns a text with one byte for each letter: a letter beyond Latin-1 is a question mark."""
Match = tuple[int, int, int]
"""The number of a word, and its span in the text."""


def _words() -> tuple[bytes, ...]:
    literals = {form.literal.lower() for form in FORMS if form.literal not in {*_BESIDE_RUNS, _ROW}}
    return tuple(word.encode() for word in (*STEMS, *COMMAND_WORDS, *MARKS, *sorted(literals - {*STEMS})))


WORDS = _words()
"""The words that the first look finds, in lower case. A match names a word by its number in this tuple."""
_BESIDE = {word.lower().encode(): len(WORDS) + number for number, word in enumerate(sorted({*_BESIDE_RUNS, _ROW}))}
_STEMS_END, _COMMANDS_END = len(STEMS), len(STEMS) + len(COMMAND_WORDS)
_MARKS_END = _COMMANDS_END + len(MARKS)
NUMBERS: dict[str, int] = {
    **{word.decode(): number for number, word in enumerate(WORDS)},
    **{word.decode(): number for word, number in _BESIDE.items()},
}
"""The number of each word and literal, by its text in lower case."""
_LITERAL_NUMBERS = frozenset(NUMBERS[form.literal.lower()] for form in FORMS)
_ROW_NUMBER = _BESIDE[_ROW_BYTES.lower()]


@cache
def find_words() -> Callable[[bytes], list[Match]]:
    """Return the function that finds all words in bytes in lower case.

    The automaton is made when it is first needed, because this takes some milliseconds.
    """
    try:
        from ahocorasick_rs import BytesAhoCorasick, Implementation  # noqa: PLC0415 - only when a text is searched
    except ImportError:  # such as in an interpreter with the standard library alone, or in a subinterpreter
        return find_words_by_pattern()
    automaton = BytesAhoCorasick(WORDS, implementation=Implementation.DFA)
    _leave_at_exit()
    return partial(automaton.find_matches_as_indexes, overlapping=True)


inside: set[int] = set()
"""The threads that may be inside an automaton.

The automaton releases the interpreter's lock. If the interpreter ends meanwhile, CPython before 3.14 ends a daemon
thread that asks for the lock again, and the library, which is written in Rust, then aborts the process.
"""
_LEAVE_SECONDS = 2.0
is_ending = False
"""Whether the interpreter ends. From then on, the plain pattern is used, which never releases the lock."""


@cache
def _leave_at_exit() -> None:
    """Let the interpreter end only when no thread is inside an automaton."""
    atexit.register(_wait_until_outside)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=inside.clear)


def _wait_until_outside() -> None:
    global is_ending  # noqa: PLW0603 - there is one process
    is_ending = True
    end = monotonic_seconds() + _LEAVE_SECONDS
    while inside and monotonic_seconds() < end:
        time.sleep(0.0005)


def any_word(words: Sequence[str]) -> Callable[[bytes], bool] | None:
    """Return a function that returns whether bytes contain one of the words, or None if the library is missing.

    This search is quicker than `find_words`, because it compares sixteen bytes at once if there are few words.
    """
    try:
        from ahocorasick_rs import BytesAhoCorasick, MatchKind  # noqa: PLC0415 - only when a long text is searched
    except ImportError:
        return None
    automaton = BytesAhoCorasick([word.encode() for word in words], matchkind=MatchKind.LeftmostFirst)
    find = automaton.find_matches_as_indexes
    _leave_at_exit()

    def contains(data: bytes) -> bool:
        thread = get_ident()
        inside.add(thread)
        try:  # the words are searched one by one if the answer is True
            return is_ending or bool(find(data))
        finally:
            inside.discard(thread)

    return contains


@cache
def find_words_by_pattern() -> Callable[[bytes], list[Match]]:
    """Return a function that finds the same words by one regular expression, which takes some 20 times as long."""
    firsts = b"".join(sorted({word[:1] for word in WORDS}))
    pattern = re.compile(b"(?=[%s])(?=(%s))" % (re.escape(firsts), _any_of(WORDS)))
    numbers = {word: number for number, word in enumerate(WORDS)}
    shorter = {
        word: [numbers[word[:size]] for size in range(1, len(word) + 1) if word[:size] in numbers] for word in WORDS
    }

    def find(data: bytes) -> list[Match]:
        matches = [
            (number, match.start(), match.start() + len(WORDS[number]))
            for match in pattern.finditer(data)
            for number in shorter[match[1]]
        ]
        return sorted(matches, key=itemgetter(2, 1))

    return find


def _any_of(words: Iterable[bytes]) -> bytes:
    """Return a pattern that matches the longest of the words, by comparing letter by letter."""
    rests: dict[bytes, list[bytes]] = defaultdict(list)
    for word in words:
        rests[word[:1]].append(word[1:])
    options: list[bytes] = []
    for first, group in sorted(rests.items()):
        option = re.escape(first)
        longer = [rest for rest in group if rest]
        if longer:
            option += b"(?:%s)" % _any_of(longer)
        if longer and b"" in group:
            option += b"?"
        options.append(option)
    return b"|".join(options)


def searched_parts(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text that must be searched: everything but the middles of opaque parts."""
    done, position, size = 0, STEP, len(text)
    while position < size:
        opaque = _OPAQUE.match(text, position)
        if opaque is None:
            position += STEP
            continue
        yield done, position + KEPT
        done, position = opaque.end() - KEPT, opaque.end() + 1
    yield done, size


class _Bytes(NamedTuple):
    """A part of a text: as it is, in lower case, and with 1 for each letter of a run and 0 for other characters."""

    data: bytes
    low: bytes
    letters: bytes


class Look:
    """The result of the first look at a text.

    `low` is the text in lower case if it has the stem of a name; each letter beyond Latin-1 is a question mark. `names`
    has the positions of stems, in order. `literals` has the positions of literals, by the number of the word. `marks`
    has the positions of those `MARKS` that the text has. `runs` has the beginnings of long runs that may be text in
    base64, in order. `has_commands` is True if the text has a word of a command that takes a secret. `has_nothing` is
    True if nothing of all this was found.
    """

    __slots__ = ("has_commands", "has_nothing", "literals", "low", "marks", "names", "runs", "text")

    def __init__(
        self,
        text: str,
        find: Callable[[bytes], list[Match]] | None = None,
        *,
        data: bytes = b"",
        may_be_opaque: bool = True,
    ) -> None:
        """Search a text by `find`, or by the quickest search that this interpreter has.

        `data` has the `latin_bytes` of the text if the caller has them. If `may_be_opaque` is False, the caller has
        left out the middles of opaque parts.
        """
        self.text = text
        self.names: list[int] = []
        self.literals: dict[int, list[int]] = {}
        self.marks: dict[str, list[int]] = {}
        self.runs: list[int] = []
        self.has_commands = False
        words: defaultdict[int, list[int]] = defaultdict(list)
        thread = get_ident()
        data = data or latin_bytes(text)
        is_whole = len(text) < LONGEST_ENCODED or not may_be_opaque
        parts: Iterable[tuple[int, int]] = ((0, len(text)),)
        if not is_whole:
            parts = searched_parts(text)
        for begin, end in parts:
            part = data[begin:end]
            low = part.lower()
            inside.add(thread)
            try:  # `is_ending` is read when this thread is in `inside`, so that the end of the interpreter waits for it
                search = find or (find_words_by_pattern() if is_ending else find_words())
                matches = search(low)
            finally:
                inside.discard(thread)
            for number, start, _ in matches:
                words[number].append(begin + start)
            if _ROW_BYTES in part:
                words[_ROW_NUMBER] += [begin + row.start() for row in _ROWS.finditer(part)]
            letters = part.translate(_IN_RUNS)
            run = letters.find(_LONG_RUN)
            if run >= 0:
                self._search_runs(_Bytes(part, low, letters), run, words, begin)
        if words:
            self._divide(words)
        self.has_nothing = not (words or self.runs)
        self.low = ""
        if self.names and is_whole:
            self.low = low.decode("latin-1")
        elif self.names:
            self.low = data.lower().decode("latin-1")

    def _divide(self, words: dict[int, list[int]]) -> None:
        """Divide the words among the searches that use them."""
        for number, positions in words.items():
            if number in _LITERAL_NUMBERS:
                self.literals[number] = positions
            if number < _STEMS_END:
                self.names += positions
            elif number < _COMMANDS_END:
                self.has_commands = True
            elif number < _MARKS_END:
                self.marks[MARKS[number - _COMMANDS_END]] = positions
        self.names.sort()

    def _search_runs(self, part: _Bytes, start: int, words: dict[int, list[int]], begin: int) -> None:
        """Find the runs that may be text in base64, and the literals of `_BESIDE_RUNS`. The first run is at `start`."""
        data, low, letters = part
        find, size, is_first, may_precede = letters.find, len(data), _MAY_BEGIN_TEXT, _MAY_PRECEDE_RUN
        while start >= 0:
            end = find(0, start + ENCODED)
            if end < 0:
                end = size
            if is_first[data[start]] and OF_TEXT.match(data, start):
                self.runs.append(begin + start)
            if may_precede[data[start - 1]]:  # a wrong character if `start` is 0, where no pattern matches
                self._search_before_run(part, start, words, begin)
            if end < size and data[end] == _DOT and letters.startswith(_SIX, end + 1) and _AFTER_RUN.match(low, end):
                words[_BESIDE[b"."]].append(begin + end)
            if end - start >= _SHORTEST_WITH_LITERAL:
                for position, literal in _literals_in(data, low, start, end):
                    words[_BESIDE[literal]].append(begin + position)
            start = find(_LONG_RUN, end)

    def _search_before_run(self, part: _Bytes, start: int, words: dict[int, list[int]], begin: int) -> None:
        """Find the literals before a run. After a backslash, a run may be text in base64 from its second letter on."""
        data, low, _ = part
        if data[start - 1] == _BACKSLASH:
            if OF_TEXT.match(data, start + 1) and self.runs[-1:] != [begin + start]:
                self.runs.append(begin + start)
        elif _BEFORE_RUN.match(low, start):
            for position, literal in _literals_before(low, start):
                words[_BESIDE[literal]].append(begin + position)


def _literals_in(data: bytes, low: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the literals that are in a run, each with its position."""
    # the pattern has no fixed beginning, and would be tried at each letter
    if data.find(b"SK", start, end) >= 0 or data.find(b"KEY", start, end) >= 0:
        for word in _BEFORE_HEX.finditer(data, start, end):
            yield word.start(), word[0].lower()
    if end - start > _TWO_IDS and (ids := _BETWEEN_IDS.search(low, start + 31, end)):
        yield ids.end() - 1, b"-"


def _literals_before(low: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the literals that end right before a run, or with its first letter, or that begin an id with a colon."""
    before, pair, around = low[start - 1 : start], low[start - 2 : start], low[start - 1 : start + 1]
    if before == b"$":
        for salt in _BEFORE_SALT.finditer(low, max(0, start - _LONGEST_SALT), start - 1):
            yield salt.start(), before
    elif before in _BESIDE:
        yield start - 1, before
    if pair in _BESIDE:
        yield start - 2, pair
    if around in _BESIDE:
        yield start - 1, around
    if before == b":" and _HEX.match(low, start):
        for literal in _BEFORE_IDS:
            position = low.rfind(literal, max(0, start - _LONGEST_ID), start)
            if position >= 0:
                yield position, literal
