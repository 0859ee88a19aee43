"""The first look at a text: one search finds every place where a key, the name of a secret or a command may begin.

The fixed beginnings of keys (`SecretForm.literal`) and the stems of secrets' names are one Aho-Corasick automaton over
the bytes of the text in lower case. Where the library `ahocorasick_rs` cannot be imported, one regular expression finds
the same words. Other modules judge only the places that are found. A hostile text repeats the beginnings of keys. Such
a word has no list of places, because another search finds it in C. Invariants: both forms find the same places. A byte
is one character, so positions in the bytes are positions in the text. Opaque parts, such as images and vectors of
numbers, are recognised by their characters, and only their ends are searched.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from operator import itemgetter
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
_MAY_PRECEDE_RUN = b".:|$"
_BEFORE_RUN = lazy_pattern(rb"(?<=pat[a-z0-9]{14}\.)|(?<=[s0]\.)|(?<=[|$])|(?<=:)(?:a|[0-9a-f]{32})")
"""Matches a run that may follow one of the literals in `_BESIDE_RUNS`."""
_BACKSLASH, _DOT = b"\\."
_AFTER_RUN = lazy_pattern(rb"\.[a-z0-9_-]{6}(?:\.|[a-z0-9_-]{10})")
"""Matches a dot after a run if the secret goes on after the dot."""
_IN_RUN = lazy_pattern(rb"-(?=[0-9a-f]{8}-)(?<=[0-9a-f]{32}-)")
"""Matches a hyphen between two ids that are one secret together."""
_TWO_IDS = 49
_BEFORE_HEX = lazy_pattern(rb"(?:SK|KEY)(?=[0-9a-fA-F]{32})")
"""Matches the literals of `_BESIDE_RUNS` that are in a run."""
_SHORTEST_WITH_LITERAL = 34
"""A run has at least this many characters if a literal is in it."""
_FREQUENT, _FEW = 128, 8
"""A word is frequent if a text has it more than once in `_FREQUENT` characters, and more than `_FEW` times."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_IN_RUNS = bytes((code in _LETTERS) for code in range(256))
_LONG_RUN, _SIX = b"\1" * ENCODED, b"\1" * 6
_FIRST_OF_TEXT = b"CDIJKLMNOPQRSTUVWXYZabcdef"
OF_TEXT = lazy_pattern(rb"(?:[CDI-Za-f][ACDEFGHQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){6}")
"""Matches six groups of four letters of base64 that encode three characters of ASCII each.

One in fifteen random groups of four letters matches, too.
"""

Match = tuple[int, int, int]
"""The number of a word, and its span in the text."""


class FrequentWord(NamedTuple):
    """The number of a literal's word that a part of a text has very often, and the span of the part."""

    word: int
    start: int
    end: int


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
_SEARCHED_LITERALS = {form.literal.lower().encode() for form in FORMS if form.literal not in _BESIDE_RUNS}
_IS_LITERAL = bytes(word in _SEARCHED_LITERALS for word in WORDS)
_LITERAL_NUMBERS = frozenset(number for number, is_literal in enumerate(_IS_LITERAL) if is_literal)
_COMMAND_NUMBERS = frozenset(range(_STEMS_END, _COMMANDS_END))
_OTHER_NUMBERS = frozenset(range(_STEMS_END, _MARKS_END))
_word_of = itemgetter(0)


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


