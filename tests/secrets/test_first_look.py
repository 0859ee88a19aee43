"""The first look at a text finds all places at once at which a pattern could match."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random

import pytest

from trace_recorder.storage.redaction.candidates import ENCODED, SHORTEST, Beginnings, PreparedText

_ANY_RUN = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST},}}")


def drawn(seed: int, size: int, long: float) -> str:
    """Draw a text of words, of which `long` are as long as keys."""
    random = Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        letters = random.choice(["abcdefgh_-/", "abcXYZ019+/_-", "tokenkeyauth", "ABC"])
        count = random.randint(10, 90) if random.random() < long else random.randint(1, 11)
        word = "".join(random.choices(letters, k=count)) + random.choice([" ", ".", "\n", "é", "=", "→ ", '"'])
        parts.append(word)
        length += len(word)
    return "".join(parts)


DRAWN = [
    (seed, size, long) for seed, size in enumerate((0, 1, 40, 700, 5000, 90_000)) for long in (0.0, 0.01, 0.2, 1.0)
]


@pytest.fixture(params=DRAWN, ids=str)
def any_text(request: pytest.FixtureRequest) -> str:
    """Draw a text of words of all kinds, some of them as long as keys."""
    return drawn(*request.param)


@pytest.fixture(params=[*DRAWN, "sparse after dense"], ids=str)
def text(request: pytest.FixtureRequest) -> str:
    """Draw such a text, or a text with many long words first and few later."""
    if request.param == "sparse after dense":
        return drawn(1, 40_000, 1.0) + "a b " * 100_000 + "sk-ant-REST0f-the-text-0123456789 " + "c d " * 9
    return drawn(*request.param)


def test_every_long_word_is_found(text: str) -> None:
    """Each run of letters with a capital or a digit is in the words. The start of a long run is noted, because it may
    be decoded.
    """
    look = PreparedText(text)
    runs = [(match.start(), match[0]) for match in _ANY_RUN.finditer(look.plain) if re.search("[A-Z0-9]", match[0])]

    assert look.runs == [position for position, run in runs if len(run) >= ENCODED]
    assert [run for _, run in runs if run not in look.words] == []


def test_a_position_in_the_words_gives_the_position_in_the_text(text: str) -> None:
    """`place` returns for a position in the words the same word's position in the text."""
    look = PreparedText(text)
    places = [(found.start(), found[0]) for found in _ANY_RUN.finditer(look.words)]

    assert [look.plain[look.position_in_text(at) : look.position_in_text(at) + len(run)] for at, run in places] == [
        run for _, run in places
    ]
    assert all(look.position_in_text(one) < look.position_in_text(other) for (one, _), (other, _) in pairwise(places))


def test_words_are_found_by_their_first_letters(any_text: str) -> None:
    """Each occurrence of each word is found once, in small letters and in capitals, and no occurrence of a
    third word.
    """
    data = any_text.replace("ABC", "TOKEN").encode("latin-1", "replace")
    places = Beginnings([["tok", "key"], ["aut"], ["th?"]]).positions(data)
    patterns = [rb"(?i:t(?=ok)|k(?=ey))", rb"(?i:a(?=ut))", rb"(?is:t(?=h.))"]
    exact = [one.start() for some in patterns for one in re.finditer(some, data)]
    crossed = [one.start() for one in re.finditer(rb"(?i:t(?=[oe][ky])|k(?=[oe][ky]))", data)]

    assert set(exact) <= set(places) <= {*exact, *crossed}
    assert places == sorted(set(places))