class Look:
    """The result of the first look at a text.

    `low` is the text in lower case if it has the stem of a name; each letter beyond Latin-1 is a question mark. `names`
    has the positions of stems. `keys` has the positions of literals, each with the number of its word. `marks` has the
    positions of `MARKS`, each with the mark. `runs` has the beginnings of long runs that may be text in base64. All
    four are in order. `frequent` has the words of literals that a part of the text has very often; the positions of
    these words are not in `keys`. `has_keys` is True if the text has any literal, and `has_commands` if it has a word
    of a command that takes a secret. `has_nothing` is True if nothing of all this was found.
    """

    __slots__ = (
        *("frequent", "has_commands", "has_keys", "has_nothing", "keys", "low", "marks", "names", "runs", "text"),
    )

    def __init__(self, text: str, find: Callable[[bytes], list[Match]] | None = None) -> None:
        """Search a text by `find`, or by the quickest search that this interpreter has."""
        self.text = text
        self.keys: list[tuple[int, int]] = []
        self.frequent: list[FrequentWord] = []
        self.names: list[int] = []
        self.has_commands = False
        self.marks: list[tuple[int, str]] = []
        self.runs: list[int] = []
        thread = get_ident()
        is_short = len(text) < LONGEST_ENCODED
        parts: Iterable[tuple[int, int]] = ((0, len(text)),)
        if not is_short:
            parts = searched_parts(text)
        for start, end in parts:
            data = text[start:end].encode("latin-1", "replace")
            low = data.lower()
            inside.add(thread)
            try:  # `is_ending` is read when this thread is in `inside`, so that the end of the interpreter waits for it
                search = find or (find_words_by_pattern() if is_ending else find_words())
                matches = search(low)
            finally:
                inside.discard(thread)
            if matches:
                self._add_words(matches, start, end)
            if _ROW_BYTES in data:
                self.keys += [(start + row.start(), _BESIDE[_ROW_BYTES.lower()]) for row in _ROWS.finditer(data)]
            letters = data.translate(_IN_RUNS)
            if _LONG_RUN in letters:
                self._search_runs(data, low, letters, start)
        self.has_keys = bool(self.keys or self.frequent)
        self.has_nothing = not (self.has_keys or self.names or self.runs or self.marks or self.has_commands)
        self.keys.sort()
        self.names.sort()
        self.low = ""
        if self.names and is_short:
            self.low = low.decode("latin-1")
        elif self.names:
            self.low = text.encode("latin-1", "replace").lower().decode("latin-1")

    def _add_words(self, matches: list[Match], begin: int, end: int) -> None:
        """Add the words of a part of the text, from its beginning to its end."""
        words = set(map(_word_of, matches))
        frequent: set[int] = set()
        least = max(_FEW, (end - begin) // _FREQUENT)
        if len(matches) > least:
            literals = [word for word in map(_word_of, matches) if word >= _MARKS_END]
            if len(literals) > least:
                frequent = {word for word, count in Counter(literals).items() if count > least}
                self.frequent += [FrequentWord(word, begin, end) for word in sorted(frequent)]
        if not _LITERAL_NUMBERS.isdisjoint(words - frequent):
            self.keys += [
                (begin + start, number)
                for number, start, _ in matches
                if _IS_LITERAL[number] and number not in frequent
            ]
        if min(words) < _STEMS_END:
            self.names += [begin + start for number, start, _ in matches if number < _STEMS_END]
        if not _OTHER_NUMBERS.isdisjoint(words):
            self.has_commands = self.has_commands or not _COMMAND_NUMBERS.isdisjoint(words)
            self.marks += [
                (begin + start, MARKS[number - _COMMANDS_END])
                for number, start, _ in matches
                if _COMMANDS_END <= number < _MARKS_END
            ]

    def _search_runs(self, data: bytes, low: bytes, letters: bytes, begin: int) -> None:
        """Find the runs that may be text in base64, and the literals of `_BESIDE_RUNS`.

        `letters` has 1 for each letter of a run, and 0 for any other character.
        """
        find, may_be_text, size = letters.find, OF_TEXT.match, len(data)
        start = find(_LONG_RUN)
        while start >= 0:
            end = find(0, start + ENCODED)
            if end < 0:
                end = size
            before = data[start - 1]  # a wrong character if `start` is 0, where `_BEFORE_RUN` matches nothing
            if (data[start] in _FIRST_OF_TEXT and may_be_text(data, start)) or (
                before == _BACKSLASH and may_be_text(data, start + 1)
            ):
                self.runs.append(begin + start)
            if before in _MAY_PRECEDE_RUN and _BEFORE_RUN.match(low, start):
                self._search_before_run(low, start, begin)
            if end < size and data[end] == _DOT and letters.startswith(_SIX, end + 1) and _AFTER_RUN.match(low, end):
                self.keys.append((begin + end, _BESIDE[b"."]))
            if end - start >= _SHORTEST_WITH_LITERAL:
                self._search_in_run(data, low, start, end, begin)
            start = find(_LONG_RUN, end)

    def _search_in_run(self, data: bytes, low: bytes, start: int, end: int, begin: int) -> None:
        """Add the literals that are in a run."""
        # the pattern has no fixed beginning, and would be tried at each letter
        if data.find(b"SK", start, end) >= 0 or data.find(b"KEY", start, end) >= 0:
            for word in _BEFORE_HEX.finditer(data, start, end):
                self.keys.append((begin + word.start(), _BESIDE[word[0].lower()]))
        hyphen = low.find(b"-", start + 32, end - 9)
        if end - start > _TWO_IDS and hyphen >= 0 and (ids := _IN_RUN.search(low, hyphen, end)):
            self.keys.append((begin + ids.start(), _BESIDE[b"-"]))

    def _search_before_run(self, low: bytes, start: int, begin: int) -> None:
        """Add the literals that end right before a run, or with its first letter, or that begin an id with a colon."""
        before, pair, around = low[start - 1 : start], low[start - 2 : start], low[start - 1 : start + 1]
        if before == b"$":
            salts = _BEFORE_SALT.finditer(low, max(0, start - _LONGEST_SALT), start - 1)
            self.keys += [(begin + match.start(), _BESIDE[before]) for match in salts]
        elif before in _BESIDE:
            self.keys.append((begin + start - 1, _BESIDE[before]))
        if pair in _BESIDE:
            self.keys.append((begin + start - 2, _BESIDE[pair]))
        if around in _BESIDE:
            self.keys.append((begin + start - 1, _BESIDE[around]))
        if before == b":" and _HEX.match(low, start):
            for literal in _BEFORE_IDS:
                position = low.rfind(literal, max(0, start - _LONGEST_ID), start)
                if position >= 0:
                    self.keys.append((begin + position, _BESIDE[literal]))
